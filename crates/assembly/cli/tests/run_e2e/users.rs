//! Programs and plants that are not root: their users and rights must be as requested, and clock,
//! pauses and end as for all programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use timeloom_results::Outcome;

use crate::support::{Lab, Scenario, log_lines, timeloom};

/// Mask of CAP_NET_BIND_SERVICE, as the kernel prints it.
const BIND_SERVICE: &str = "0000000000000400";
const NONE: &str = "0000000000000000";

/// Paths at which a machine may have a Python that other users can execute.
const PYTHONS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

fn python() -> &'static str {
    let found = PYTHONS.into_iter().find(|path| Path::new(path).exists());
    found.expect("a Python for all users (Debian's package python3)")
}

fn who(name: &'static str, port: &'static str) -> [&'static str; 4] {
    [python(), "who.py", name, port]
}

/// Makes the laboratory writable for all users.
fn opened(lab: &Lab) {
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(lab.path(), open).expect("it is ours");
}

fn lines(lab: &Lab, program: &str) -> Vec<String> {
    let log = log_lines(&lab.run_path(), program);
    log.into_iter().map(|(_, line)| line).collect()
}

fn expect_line(lines: &[String], line: &str) {
    assert!(
        lines.iter().any(|it| it == line),
        "no `{line}` in {lines:#?}"
    );
}

fn owner(file: &Path) -> u32 {
    fs::metadata(file).expect("it was written").uid()
}

/// One program has a capability, one has none, and one is root with a single capability. Each must
/// follow the session's clock, stop with it, and end with it.
#[test]
fn programs_have_the_stated_user_and_capabilities_and_follow_the_clock() {
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program(
                'a',
                "server",
                &who("server", "80"),
                "user = \"65534\"\ncapabilities = [\"net_bind_service\"]\nready = \"log:ready\"",
            )
            .program(
                'a',
                "plain",
                &who("plain", "81"),
                "user = \"3141592:2718281\"\nready = \"log:ready\"",
            )
            .program(
                'b',
                "bare",
                &who("bare", "82"),
                "capabilities = [\"net_bind_service\", \"dac_override\"]\nready = \"log:ready\"",
            ),
    );
    opened(&lab);
    let mut run = lab.start(&["time.dilation=2"]);
    for name in ["server", "plain", "bare"] {
        run.wait_for_line(name, "ready");
    }
    let frozen = run.control("pause").expect("it stands")["virtual_ns"].clone();
    let status = run.control("query").expect("it answers");
    assert_eq!(status["virtual_ns"], frozen);
    run.control("resume").expect("it goes on");
    let at = run.virtual_s().expect("it runs");
    run.wait_until(at + 0.5);
    run.stop();
    lab.assert_nothing_left();

    let server = lines(&lab, "server");
    expect_line(&server, "Uid 65534 65534 65534 65534");
    for (key, value) in [
        ("NoNewPrivs", "1"),
        ("CapEff", BIND_SERVICE),
        ("CapPrm", BIND_SERVICE),
        ("CapBnd", BIND_SERVICE),
        ("CapAmb", BIND_SERVICE),
        ("bound", "80"),
        ("root", "no more"),
        ("year", "2019"),
    ] {
        expect_line(&server, &format!("{key} {value}"));
    }
    assert_eq!(owner(&lab.path().join("written-by-server")), 65_534);

    let plain = lines(&lab, "plain");
    expect_line(&plain, "Uid 3141592 3141592 3141592 3141592");
    expect_line(&plain, "Gid 2718281 2718281 2718281 2718281");
    for (key, value) in [
        ("Groups", "2718281"),
        ("NoNewPrivs", "1"),
        ("CapEff", NONE),
        ("CapBnd", NONE),
        ("CapAmb", NONE),
        ("refused", "81"),
        ("root", "no more"),
    ] {
        expect_line(&plain, &format!("{key} {value}"));
    }
    assert_eq!(owner(&lab.path().join("written-by-plain")), 3_141_592);

    let bare = lines(&lab, "bare");
    expect_line(&bare, "Uid 0 0 0 0");
    // Capabilities 1 and 10.
    expect_line(&bare, "CapEff 0000000000000402");
    expect_line(&bare, "CapBnd 0000000000000402");
    expect_line(&bare, "bound 82");

    for (name, said) in [("server", server), ("plain", plain), ("bare", bare)] {
        let slept = said.iter().find_map(|line| line.strip_prefix("slept "));
        let slept: i64 = slept.expect("it slept").parse().expect("a number");
        assert!(slept >= 50_000_000, "{name} slept {slept} ns");
        let ticks = said.iter().filter_map(|line| line.strip_prefix("tick "));
        let ticks: Vec<i64> = ticks.map(|text| text.parse().expect("a number")).collect();
        assert!(ticks.is_sorted() && ticks.len() > 1, "{name}: {ticks:?}");
    }
}

/// Files of a program of another user must be kept with the run, and other users must not read
/// them.
#[test]
fn a_program_of_another_user_has_a_place_in_the_run_directory() {
    let keep = "echo data > \"$TIMELOOM_FILES/kept\" && ln -s /etc \"$TIMELOOM_FILES/away\" \
                && mkdir \"$TIMELOOM_FILES/more\" && touch \"$TIMELOOM_FILES/more/one\" \
                && echo kept; sleep 1000";
    let pry = "cd .. ; for try in 'cat run/files/keeper/kept' 'touch run/files/mine' \
               'touch run/manifest.json' 'touch run/mine'; do $try 2>/dev/null && echo \"did $try\"; \
               done; cd \"$TIMELOOM_FILES\" && pwd; echo pried; sleep 1000";
    let lab = Lab::new(
        &Scenario::lasting("10 s")
            .program(
                'a',
                "keeper",
                &["sh", "-c", keep],
                "user = \"3141592:2718281\"\nready = \"log:kept\"",
            )
            .program(
                'b',
                "pryer",
                &[
                    "sh",
                    "-c",
                    &format!("cd /; cd \"$TIMELOOM_FILES/..\"; {pry}"),
                ],
                "user = \"65534\"\nafter = [\"keeper\"]\nready = \"log:pried\"",
            ),
    );
    let searched = fs::Permissions::from_mode(0o755);
    fs::set_permissions(lab.path(), searched).expect("it is ours");
    // Time must not skip over a program that has not started yet.
    lab.run(&["time.mode=skip"]).succeeded();
    lab.assert_nothing_left();
    let kept = lab.run_path().join("files/keeper/kept");
    assert_eq!(fs::read_to_string(&kept).expect("it was kept"), "data\n");
    assert_eq!(owner(&kept), 3_141_592);
    let pryer = lines(&lab, "pryer");
    let own = lab.run_path().join("files/pryer").display().to_string();
    assert_eq!(pryer, [own, "pried".to_owned()]);
    // Files of an earlier run's programs must be removed with that run, without following a link.
    let second = lab.start_with(&["--replace"], &["time.mode=skip"]);
    let second = second.wait().succeeded();
    assert!(second.directory().is_finished());
    assert!(Path::new("/etc/passwd").exists());
    assert_eq!(fs::read_to_string(&kept).expect("kept anew"), "data\n");
}

/// A plant whose user is `nobody` must answer like any other.
#[test]
fn a_plant_runs_as_the_stated_user() {
    let lab = Lab::new(
        &Scenario::lasting("10 min")
            .program(
                'a',
                "poll",
                &["python3", "poll.py", "10.0.0.10", "0.05"],
                "",
            )
            .plant_with("{}", "user = \"3141592\""),
    );
    opened(&lab);
    let run = format!(
        "simulation.plants.world.run=[\"{}\", \"plant.py\"]",
        python()
    );
    let mut run = lab.start(&[&run]);
    run.wait_for_line("poll", "sample");
    let plant = lab
        .processes()
        .into_iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .find(|status| status.contains("\nUid:\t3141592\t3141592\t3141592\t3141592\n"))
        .expect("a process of that user");
    for line in [
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
    ] {
        assert!(plant.contains(line), "no {line} in {plant}");
    }
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code, 1, "it was stopped from outside");
    lab.assert_nothing_left();
}

#[test]
fn a_user_or_capability_that_there_is_not_is_a_mistake_of_the_file() {
    let path = |lab: &Lab| lab.path().join("scenario.toml").display().to_string();
    for (more, message, help) in [
        (
            "user = \"timeloom-has-no-such-user\"",
            "this machine has no user `timeloom-has-no-such-user`",
            "or write `UID:GID`",
        ),
        (
            "user = \"0:\"",
            "`0:` is not a user",
            "write a name, or `UID` or `UID:GID`",
        ),
        (
            "capabilities = [\"CAP_NET_ADMIN\"]",
            "`CAP_NET_ADMIN` is not a capability of Linux",
            "write `net_admin`",
        ),
        (
            "capabilities = [\"net_amdin\"]",
            "`net_amdin` is not a capability of Linux",
            "did you mean `net_admin`?",
        ),
    ] {
        let scenario = Scenario::lasting("1 s").program('a', "who", &["true"], more);
        let lab = Lab::new(&scenario);
        let output = timeloom(&["check", &path(&lab)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let place = more.split(' ').next().expect("a key");
        for part in [message, help, place, "scenario.toml:"] {
            assert!(said.contains(part), "no `{part}` in {said}");
        }
    }
}

/// The command line must give the same rights as a scenario, and child processes must inherit them.
#[test]
fn exec_takes_a_user_and_capabilities() {
    let script = "id -u; id -G; grep -E '^(NoNewPrivs|CapEff):' /proc/self/status; date +%Y";
    let mut arguments = vec!["exec", "--user", "3141592:2718281"];
    arguments.extend(["--capability", "net_bind_service", "--start"]);
    arguments.extend(["2019-06-03T00:00:00Z", "--", "sh", "-c", script]);
    let output = timeloom(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!("3141592\n2718281\nCapEff:\t{BIND_SERVICE}\nNoNewPrivs:\t1\n2019\n");
    assert_eq!(printed, expected);

    let output = timeloom(&["exec", "--user", "timeloom-has-no-such-user", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("this machine has no user"), "{said}");
}

/// A file that only root can reach must be reported as a mistake, like any file that is missing.
#[test]
fn a_program_that_its_user_may_not_execute_is_named_with_the_user() {
    let lab = Lab::new(&Scenario::lasting("1 s"));
    let own = lab.path().join("own");
    fs::copy("/bin/true", &own).expect("it can be copied");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).expect("it is ours");
    opened(&lab);
    let own = own.display().to_string();
    let output = timeloom(&["exec", "--user", "3141592", "--", &own]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in ["user 3141592 may not execute", &own] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
}

/// Runs `id` on a host, and prints the kernel's record of the rights of the command.
fn identity_inside(lab: &Lab, host: &str, more: &[&str]) -> Output {
    let script = "id -u; id -g; grep -E '^(NoNewPrivs|CapEff|CapBnd):' /proc/self/status; \
                  echo ${HOME:-none}";
    let mut arguments = vec!["exec", "--name", lab.name(), "--in", host];
    arguments.extend(more);
    arguments.extend(["--", "sh", "-c", script]);
    timeloom(&arguments)
}

fn expect_rights(output: &Output, [user, group]: [u32; 2], capabilities: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let rights = format!(
        "{user}\n{group}\nCapEff:\t{capabilities}\nCapBnd:\t{capabilities}\nNoNewPrivs:\t1\n"
    );
    assert!(printed.starts_with(&rights), "{printed}");
}

/// A command that enters a host must have no more rights than the host's programs, unless they are
/// requested.
#[test]
fn a_command_enters_a_host_with_the_rights_of_its_programs() {
    let own = "user = \"3141592:2718281\"\ncapabilities = [\"net_bind_service\"]";
    let ticks = [python(), "ticks.py", "0.05"];
    let lab = Lab::new(
        &Scenario::lasting("10 min")
            .program('a', "one", &ticks, own)
            .program('a', "two", &ticks, own)
            .program('b', "root", &ticks, "")
            .program('b', "other", &ticks, "user = \"3141592\""),
    );
    opened(&lab);
    let mut run = lab.start(&[]);
    run.wait_for_line("one", "tick 1");
    let ids = [3_141_592, 2_718_281];
    expect_rights(&identity_inside(&lab, "a", &[]), ids, BIND_SERVICE);
    // Explicit options must take precedence.
    let alone = identity_inside(&lab, "a", &["--user", "65534:65534"]);
    expect_rights(&alone, [65_534; 2], NONE);
    let more = identity_inside(&lab, "a", &["--capability", "dac_override"]);
    expect_rights(&more, ids, "0000000000000002");
    let root = identity_inside(&lab, "b", &["--user", "0:0"]);
    expect_rights(&root, [0; 2], NONE);

    for (more, part) in [
        (&[][..], "choose a user with --user"),
        (
            &["--user", "timeloom-has-no-such-user"],
            "this machine has no user",
        ),
    ] {
        let refused = identity_inside(&lab, "b", more);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    // The variables that identify a user must be those of the requested user.
    let inside = identity_inside(&lab, "a", &["--user", "nobody"]);
    let printed = String::from_utf8_lossy(&inside.stdout).into_owned();
    assert!(printed.ends_with("\n/nonexistent\n"), "{printed}");
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code, 1, "it was stopped from outside");
    lab.assert_nothing_left();
}

/// Variables of the caller's environment must reach programs only on request.
#[test]
fn programs_have_the_usual_variables_no_terminal_and_no_files_of_others() {
    const SAYS: &str = "import os; \
        names = [name for name in os.environ if name.startswith('LAB_') or name == 'PATH']; \
        print('has', sorted(names)); print('leads', os.getsid(0) == os.getpid()); \
        print('files', sorted(os.listdir('/proc/self/fd')))";
    let says = [python(), "-c", SAYS];
    let inherits = "essential = false\ninherit = [\"LAB_V*\"]";
    let lab = Lab::new(
        &Scenario::lasting("5 s")
            .program('a', "usual", &says, "essential = false")
            .program('b', "more", &says, inherits)
            .program('b', "other", &says, "essential = false\nuser = \"65534\""),
    );
    opened(&lab);
    let mut run = lab.start(&[]);
    for name in ["usual", "more", "other"] {
        run.wait_for_line(name, "files");
    }
    let manifest = run.stop().manifest();
    lab.assert_nothing_left();
    let listed = |name: &str| manifest.environment.get(name).cloned();
    assert_eq!(listed("PATH"), std::env::var("PATH").ok());
    assert_eq!(listed("LAB_VARIABLE"), None, "it may be a secret");
    assert_eq!(manifest.inherited, ["LAB_VARIABLE"]);
    for (name, has) in [
        ("usual", "has ['PATH']"),
        ("more", "has ['LAB_VARIABLE', 'PATH']"),
        ("other", "has ['PATH']"),
    ] {
        let said = lines(&lab, name);
        expect_line(&said, has);
        expect_line(&said, "leads True");
        expect_line(&said, "files ['0', '1', '2', '3']");
    }
}

/// Writes an executable `python` into the laboratory. `then` is the code that it executes.
fn write_interpreter(lab: &Lab, then: &str) {
    let file = lab.path().join("python");
    fs::write(&file, then).expect("it can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Code of an interpreter that records its own isolation in the file `asked-USER-CAPABILITIES` when
/// it is asked for a module, or in `ran-USER-CAPABILITIES` when it is to execute a file. Then it
/// continues as the Python at `PYTHON`.
const RECORDS: &str = r#"#!PYTHON
import ctypes, os, sys
with open("/proc/self/status") as status:
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
dies = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(dies))
has = sorted(name for name in os.environ if name.startswith("LAB_") or name == "PATH")
nine = os.path.exists("/proc/self/fd/9")
what = "asked" if sys.argv[1] == "-c" else "ran"
with open(f"{what}-{os.getuid()}-{fields['CapEff'].strip()}", "w") as out:
    print("leads", os.getsid(0) == os.getpid(), file=out)
    print("descriptor 9", nine, file=out)
    print("killed with its parent", dies.value == 9, file=out)
    print("no new privileges", fields["NoNewPrivs"].strip(), file=out)
    print("has", has, file=out)
os.execv("PYTHON", ["PYTHON"] + sys.argv[1:])
"#;

/// Interpreters of programs and plants belong to other users and execute their code, so they must
/// be isolated like the programs themselves, and have no capabilities: outside a session, these
/// apply to the whole machine.
#[test]
fn interpreters_are_asked_as_the_users_of_their_programs_without_capabilities() {
    let ticks = ["./python", "ticks.py", "0.05"];
    let limited = "capabilities = [\"net_bind_service\"]";
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program(
                'a',
                "other",
                &ticks,
                &format!("user = \"65534\"\n{limited}"),
            )
            .program('b', "limited", &ticks, limited)
            .plant_with("{}", "user = \"3141592\"\ninherit = [\"LAB_V*\"]"),
    );
    opened(&lab);
    write_interpreter(&lab, &RECORDS.replace("PYTHON", python()));
    let run = "simulation.plants.world.run=[\"./python\", \"plant.py\"]";
    let mut run = lab.start_with_descriptor_nine(&[run]);
    run.wait_for_line("limited", "tick");
    run.wait_for_line("other", "tick");
    run.stop();
    lab.assert_nothing_left();
    let usual = "['PATH']";
    for (file, dies, has) in [
        (format!("asked-65534-{NONE}"), true, usual),
        (format!("asked-0-{NONE}"), true, usual),
        (
            format!("asked-3141592-{NONE}"),
            true,
            "['LAB_VARIABLE', 'PATH']",
        ),
        (
            format!("ran-3141592-{NONE}"),
            true,
            "['LAB_VARIABLE', 'PATH']",
        ),
        // The cgroup of a program is killed with its session.
        (format!("ran-65534-{BIND_SERVICE}"), false, usual),
    ] {
        let said = fs::read_to_string(lab.path().join(&file));
        let said = said.unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut expected = vec!["leads True", "descriptor 9 False", "no new privileges 1"];
        let has = format!("has {has}");
        expected.push(&has);
        if dies {
            expected.push("killed with its parent True");
        }
        for line in expected {
            assert!(
                said.lines().any(|it| it == line),
                "{file}: no `{line}` in {said}"
            );
        }
    }
}

/// The interpreter never answers, and its child must end with it.
#[test]
fn ctrl_c_ends_the_wait_for_an_interpreter_that_does_not_answer() {
    let program = ["./python", "ticks.py"];
    let lab =
        Lab::new(&Scenario::lasting("1 s").program('a', "mute", &program, "user = \"65534\""));
    opened(&lab);
    write_interpreter(&lab, "#!/bin/sh\necho asked >asked\nsleep 1000\n");
    let mut run = lab.start(&[]);
    let asked = lab.path().join("asked");
    run.wait_for("the interpreter is not asked", |_| {
        fs::read_to_string(&asked).is_ok_and(|text| text == "asked\n")
    });
    let stopped = Instant::now();
    run.signal(libc::SIGINT);
    let run = run.wait();
    assert!(stopped.elapsed() < Duration::from_secs(30), "it waited");
    assert_eq!(run.code, 1, "{}", run.output());
    let said = "interrupted before it answered";
    assert!(run.stderr.contains(said), "{}", run.output());
    assert_eq!(run.manifest().outcome, Outcome::Interrupted);
    lab.assert_nothing_left();
}

/// Like programs, a plant must have only the usual variables and those that it asks for. The only
/// descriptor besides its streams is its socket.
#[test]
fn a_plant_has_the_usual_variables_no_terminal_and_no_files_of_others() {
    const SAYS: &str = "import os, sys; \
        wanted = lambda name: name.startswith(('LAB_', 'TIMELOOM_PLANT')) or name == 'PATH'; \
        names = sorted(filter(wanted, os.environ)); \
        socket = int(os.environ['TIMELOOM_PLANT_FD']); \
        listed = set(map(int, os.listdir('/proc/self/fd'))) - {socket}; \
        files = sorted(file for file in listed if os.path.exists(f'/proc/self/fd/{file}')); \
        print('has', names); print('leads', os.getsid(0) == os.getpid()); \
        print('files', files, os.readlink('/proc/self/fd/0'), flush=True); \
        os.execv(sys.executable, [sys.executable, 'plant.py'])";
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program(
                'a',
                "poll",
                &["python3", "poll.py", "10.0.0.10", "0.05"],
                "",
            )
            .plant_with("{}", "inherit = [\"LAB_V*\"]"),
    );
    let run = format!(
        "simulation.plants.world.run=[\"{}\", \"-c\", \"{SAYS}\"]",
        python()
    );
    let mut run = lab.start_with_descriptor_nine(&[&run]);
    run.wait_for_line("poll", "sample");
    run.stop();
    lab.assert_nothing_left();
    let log = fs::read_to_string(lab.run_path().join("logs/plant-world.log"));
    let said: Vec<String> = log.expect("a log").lines().map(str::to_owned).collect();
    expect_line(&said, "has ['LAB_VARIABLE', 'PATH', 'TIMELOOM_PLANT_FD']");
    expect_line(&said, "leads True");
    expect_line(&said, "files [0, 1, 2] /dev/null");
}
