//! Host names: each host must have its own, and its programs must resolve all other hosts by name
//! with any resolver. A look-up of an unknown name must fail without delay.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use timeloom_test_support::need;

use crate::support::{Lab, Scenario, log_lines, timeloom};

fn lines(lab: &Lab, program: &str) -> Vec<String> {
    let log = log_lines(&lab.run_path(), program);
    log.into_iter().map(|(_, line)| line).collect()
}

fn expect(lines: &[String], expected: &[&str]) {
    for expected in expected {
        assert!(
            lines.iter().any(|line| line == expected),
            "no `{expected}` in {lines:#?}"
        );
    }
}

/// Scenario with two hosts that have IPv4 and IPv6 addresses, and a device.
const NAMES: &str = r#"
schema = "timeloom/1"
name = "names"
time = { duration = "60 s", mode = "skip" }
[system]
switches = ["s1"]
links = [
    { between = ["alice", "s1"] },
    { between = ["bob", "s1"] },
    { between = ["meter", "s1"] },
]
[system.hosts.alice]
address = ["10.0.0.1/24", "fd00::1/64"]
PROGRAMS
[system.hosts.bob]
address = ["10.0.0.2/24", "fd00::2/64"]
[system.devices.meter]
address = "10.0.0.10/24"
registers = [{ table = "input", at = 0, type = "f64", signal = "world.level" }]
[simulation.plants.world]
run = ["python3", "-S", "plant.py"]
step = "1 s"
config = { level = 1.0 }
record = { signals = ["level"], every = "1 s" }
"#;

fn lab(programs: &[(&str, &[&str], &str)]) -> Lab {
    let tables = programs.iter().map(|(name, run, more)| {
        format!(
            "[[system.hosts.alice.programs]]\nname = {name:?}\nrun = {run:?}\n\
             essential = false\n{more}\n"
        )
    });
    Lab::with_text(&NAMES.replace("PROGRAMS", &tables.collect::<String>()))
}

fn run(lab: &Lab, sets: &[&str]) {
    let run = lab.run(sets);
    assert_eq!(run.code, 0, "{}", run.output());
    lab.assert_nothing_left();
}

fn built(lab: &Lab, compiler: &str, arguments: &[&str]) {
    let mut command = Command::new(compiler);
    command.args(arguments).current_dir(lab.path());
    let output = command.env("CGO_ENABLED", "0").output();
    let output = output.expect("a compiler");
    assert!(output.status.success(), "{output:?}");
}

/// The resolvers are those of glibc, musl, Go and Java.
#[test]
fn every_resolver_finds_the_hosts_and_fails_at_once_for_others() {
    need("cc", "gcc");
    need("musl-gcc", "musl-tools");
    need("go", "golang-go");
    need("java", "default-jdk-headless");
    const ASKED: [&str; 5] = ["alice", "bob", "meter", "localhost", "no-such.example"];
    let with = |program: &[&'static str]| [program, &ASKED].concat();
    let lab = lab(&[
        ("gnu", &with(&["./gnu"]), ""),
        ("musl", &with(&["./musl"]), ""),
        ("go", &with(&["./go"]), ""),
        ("java", &with(&["java", "-Xint", "Resolve.java"]), ""),
    ]);
    for (name, text) in [
        ("resolve.c", include_str!("programs/resolve.c")),
        ("resolve.go", include_str!("programs/resolve.go")),
        ("Resolve.java", include_str!("programs/Resolve.java")),
    ] {
        fs::write(lab.path().join(name), text).expect("there is room");
    }
    built(&lab, "cc", &["-o", "gnu", "resolve.c"]);
    built(&lab, "musl-gcc", &["-o", "musl", "resolve.c"]);
    built(&lab, "go", &["build", "-o", "go", "resolve.go"]);
    run(&lab, &[]);
    for program in ["gnu", "musl", "go", "java"] {
        let said = lines(&lab, program);
        expect(
            &said,
            &[
                "hostname alice",
                "meter 10.0.0.10",
                "no-such.example unknown",
            ],
        );
        let find = |name: &str| said.iter().find(|line| line.starts_with(name));
        for (name, number) in [("alice", 1), ("bob", 2)] {
            let found = find(&format!("{name} ")).expect("it was asked");
            let mut addresses: Vec<IpAddr> = (found.split(' ').skip(1))
                .map(|text| text.parse().expect("an address"))
                .collect();
            addresses.sort_unstable();
            let expected = [format!("10.0.0.{number}"), format!("fd00::{number}")];
            let expected: [IpAddr; 2] = expected.map(|text| text.parse().expect("an address"));
            assert_eq!(addresses, expected, "{program}: {said:#?}");
        }
        let localhost = find("localhost ").expect("it was asked");
        assert!(localhost.contains("127.0.0.1"), "{said:#?}");
        assert!(!said.iter().any(|line| line.contains("took")), "{said:#?}");
    }
}

const LOOK: &str = "echo uname $(uname -n)
echo kernel $(cat /proc/sys/kernel/hostname)
echo file $(cat /etc/hostname)
echo bob $(getent ahosts bob | cut -d' ' -f1 | sort -u)
echo pwd $(pwd)";

fn expect_look(lines: &[String], host: &str, directory: &Path) {
    expect(
        lines,
        &[
            &format!("uname {host}"),
            &format!("kernel {host}"),
            &format!("file {host}"),
            "bob 10.0.0.2 fd00::2",
            &format!("pwd {}", directory.display()),
        ],
    );
}

/// Programs of another user, of an attack and with the machine's `/proc`, and commands of
/// `timeloom exec`, must all resolve the names. Each must keep its working directory.
#[test]
fn all_that_runs_on_a_host_has_its_names() {
    let attack = "[[attack]]\nid = \"look\"\nhost = \"bob\"\nat = \"1 s\"\n\
                  programs = [{ name = \"attack\", run = [\"sh\", \"-c\", \"\"\"LOOK\"\"\"], \
                  essential = false }]\n";
    let mut text = NAMES.replace("mode = \"skip\"", "mode = \"virtual\"");
    text = text.replace(
        "PROGRAMS",
        "programs = [
            { name = \"plain\", run = [\"sh\", \"-c\", \"\"\"LOOK\"\"\"], essential = false },
            { name = \"nobody\", run = [\"sh\", \"-c\", \"\"\"LOOK\"\"\"], essential = false, user = \"65534\" },
            { name = \"elsewhere\", run = [\"sh\", \"-c\", \"\"\"LOOK\"\"\"], essential = false, directory = \"sub\" },
        ]",
    );
    let text = (text + attack).replace("LOOK", LOOK);
    for proc in ["virtual", "machine"] {
        let lab = Lab::with_text(&text);
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(lab.path(), open).expect("it is ours");
        fs::create_dir(lab.path().join("sub")).expect("there is room");
        let mut run = lab.start(&[&format!("time.proc={proc}")]);
        run.wait_until(2.0);
        let script = &format!("cd / && cd - >/dev/null; {LOOK}");
        let came_in = timeloom(&[
            "exec",
            "--name",
            lab.name(),
            "--in",
            "bob",
            "--",
            "sh",
            "-c",
            script,
        ]);
        let run = run.stop();
        lab.assert_nothing_left();
        let came_in = String::from_utf8_lossy(&came_in.stdout);
        let came_in: Vec<String> = came_in.lines().map(str::to_owned).collect();
        let here = std::env::current_dir().expect("there is one");
        expect_look(&came_in, "bob", &here);
        expect_look(&lines(&lab, "plain"), "alice", lab.path());
        expect_look(&lines(&lab, "nobody"), "alice", lab.path());
        expect_look(&lines(&lab, "elsewhere"), "alice", &lab.path().join("sub"));
        expect_look(&lines(&lab, "attack"), "bob", lab.path());
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").expect("/proc");
        assert!(
            !["alice", "bob"].contains(&machine.trim()),
            "{}",
            run.output()
        );
    }
}

/// Mounts and host names that a program changes must belong to its host. The next program of that
/// host must see the changes; the other host and the machine must not.
#[test]
fn mounts_and_names_changed_by_a_host_stay_on_it() {
    let change = "mkdir -p /tmp/LAB && mount -t tmpfs LAB /tmp/LAB && echo 1 > /tmp/LAB/there \
                  && echo 10.0.0.99 printer >> /etc/hosts && hostname changed; \
                  for t in uptime stat; do grep -c . /proc/$t; done; echo ready; sleep 600";
    let look = "cat /tmp/LAB/there; getent hosts printer; hostname; echo looked";
    let scenario = Scenario::lasting("600 s")
        .program(
            'a',
            "change",
            &["sh", "-c", change],
            "ready = \"log:ready\"",
        )
        .program(
            'a',
            "after",
            &["sh", "-c", look],
            "after = [\"change\"]\nessential = false",
        )
        .program(
            'b',
            "other",
            &["sh", "-c", look],
            "after = [\"change\"]\nessential = false",
        );
    let place = format!("names-{}", std::process::id());
    let lab = Lab::with_text(&scenario.to_toml().replace("LAB", &place));
    let mut run = lab.start(&[]);
    run.wait_for_line("after", "looked");
    run.wait_for_line("other", "looked");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(!mounts.contains(&place), "{mounts}");
    let hosts = fs::read_to_string("/etc/hosts").expect("it can be read");
    assert!(!hosts.contains("printer"), "{hosts}");
    run.stop();
    fs::remove_dir(Path::new("/tmp").join(&place)).expect("it is empty on the machine");
    lab.assert_nothing_left();
    expect(
        &lines(&lab, "after"),
        &["1", "10.0.0.99       printer", "changed"],
    );
    let other = lines(&lab, "other");
    assert!(
        !other
            .iter()
            .any(|line| line == "1" || line.contains("printer")),
        "{other:#?}"
    );
    expect(&other, &["b", "looked"]);
}

/// Entries of the machine's file must stay, except those for names of the experiment.
#[test]
fn entries_of_the_machine_stay() {
    let lab = lab(&[("look", &["cat", "/etc/hosts"], "")]);
    let file = lab.path().join("hosts");
    fs::write(
        &file,
        "127.0.0.1 localhost\n192.0.2.7 nas\n192.0.2.8 bob desk\n",
    )
    .expect("room");
    let run = lab.start_seeing(&file, Path::new("/etc/hosts")).wait();
    assert_eq!(run.code, 0, "{}", run.output());
    let said = lines(&lab, "look");
    expect(
        &said,
        &[
            "127.0.0.1 localhost",
            "192.0.2.7 nas",
            "# Replaced by a name below: 192.0.2.8 bob desk",
            "192.0.2.8\tdesk",
            "10.0.0.2\tbob",
            "fd00::2\tbob",
        ],
    );
}

/// Routers and simulated hosts must have names, too. A router has one name for all its addresses.
#[test]
fn nodes_of_a_simulated_network_have_names() {
    const SIMULATED: &str = r#"
schema = "timeloom/1"
name = "routed"
time = { duration = "20 s", mode = "skip" }
[system]
links = [{ between = ["a", "r1"] }, { between = ["b", "r1"] }]
[system.hosts.a]
address = "10.0.1.2/24"
programs = [
    { name = "look", run = ["sh", "-c", "cat /etc/hosts; ping -c 1 -W 9 b"], essential = false },
]
[system.hosts.b]
address = "10.0.2.2/24"
[network]
routers = ["r1"]
generate = [{ name = "core", shape = "star", size = 2 }]
"#;
    let lab = Lab::with_text(SIMULATED);
    run(&lab, &["time.compute=none"]);
    let said = lines(&lab, "look");
    expect(&said, &["10.0.1.2\ta", "10.0.2.2\tb"]);
    let named = |name: &str| {
        let ends = said
            .iter()
            .filter(|line| line.split('\t').nth(1) == Some(name));
        ends.count()
    };
    assert_eq!(named("r1"), 2, "{said:#?}");
    assert_eq!((named("core-h0"), named("core-h1")), (1, 1), "{said:#?}");
    assert!(
        said.iter().any(|line| line.contains(" 1 received")),
        "{said:#?}"
    );
}

/// In a container the entries of the image's file must stay, a link in the image's `/etc` must not
/// be followed, and the image must be unchanged. A mount over the file must take effect, and be
/// reported.
#[test]
fn programs_in_a_container_find_the_hosts() {
    let look = "cat /etc/hosts; echo resolver $(cat /etc/resolv.conf); hostname; \
                ping -c 1 -W 60 b | grep -c ' 0% packet loss'";
    let scenario =
        Scenario::lasting("60 s").program('a', "look", &["sh", "-c", look], "essential = false");
    for is_mounted in [false, true] {
        let lab = Lab::new(&scenario);
        let image = super::containers::image(&lab);
        let etc = image.join("etc");
        fs::create_dir(&etc).expect("there is room");
        fs::write(etc.join("hosts"), "127.0.0.1 localhost\n192.0.2.9 nas b\n").expect("room");
        symlink("/nowhere/resolv.conf", etc.join("resolv.conf")).expect("there is room");
        let own = lab.path().join("own-hosts");
        fs::write(&own, "192.0.2.1 mine\n").expect("there is room");
        let mount = format!(
            "system.hosts.a.container.mounts=[{{ source = {own:?}, target = \"/etc/hosts\" }}]"
        );
        let mut sets = vec!["system.hosts.a.container.root=image", "time.mode=skip"];
        sets.extend(is_mounted.then_some(mount.as_str()));
        let run = lab.run(&sets);
        assert_eq!(run.code, 0, "{}", run.output());
        lab.assert_nothing_left();
        let said = lines(&lab, "look");
        let degraded = run.manifest().degraded_modes.join("\n");
        if is_mounted {
            expect(&said, &["192.0.2.1 mine", "a"]);
            assert!(
                degraded.contains("host a find no other host by its name"),
                "{degraded}"
            );
        } else {
            expect(
                &said,
                &[
                    "127.0.0.1 localhost",
                    "192.0.2.9\tnas",
                    "10.0.0.2\tb",
                    "a",
                    "1",
                ],
            );
            assert!(!degraded.contains("by its name"), "{degraded}");
        }
        assert!(
            said.iter().any(|line| line.contains("options timeout:0")),
            "{said:#?}"
        );
        let hosts = fs::read_to_string(etc.join("hosts")).expect("it is there");
        assert_eq!(hosts, "127.0.0.1 localhost\n192.0.2.9 nas b\n");
    }
}

/// A name that no program could resolve must be reported as a mistake.
#[test]
fn a_name_that_cannot_be_looked_up_is_refused() {
    for name in ["10", "0x7f", "localhost"] {
        let lab = Lab::with_text(&NAMES.replace("PROGRAMS", "").replace("bob", name));
        let scenario = lab.path().join("scenario.toml");
        let output = timeloom(&["check", scenario.to_str().expect("UTF-8")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("choose another name"), "{name}: {said}");
    }
}
