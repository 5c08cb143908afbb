//! Tests that time namespaces are refused with a reason, since no clock page has their offsets.

use std::process::{Child, Command, Stdio};

use timeloom_test_support::need_root;

use crate::support::{Line, Lines, Program, World, c_program};

/// Process in its own time namespace. It is killed when this value is dropped.
struct Elsewhere(Child);

impl Elsewhere {
    fn new() -> Self {
        need_root();
        let mut child = Command::new("unshare")
            .args(["--time", "--monotonic", "1000", "--boottime", "1000"])
            .args(["--fork", "--kill-child", "sh", "-c", "echo $$; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare of util-linux");
        let output = child.stdout.as_mut().expect("just made");
        // The shell runs, and is therefore in its namespace.
        let mut byte = [0];
        std::io::Read::read_exact(output, &mut byte).expect("a shell that begins");
        Self(child)
    }

    /// Returns the identifier of the process in the namespace.
    fn pid(&self) -> i32 {
        let path = format!("/proc/{0}/task/{0}/children", self.0.id());
        let children = std::fs::read_to_string(path).expect("our own child");
        children.trim().parse().expect("one child")
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const INTO_ANOTHER: [&str; 5] = [
    "new",
    "new_with_others",
    "entered",
    "entered_any",
    "entered_by_process",
];

#[test]
fn a_time_namespace_is_refused_and_reported_and_others_are_not() {
    let elsewhere = Elsewhere::new();
    let argv = [
        c_program("time_namespaces").into(),
        elsewhere.pid().to_string().into(),
    ];
    let (native, status) = Program::native(&argv).finish();
    assert_eq!(status, 0, "{native:?}");
    let native = Lines::parse(&native);
    let is_done = |line: &Line| line.case == "slept" || line.number("ret") == 0;
    assert!(native.0.values().all(is_done), "{native:?}");

    for allowed in [false, true] {
        let world = World::new("time-namespaces", 1.0);
        if allowed {
            world.session.allow_leaks();
        }
        let (lines, status) = world.start(argv.clone()).finish();
        assert_eq!(status, 0, "{lines:?}");
        let guest = Lines::parse(&lines);
        for (case, line) in &guest.0 {
            if !allowed && INTO_ANOTHER.contains(&case.as_str()) {
                let told = (line.number("ret"), line.number("errno") as i32);
                assert_eq!(told, (-1, libc::EINVAL), "{line:?}");
            } else {
                assert_eq!(line, &native.0[case]);
            }
        }
        let outcome = if allowed {
            "done in real time"
        } else {
            "refused with EINVAL, as by a kernel without time namespaces"
        };
        let calls = world.session.unhandled_calls();
        let told: Vec<_> = calls
            .iter()
            .map(|it| (it.call, it.outcome, it.count))
            .collect();
        assert_eq!(told, [("setns", outcome, 3), ("unshare", outcome, 2)]);
        let warnings = world.warnings.lock().expect("no panic while held");
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings.iter().all(|text| text.contains("time namespace")),
            "{warnings:?}"
        );
    }
}

/// Covers `unshare` of util-linux, the usual way to create a time namespace.
#[test]
fn unshare_of_util_linux_says_that_it_cannot() {
    need_root();
    let world = World::new("unshare", 1.0);
    let script = "unshare --time --boottime 100 --monotonic 100 true; echo $?; \
        unshare --uts --mount true; echo $?";
    let (lines, _) = world.start(["sh", "-c", script]).finish();
    let [complaint, refused, made] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(complaint.contains("Invalid argument"), "{lines:?}");
    assert_eq!((refused.as_str(), made.as_str()), ("1", "0"));
}

#[test]
fn a_process_in_another_time_namespace_is_not_brought_in() {
    let elsewhere = Elsewhere::new();
    let world = World::new("register-elsewhere", 1.0);
    let refused = world.session.register(elsewhere.pid());
    let refused = refused.expect_err("its clocks have offsets").to_string();
    assert!(refused.contains("another time namespace"), "{refused}");
}
