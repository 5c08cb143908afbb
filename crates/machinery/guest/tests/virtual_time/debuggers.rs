//! Tests that debuggers in a session show the same as natively.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::command_line::{CommandLine, User, eventually, processes_of};
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
    let (source, program) = (scratch.path("adds.c"), scratch.path("adds"));
    fs::write(&source, PROGRAM).expect("a directory of ours");
    must_run(
        Command::new("gcc")
            .args(["-g", "-O0", "-o"])
            .args([&program, &source]),
    );
    program
}

/// Runs a debugger natively and in a session. Returns both outputs.
fn both(line: &CommandLine, command: &[&str]) -> [Output; 2] {
    let mut natively = Command::new(command[0]);
    natively.args(&command[1..]);
    let mut inside = line.command(["exec", "--name", &line.name, "--"]);
    inside.args(command);
    [natively, inside].map(|mut command| {
        let command = command.stdin(Stdio::null());
        command.output().expect("a debugger is there")
    })
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
gdb -nx -q -batch -ex 'set debuginfod enabled off' -ex "shell (sleep 1; kill -INT $pid) &" \
    -ex continue -ex detach -p $pid
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
