//! Tests of a program's rights over objects that are not its own: the terminal from which it was
//! started, its host's clock, and open files of its parent.

use std::process::{Command, Output, Stdio};

use crate::support::command_line::{CommandLine, User, timeloom};

/// Script that runs a command on a terminal, and prints the terminal's output.
const ON_A_TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
text = b''
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    text += part
sys.stdout.write(text.decode().replace('\\r', ''))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Script that inserts input into each terminal that it can access, by both ways of Linux, and
/// prints everything else that it has inherited from its parent.
const PROBE: &str = "
import fcntl, os, termios
for place in ('/dev/tty', 0, 2):
    try:
        file = os.open(place, os.O_RDWR) if place == '/dev/tty' else place
        fcntl.ioctl(file, termios.TIOCSTI, b'x')
        print('typed into', place)
    except OSError as error:
        print(place, 'refused', error.errno)
    try:
        # TIOCLINUX, with the request to insert the console's selection.
        fcntl.ioctl(file, 0x541c, b'\\x03')
        print('pasted into', place)
    except OSError as error:
        print('paste', place, 'refused', error.errno)
print('leads', os.getsid(0) == os.getpid(), 'foreground', os.tcgetpgrp(0) == os.getpgrp())
print('files', sorted(int(number) for number in os.listdir('/proc/self/fd') if int(number) > 8))
print('secret', os.environ.get('SECRET'), 'given', os.environ.get('GIVEN'))
print('home', os.environ.get('HOME'))
";

fn on_a_terminal(line: &CommandLine, more: &[&str]) -> Output {
    // The parent has a descriptor that the program must not inherit.
    Command::new("bash")
        .args(["-c", "exec 9</dev/null; exec \"$@\"", "bash"])
        .args(["/usr/bin/python3", "-c", ON_A_TERMINAL])
        .arg(timeloom())
        .args(["exec", "--name", &line.name])
        .args(more)
        .args(["--", "/usr/bin/python3", "-c", PROBE])
        .envs([("SECRET", "1"), ("GIVEN", "2")])
        .stdin(Stdio::null())
        .output()
        .expect("bash is there")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_program_of_another_user_has_a_terminal_of_its_own_and_types_into_none() {
    let line = CommandLine::new("terminal", User::Same);
    let said = text(&on_a_terminal(
        &line,
        &["--user", "65534:65534", "--env", "GIVEN"],
    ));
    for part in [
        "/dev/tty refused 5",
        "0 refused 5",
        "2 refused 5",
        "paste /dev/tty refused 1",
        "paste 0 refused 1",
        "paste 2 refused 1",
        "leads True foreground True",
        "files []",
        "secret None given 2",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(!said.contains("home /root"), "{said}");
    assert!(said.contains("ioctl(TIOCSTI)"), "the user is told: {said}");
    line.assert_nothing_left();
}

/// A shell keeps its job control, and a program that the user starts keeps its descriptors.
#[test]
fn a_program_of_our_own_user_shares_terminal_files_and_variables() {
    let line = CommandLine::new("terminal-own", User::Same);
    let said = text(&on_a_terminal(&line, &[]));
    for part in [
        // With CAP_SYS_ADMIN the request reaches the kernel, where no pseudo-terminal supports it.
        "paste 0 refused 25",
        "leads False foreground True",
        "files [9",
        "secret 1 given 2",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    line.assert_nothing_left();
}

#[test]
fn a_user_namespace_of_its_own_gives_no_right_to_a_hosts_clock() {
    const SET: &str = "
import time
try:
    time.clock_settime(time.CLOCK_REALTIME, 1e9)
    print('set to', int(time.time()))
except OSError as error:
    print('refused', error.errno)
";
    let line = CommandLine::new("namespace-clock", User::Same);
    let python = ["/usr/bin/python3", "-c", SET];
    let run = |before: &[&str]| {
        let mut command = line.command(["exec", "--name", &line.name, "--"]);
        let output = command.args(before).args(python).output();
        text(&output.expect("running timeloom"))
    };
    assert_eq!(run(&[]), "set to 1000000000\n");
    let own = ["unshare", "--user", "--map-root-user"];
    assert_eq!(run(&own), "refused 1\n");
    line.assert_nothing_left();
}
