use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};

use super::*;

fn unique(theme: &str) -> String {
    format!("traces-{}-{theme}", std::process::id())
}

/// Asserts that the description of a remaining object contains `word`, and that nothing remains
/// after `undo`.
fn is_found(traces: &Traces, word: &str, undo: impl FnOnce()) {
    // A child that another test starts has this process's descriptors between fork and exec.
    let mut left = Vec::new();
    crate::eventually("one object remains", || {
        left = traces.left();
        left.len() == 1
    });
    assert!(left[0].contains(word), "no {word:?} in {left:?}");
    undo();
    traces.assert_nothing_left();
}

fn start(traces: &Traces, arguments: &[&str]) -> Child {
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).stdout(Stdio::null());
    traces.mark(&mut command).spawn().expect("a program")
}

fn end(mut child: Child) {
    child.kill().expect("our own child");
    child.wait().expect("our own child");
}

#[test]
fn a_name_is_no_part_of_a_longer_one() {
    for text in ["timeloom.e2e-1-1.helpers", "/run/timeloom/e2e-1-1.sock"] {
        assert!(names(text, "e2e-1-1"), "{text}");
    }
    for text in ["e2e-1-10", "e2e-1-1-x", "ne2e-1-1", ""] {
        assert!(!names(text, "e2e-1-1"), "{text}");
    }
}

#[test]
fn only_the_own_process_is_found_until_it_ends() {
    let (own, other) = (Traces::of(&unique("own")), Traces::of(&unique("other")));
    let child = start(&own, &["sleep", "1000"]);
    testing_eventually(|| own.processes() == [child.id() as i32]);
    assert_eq!(other.left(), Vec::<String>::new());
    is_found(&own, "sleep 1000", || end(child));
}

/// Waits until `is_so` returns true. Waiting is needed because the child has this process's
/// environment between fork and exec.
fn testing_eventually(is_so: impl FnMut() -> bool) {
    crate::eventually("a process with the mark", is_so);
}

#[test]
fn leftovers_in_its_directories_are_found() {
    let place = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("a directory");
    let traces = Traces::of(&unique("files")).at(place.path());
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("run/logs")).expect("a new directory");
    fs::write(at("run/logs/whole.log"), "").expect("a new file");
    fs::write(other.path().join("x.partial"), "").expect("a new file");
    let _elsewhere = UnixListener::bind(other.path().join("socket")).expect("a new socket");
    assert_eq!(traces.left(), Vec::<String>::new());
    for name in ["run/report.html.partial", "run/journal.reserve"] {
        fs::write(at(name), "").expect("a new file");
        is_found(&traces, name, || fs::remove_file(at(name)).expect("ours"));
    }
    let file = File::open(at("run/logs/whole.log")).expect("ours");
    is_found(&traces, "whole.log", || drop(file));
    // The socket is found twice: in the kernel's list, and by its file.
    let listener = UnixListener::bind(at("socket")).expect("a new socket");
    assert_eq!(traces.left().len(), 2, "{:?}", traces.left());
    fs::remove_file(at("socket")).expect("ours");
    is_found(&traces, "socket", || drop(listener));
}

#[test]
fn leftovers_with_a_sessions_name_are_found() {
    let (own, second) = (unique("named"), unique("second"));
    let mut traces = Traces::of(&own);
    traces.also_of(&second);
    for name in [&own, &second] {
        let path = Path::new("/dev/shm").join(format!("{name}.sock"));
        fs::write(&path, "").expect("a new file");
        is_found(&traces, "/dev/shm", || {
            fs::remove_file(&path).expect("ours")
        });
    }
    crate::need_root();
    let Some(mount) = timeloom_sys::cgroup::mount() else {
        return;
    };
    let group = mount.join(format!("timeloom.{second}.helpers"));
    fs::create_dir(&group).expect("a new control group");
    is_found(&traces, "control group", || {
        fs::remove_dir(&group).expect("ours")
    });
}

#[test]
fn a_network_is_found_while_a_descriptor_holds_it() {
    crate::need_root();
    let mut traces = Traces::of(&unique("network"));
    let child = start(&traces, &["unshare", "--net", "sleep", "1000"]);
    crate::eventually("its network", || {
        traces.look();
        traces.networks() == 1
    });
    let held = File::open(format!("/proc/{}/ns/net", child.id())).expect("it lives");
    end(child);
    is_found(&traces, "namespace net", || drop(held));
}

#[test]
fn a_mount_in_its_directories_is_found() {
    crate::need_root();
    let place = tempfile::tempdir().expect("a directory");
    let mut traces = Traces::of(&unique("mount")).at(place.path());
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let done = command.args(arguments).arg(place.path()).status();
        assert!(done.expect("a program of every machine").success());
    };
    run("mount", &["-t", "tmpfs", "tmpfs"]);
    is_found(&traces, "mount", || run("umount", &[]));
    run("mount", &["-t", "tmpfs", "tmpfs"]);
    traces.expect_mounts();
    run("mount", &["-o", "remount,size=2m"]);
    traces.assert_nothing_left();
    run("umount", &[]);
}
