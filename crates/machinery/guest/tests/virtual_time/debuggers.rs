//! Tests that debuggers in a session show the same as natively.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::command_line::{CommandLine, User, command_of, eventually, processes_of};
use crate::support::{Scratch, must_run};

/// Source of a program that adds numbers in steps, sleeps in between, and then executes the program
/// named by its arguments.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static int counted;
static void rest(int ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&time, 0);
}
static void step(int i) {
  counted += i;
  rest(20);
}
int main(int argc, char **argv) {
  for (int i = 1; i <= 4; i++)
    step(i);
  printf("counted %d\n", counted);
  fflush(stdout);
  if (argc > 1)
    execv(argv[1], argv + 1);
  return 0;
}
"#;

/// Commands for gdb: start at the first instruction, step, break, watch, and follow an exec.
const GDB: &str = "set debuginfod enabled off
starti
x/2i $pc
stepi
stepi
info registers rip
break step if i == 2
continue
next
next
next
watch counted
continue
continue
delete
catch exec
continue
info registers rip
delete
continue
";

fn program(scratch: &Scratch) -> PathBuf {
    compiled(scratch, "adds", PROGRAM)
}

/// Compiles a C program with debugging information, and returns its path.
fn compiled(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let (source, program) = (scratch.path(&format!("{name}.c")), scratch.path(name));
    fs::write(&source, text).expect("a directory of ours");
    must_run(
        Command::new("gcc")
            .args(["-g", "-O0", "-o"])
            .args([&program, &source]),
    );
    program
}

/// Returns the command with a limit of two minutes, after which it is terminated. A debugger that
/// waits for a stop in vain would not end.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited
        .arg("120")
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// Runs a debugger natively and in a session. Returns both outputs.
fn both(line: &CommandLine, command: &[&str]) -> [Output; 2] {
    let mut natively = Command::new(command[0]);
    natively.args(&command[1..]);
    let mut inside = line.command(["exec", "--name", &line.name, "--"]);
    inside.args(command);
    [natively, inside].map(|command| limited(&command).output().expect("coreutils are there"))
}

/// Returns the lines of the output, without process identifiers and without addresses on the stack,
/// which begins higher if there are fewer environment variables.
fn transcript(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let replace = |(before, word): (&str, &str)| match word {
        _ if before.ends_with("process") => "N".to_owned(),
        _ if word.contains("=0x7fff") => "ADDRESS".to_owned(),
        _ => word.to_owned(),
    };
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let before = [""].iter().chain(&words).copied();
        let words: Vec<String> = before.zip(words.iter().copied()).map(replace).collect();
        words.join(" ")
    });
    lines.collect()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("made of plain names")
}

#[test]
fn gdb_steps_breaks_watches_and_follows_an_exec_as_natively() {
    let line = CommandLine::new("gdb", User::Same);
    let (program, commands) = (program(&line.scratch), line.scratch.path("commands"));
    fs::write(&commands, GDB).expect("a directory of ours");
    for shell in ["on", "off"] {
        let shell = format!("set startup-with-shell {shell}");
        let gdb = [
            "gdb",
            "-nx",
            "-q",
            "-batch",
            "-ex",
            &shell,
            "-x",
            path(&commands),
        ];
        let what = ["--args", path(&program), "/bin/echo", "executed"];
        let [natively, inside] = both(&line, &[&gdb[..], &what].concat());
        assert!(
            natively.status.success() && inside.status.success(),
            "{inside:?}"
        );
        let expected = transcript(&natively);
        let has = |text: &str| expected.iter().any(|line| line.contains(text));
        assert!(
            has("Hardware watchpoint 2") && has("executed"),
            "{expected:#?}"
        );
        assert_eq!(transcript(&inside), expected, "{shell}");
    }
    line.assert_nothing_left();
}

#[test]
fn gdb_attaches_interrupts_and_detaches() {
    const SCRIPT: &str = r#"
sleep 600 & pid=$!
timeout 120 gdb -nx -q -batch -ex 'set debuginfod enabled off' \
    -ex "shell (sleep 1; kill -INT $pid) &" -ex continue -ex detach -p $pid
cat /proc/$pid/comm
kill $pid; wait $pid; echo slept $?
"#;
    let line = CommandLine::new("gdb-attach", User::Same);
    let mut session = line.exec(["--", "bash", "-c", SCRIPT]);
    assert_eq!(session.wait(), 0, "{}", line.output());
    let text = line.output();
    for part in ["received signal SIGINT", "detached", "sleep\n", "slept 143"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains("signal SIGSYS"), "{text}");
    line.assert_nothing_left();
}

/// Source of a program that takes steps, and sleeps in between, until a debugger changes a variable
/// of it.
const STEPS: &str = r#"
#include <stdio.h>
#include <time.h>
static volatile int taken, enough;
static void take_step(void) {
  struct timespec time = {0, 20000000};
  taken++;
  nanosleep(&time, 0);
}
int main(void) {
  while (!enough)
    take_step();
  printf("ended after %s\n", taken > 2 ? "steps" : "nothing");
  return 0;
}
"#;

#[test]
fn timeloom_gdb_attaches_from_outside_breaks_continues_and_detaches() {
    let line = CommandLine::new("gdb-outside", User::Same);
    let program = compiled(&line.scratch, "steps", STEPS);
    let mut session = line.exec([Path::new("--"), &program]);
    line.wait_for_process("steps");
    let of_session = processes_of(&line.name);
    let pid = of_session
        .into_iter()
        .find(|pid| command_of(*pid) == "steps");
    let pid = pid.expect("just waited for").to_string();
    let mut gdb = line.command(["gdb", "-p", &pid, "-nx", "-q", "-batch"]);
    for command in [
        "set debuginfod enabled off",
        "break take_step",
        "continue",
        "continue",
        "delete",
        // The shell's child interrupts the program while it sleeps, after some of its calls.
        &format!("shell (sleep 1; kill -INT {pid}) &"),
        "continue",
        "set var enough = 1",
        "detach",
    ] {
        gdb.args(["-ex", command]);
    }
    let ended = limited(&gdb).output().expect("running timeloom");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(
        text.matches("Breakpoint 1, take_step ()").count(),
        2,
        "{text}"
    );
    for part in ["received signal SIGINT", "detached"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains("signal SIGSYS"), "{text}");
    assert_eq!(session.wait(), 0, "{}", line.output());
    assert!(
        line.output().contains("ended after steps"),
        "{}",
        line.output()
    );
    line.assert_nothing_left();
}

#[test]
fn timeloom_gdb_starts_a_program_in_a_session() {
    const COMMANDS: &str = "set debuginfod enabled off
break step if i == 2
run
info proc mappings
delete
continue
";
    let line = CommandLine::new("gdb-program", User::Same);
    let (program, commands) = (program(&line.scratch), line.scratch.path("commands"));
    fs::write(&commands, COMMANDS).expect("a directory of ours");
    let (program, options) = (
        path(&program),
        ["-nx", "-q", "-batch", "-x", path(&commands)],
    );
    // A program and its arguments; and options of gdb.
    for arguments in [
        &[program, "/bin/echo", "executed"][..],
        &[&options[..], &["--args", program]].concat(),
    ] {
        let mut gdb = line.command(["gdb"]);
        let input = fs::File::open(&commands).expect("just written");
        let ended = limited(gdb.args(arguments)).stdin(input).output();
        let ended = ended.expect("running timeloom");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{ended:?}");
        for part in [", step (i=2)", "timeloom-abi-exec-", "counted 10"] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        assert_eq!(text.contains("executed\n"), arguments.len() == 3, "{text}");
    }
    line.assert_nothing_left();
}

#[test]
fn timeloom_gdb_without_gdb_names_the_package() {
    let line = CommandLine::new("gdb-missing", User::Same);
    for arguments in [["gdb", "-p", "1"], ["gdb", "/bin/true", "1"]] {
        let mut gdb = line.command(arguments);
        let refused = gdb.env("PATH", "/nonexistent").output();
        let refused = refused.expect("running timeloom");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        for part in ["cannot execute gdb", "apt-get install gdb"] {
            assert!(said.contains(part), "no `{part}` in {said}");
        }
    }
}

/// Returns the names of the system calls that strace lists, up to the first that traps.
fn calls_until_the_first_trap(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("strace wrote it");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let names = lines.map(|(_, call)| call.trim().split('(').next().unwrap_or("").to_owned());
    names
        .take_while(|name| !name.contains("nanosleep"))
        .collect()
}

#[test]
fn strace_lists_the_calls_of_a_program_and_none_of_its_preparation() {
    let line = CommandLine::new("strace", User::Same);
    let (program, list) = (program(&line.scratch), line.scratch.path("list"));
    let strace = [
        "strace",
        "-f",
        "-o",
        path(&list),
        path(&program),
        "/bin/echo",
        "executed",
    ];
    let mut lists = Vec::new();
    let mut command = Command::new(strace[0]);
    let natively = command
        .args(&strace[1..])
        .output()
        .expect("strace is there");
    lists.push(calls_until_the_first_trap(&list));
    let mut command = line.command(["exec", "--name", &line.name, "--"]);
    let inside = command.args(strace).output().expect("running timeloom");
    lists.push(calls_until_the_first_trap(&list));
    assert_eq!(inside.status.code(), Some(0), "{inside:?}");
    assert_eq!(inside.stdout, natively.stdout);
    assert!(lists[0].len() > 10, "{lists:?}");
    assert_eq!(lists[0], lists[1]);
    line.assert_nothing_left();
}

#[test]
fn an_exec_that_a_debugger_outside_traces_is_refused_at_once_with_the_reason() {
    let line = CommandLine::new("traced-outside", User::Same);
    let mut session = line.exec([
        "--",
        "sh",
        "-c",
        "read go </dev/null; sleep 2; /bin/true; echo $?",
    ]);
    line.wait_for_process("sleep");
    let of_session = processes_of(&line.name);
    let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let shell = of_session
        .into_iter()
        .find(|pid| name(pid) == "sh\n")
        .expect("it is there");
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-p", &shell.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is there");
    assert_eq!(session.wait(), 0, "{}", line.output());
    strace.wait().expect("our child");
    eventually("the refusal", || line.output().contains("126"));
    let said = line.output();
    assert!(said.contains("runs outside of the session"), "{said}");
    assert!(said.contains("timeloom exec -- strace"), "{said}");
    line.assert_nothing_left();
}
