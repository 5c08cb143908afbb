//! Tests `timeloom clean` where a session's supervisor is alive but not visible.

use std::process::{Command, Stdio};

use crate::support::command_line::{CommandLine, User, eventually, timeloom};

/// Script that runs below one cgroup of this test, as in a container, and with its own directories
/// for sockets. So `clean` affects no other session of the machine.
const SCRIPT: &str = r#"
set -e
mount=$1 timeloom=$2 name=$3
mount --make-rprivate /
umount -l "$mount"
mount -t cgroup2 none "$mount"
mount -t tmpfs none /run
hidden='mount -t tmpfs none /run; exec "$0" clean --json'
clean() { unshare --pid --fork --mount --mount-proc sh -c "$hidden" "$timeloom"; }
"$timeloom" exec --name $name -- sleep 600 >/dev/null 2>&1 & supervisor=$!
trap 'kill -KILL $supervisor 2>/dev/null' EXIT
until "$timeloom" query --name $name --json 2>/dev/null | grep -q '"sleep"'; do sleep 0.1; done
echo living $(clean)
"$timeloom" query --name $name --json | grep -q '"sleep"' && echo answers
for child in $(cat /proc/$supervisor/task/*/children); do
    if [ "$(cat /proc/$child/comm)" = timeloom-keeper ]; then kill -KILL $child; fi
done
kill -KILL $supervisor; wait $supervisor || true
echo dead $(clean)
[ -e "$mount/timeloom.$name" ] && echo there || echo removed
"#;

/// Returns the mount point of the cgroup file system.
fn mount() -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("Linux has it");
    let mut fields = mounts.lines().map(|line| line.split(' '));
    let found = fields.find_map(|mut line| {
        let place = line.nth(1)?.to_owned();
        (line.next()? == "cgroup2").then_some(place)
    });
    found.expect("version 2 of cgroups is mounted")
}

#[test]
fn a_session_lives_although_its_supervisor_is_in_another_pid_namespace() {
    let line = CommandLine::new("clean-namespace", User::Same);
    let (mount, name) = (mount(), line.name.as_str());
    let cgroup = format!("{mount}/{name}");
    std::fs::create_dir(&cgroup).expect("root may");
    let enter = "echo 0 >\"$0/cgroup.procs\"; \
                 exec unshare --cgroup --mount bash -c \"$SCRIPT\" script \"$@\"";
    let output = Command::new("bash")
        .args(["-c", enter, &cgroup, &mount])
        .arg(timeloom())
        .arg(name)
        .env("SCRIPT", SCRIPT)
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // Removes the cgroup after a failed test, too.
    let _ = std::fs::write(format!("{cgroup}/cgroup.kill"), "1");
    eventually("the end of the cgroup", || {
        let mut remove = Command::new("find");
        let remove = remove.args([&cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
        let _ = remove.stderr(Stdio::null()).status();
        !std::path::Path::new(&cgroup).exists()
    });
    let nothing = r#"living {"cgroups":[],"processes":[],"sockets":[]}"#;
    assert!(said.contains(nothing), "{said}");
    assert!(said.contains("answers"), "{said}");
    assert!(said.contains(&format!("timeloom.{name}\"]")), "{said}");
    assert!(said.contains("removed"), "{said}");
    line.assert_nothing_left();
}
