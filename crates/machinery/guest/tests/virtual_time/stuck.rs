//! Tests of sessions that do not answer: no command waits for them for ever, and the leftovers of
//! dead sessions are found.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::PATIENCE;
use crate::support::command_line::{CommandLine, User, eventually};

/// Runs a command with a time limit. It would never end if it waited for a session that does not
/// answer.
fn bounded(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child: Child = child.spawn().expect("starting timeloom");
    eventually("the end of the command", || {
        child.try_wait().expect("our own child").is_some()
    });
    child.wait_with_output().expect("our own child")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_stopped_supervisor_keeps_no_command_waiting() {
    // The session belongs to another user, who has no other sessions.
    let line = CommandLine::new("stopped", User::Nobody);
    let mut running = line.exec(["--", "sleep", "3600"]);
    line.wait_for_process("sleep");
    let lively = format!("{}-lively", line.name);
    line.also_of(&lively);
    let mut other = line
        .command(["exec", "--name", &lively, "--", "sleep", "3600"])
        .spawn()
        .expect("starting timeloom");
    eventually("two sessions", || {
        text(&bounded(&mut line.command(["ps"]))).contains(&format!("{lively}: virtual"))
    });
    running.signal(libc::SIGSTOP);

    let listed = bounded(&mut line.command(["ps"]));
    assert!(listed.status.success(), "{}", text(&listed));
    let said = text(&listed);
    let silent = format!("session `{}` does not answer", line.name);
    assert!(said.contains(&silent), "{said}");
    assert!(said.contains(&format!("{lively}: virtual")), "{said}");
    let asked = bounded(&mut line.command(["pause", "--name", &line.name]));
    assert!(!asked.status.success());
    assert!(text(&asked).contains(&silent), "{}", text(&asked));
    // The session lives, so none of its objects is a leftover.
    let cleaned = bounded(&mut line.command(["clean", "--json"]));
    assert!(!text(&cleaned).contains(&line.name), "{}", text(&cleaned));

    running.signal(libc::SIGCONT);
    line.ask(&["query"]);
    // SAFETY: the process is our own child, which was not reaped yet: `setpriv` has executed
    // timeloom.
    unsafe { libc::kill(other.id() as i32, libc::SIGTERM) };
    let _ = other.wait();
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
}

/// A program that was being started when its supervisor was killed may still have the control
/// socket.
#[test]
fn a_process_that_inherited_a_dead_sessions_socket_is_found_and_ended() {
    const HEIR: &str = r#"
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
child = os.fork()
if child == 0:
    os.setsid()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    import time
    time.sleep(3600)
print(child)
"#;
    let line = CommandLine::new("heir", User::Nobody);
    let directory = line.scratch.path("runtime/timeloom");
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&directory)
        .expect("a new directory");
    std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).expect("root may");
    let socket = directory.join(format!("{}.sock", line.name));
    let made = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["/usr/bin/python3", "-c", HEIR])
        .arg(&socket)
        .stdin(Stdio::null())
        .output()
        .expect("python3");
    let heir: i32 = text(&made).trim().parse().expect("the heir's number");

    let listed = bounded(&mut line.command(["ps"]));
    assert!(listed.status.success(), "{}", text(&listed));
    assert!(
        text(&listed).contains("timeloom clean"),
        "{}",
        text(&listed)
    );
    let cleaned = bounded(&mut line.command(["clean", "--json"]));
    assert!(
        text(&cleaned).contains(&heir.to_string()),
        "{}",
        text(&cleaned)
    );
    assert!(!socket.exists());
    eventually("the end of the heir", || {
        let state = crate::support::command_line::state_of(heir);
        matches!(state, None | Some('Z'))
    });
    line.assert_nothing_left();
}

/// Duplicates the supervisor's `/dev/fuse`, as a child of the supervisor could have inherited it.
fn steal_device(supervisor: i32) -> Option<File> {
    let open = fs::read_dir(format!("/proc/{supervisor}/fd")).ok()?;
    let number: i32 = open.flatten().find_map(|entry| {
        let to = fs::read_link(entry.path()).ok()?;
        (to.to_str()? == "/dev/fuse").then(|| entry.file_name().to_str()?.parse().ok())?
    })?;
    // SAFETY: no pointers; the descriptors are new, and ours.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, supervisor, 0);
        let device = libc::syscall(libc::SYS_pidfd_getfd, pidfd, number, 0);
        libc::close(pidfd as i32);
        (device >= 0).then(|| File::from_raw_fd(device as i32))
    }
}

/// After the last process has closed the device of `/proc/uptime` and `/proc/stat`, the kernel ends
/// their file system. If a process still has it open, the reaper does so.
#[test]
fn an_inherited_device_keeps_no_reader_waiting() {
    let line = CommandLine::new("inherited", User::Same);
    let running = line.exec(["--", "sleep", "3600"]);
    let guest = line.wait_for_process("sleep")[0];
    let proc = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(format!("/proc/{guest}/root/proc"))
        .expect("what the guest sees");
    // Mounts in the namespace exist as long as the namespace.
    let mounts = File::open(format!("/proc/{guest}/ns/mnt")).expect("the guest's namespace");
    let mut device = None;
    eventually("the device", || {
        device = steal_device(running.pid());
        device.is_some()
    });
    let uptime = move || {
        // SAFETY: passes a descriptor and a C string.
        let file = unsafe { libc::openat(proc.as_raw_fd(), c"uptime".as_ptr(), libc::O_RDONLY) };
        if file < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and has no other owner.
        let file = unsafe { File::from_raw_fd(file) };
        std::io::read_to_string(file)
    };
    assert!(uptime().is_ok(), "the files are served");
    running.signal(libc::SIGKILL);
    eventually("the end of all processes", || line.processes().is_empty());
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || tell.send(uptime()));
    let answer = told.recv_timeout(PATIENCE.min(Duration::from_secs(30)));
    drop(device); // releases a waiting reader
    let error = answer
        .expect("the open ends without the dead server")
        .expect_err("the server of the files is dead");
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN), "{error}");
    let _ = reader.join();
    drop(mounts);
    line.assert_nothing_left();
}

#[test]
fn sessions_are_not_looked_for_where_others_could_put_them() {
    let line = CommandLine::new("planted", User::Nobody);
    let directory = line.scratch.path("runtime/timeloom");
    fs::DirBuilder::new()
        .mode(0o755)
        .create(&directory)
        .expect("a new directory");
    // The directory belongs to root, which is trusted, but all users can write to it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&directory, mode).expect("ours");
    let socket = directory.join("fake.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a new socket");
    for arguments in [&["ps"][..], &["query"], &["exec", "--", "true"], &["clean"]] {
        let refused = bounded(&mut line.command(arguments));
        assert!(
            !refused.status.success(),
            "{arguments:?}: {}",
            text(&refused)
        );
        assert!(text(&refused).contains("chmod go-w"), "{}", text(&refused));
    }
    // A directory that belongs to another user is not trusted either.
    std::os::unix::fs::chown(&directory, Some(65533), None).expect("root may");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&directory, mode).expect("ours");
    let refused = bounded(&mut line.command(["ps"]));
    assert!(text(&refused).contains("uid 65533"), "{}", text(&refused));
    fs::remove_file(&socket).expect("ours");
    drop(listener);
    line.assert_nothing_left();
}

/// A process that maps a file with the name of a clock page is not a guest.
#[test]
fn clean_ends_no_process_for_the_name_of_a_file() {
    const MAPS: &str = r#"
import mmap, sys
file = open(sys.argv[1], "wb+")
file.truncate(4096)
mapping = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
print("mapped", flush=True)
sys.stdin.read()
"#;
    let line = CommandLine::new("bystanding", User::Nobody);
    // The supervisor that the name contains does not exist.
    let file = line
        .scratch
        .path(&format!("timeloom-abi-{}.4194304.0", line.name));
    let mut bystander = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["/usr/bin/python3", "-c", MAPS])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut said = [0; 6];
    let stdout = bystander.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(stdout, &mut said).expect("it says so");
    let cleaned = bounded(&mut line.command(["clean", "--json"]));
    assert!(cleaned.status.success(), "{}", text(&cleaned));
    let running = bystander.try_wait().expect("our own child").is_none();
    let _ = bystander.kill();
    let _ = bystander.wait();
    assert!(running, "{}", text(&cleaned));
    let number = bystander.id().to_string();
    assert!(!text(&cleaned).contains(&number), "{}", text(&cleaned));
    line.assert_nothing_left();
}
