//! Containers as hosts: they have the root of an image, process IDs and a network of their own, and
//! the session's time everywhere.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Lab, Scenario, log_lines, timeloom};

/// Creates an image in the laboratory that contains busybox and its commands, and nothing else.
pub(crate) fn image(lab: &Lab) -> PathBuf {
    let root = lab.path().join("image");
    let bin = root.join("bin");
    fs::create_dir_all(&bin).expect("there is room");
    fs::copy(busybox(), bin.join("busybox")).expect("there is room");
    for command in [
        "sh", "cat", "date", "sleep", "ls", "id", "hostname", "ping", "grep", "wc", "touch",
        "mount",
    ] {
        // Real images have such links, which are absolute and would lead to another file outside of
        // the image.
        symlink("/bin/busybox", bin.join(command)).expect("there is room");
    }
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(lab.path(), open).expect("it is ours");
    root
}

/// Returns the path of the machine's busybox, which must be one static file.
fn busybox() -> PathBuf {
    let paths = std::env::var_os("PATH").expect("there is one");
    let files = std::env::split_paths(&paths).map(|path| path.join("busybox"));
    let found = files.into_iter().find(|file| file.is_file());
    found.expect("Debian's package busybox-static")
}

/// Returns the output of a program, without timestamps.
fn lines(lab: &Lab, program: &str) -> Vec<String> {
    let log = log_lines(&lab.run_path(), program);
    log.into_iter().map(|(_, line)| line).collect()
}

fn after<'a>(lines: &'a [String], word: &str) -> &'a str {
    let mut found = lines.iter().filter_map(|line| line.strip_prefix(word));
    found
        .next()
        .unwrap_or_else(|| panic!("no `{word}` in {lines:#?}"))
}

const LOOK: &str = "echo number $$
echo files $(ls /)
echo name $(hostname)
echo interfaces $(ls /sys/class/net)
echo processes $(ls /proc | grep -c '^[0-9]')
echo rights $(id -u) $(grep -E '^(NoNewPrivs|CapEff):' /proc/self/status)
touch /etc-written && echo written $(ls /etc-written)
echo x > /dev/null && echo null is there
echo x 2>/dev/null > /proc/sys/kernel/hostname || echo sysctl refused
mount -t tmpfs none /dev 2>/dev/null || echo mount refused
ping -c 1 -W 60 10.0.0.2 | grep received
while :; do read up rest < /proc/uptime; echo tick $(date +%s) $up; sleep 0.05; done";

/// Returns the uptimes that the program has read, in seconds.
fn uptimes(lines: &[String]) -> Vec<f64> {
    let ticks = lines.iter().filter_map(|line| line.strip_prefix("tick "));
    let uptime = |tick: &str| tick.split(' ').nth(1)?.parse().ok();
    // The end of the run may have truncated the last line.
    ticks.filter_map(uptime).collect()
}

/// All files of the host must be the image's. All its time, including the contents of its own
/// `/proc`, must stop with the session and be dilated.
#[test]
fn programs_live_in_the_image_and_by_the_clock() {
    let scenario = Scenario::lasting("600 s").program('a', "look", &["sh", "-c", LOOK], "");
    let lab = Lab::new(&scenario);
    let image = image(&lab);
    let sets = ["system.hosts.a.container.root=image", "time.dilation=2"];
    let mut run = lab.start(&sets);
    run.wait_for_line("look", "tick");
    run.control("pause").expect("it stands");
    std::thread::sleep(Duration::from_secs(3));
    let at = run.control("resume").expect("it goes on")["virtual_ns"].as_f64();
    run.wait_until(at.expect("an instant") / 1e9 + 0.2);
    let run = run.stop();
    lab.assert_nothing_left();

    let said = lines(&lab, "look");
    assert_eq!(after(&said, "number "), "1");
    assert_eq!(after(&said, "files "), "bin dev etc proc sys");
    assert_eq!(after(&said, "name "), "a");
    assert!(after(&said, "interfaces ").contains("eth0"), "{said:#?}");
    // The processes are the shell, and the two of the pipeline.
    let processes: u32 = after(&said, "processes ").parse().expect("a number");
    assert!(processes <= 4, "{said:#?}");
    let rights = after(&said, "rights ");
    assert!(rights.starts_with("0 CapEff:"), "{rights}");
    assert!(rights.ends_with("NoNewPrivs: 1"), "{rights}");
    after(&said, "written /etc-written");
    after(&said, "null is there");
    after(&said, "sysctl refused");
    after(&said, "mount refused");
    assert!(
        said.iter().any(|line| line.contains("1 packets received")),
        "{said:#?}"
    );
    // The image must be unchanged.
    assert!(!image.join("etc-written").exists());
    assert!(!image.join("dev").exists());

    let dates = said.iter().filter_map(|line| line.strip_prefix("tick "));
    assert!(
        dates.clone().all(|tick| tick.starts_with("1559520")),
        "{said:#?}"
    );
    let uptimes = uptimes(&said);
    assert!(uptimes.is_sorted() && uptimes.len() > 1, "{uptimes:?}");
    // By the machine's uptime, the difference would include the pause and twice the rest. Uptimes
    // have a resolution of hundredths.
    let passed_s = uptimes[uptimes.len() - 1] - uptimes[0];
    let lived_s = run.manifest().virtual_duration.as_s_f64();
    assert!(
        passed_s <= lived_s + 0.02,
        "{passed_s} s have passed in {lived_s} s"
    );
}

/// Time must skip over half an hour of sleep, in a container as elsewhere.
#[test]
fn time_skips_over_a_sleeping_container() {
    let nap = "read before rest < /proc/uptime; sleep 1800; read after rest < /proc/uptime
               echo slept ${before%.*} ${after%.*}; sleep 100000";
    let scenario = Scenario::lasting("3600 s").program('a', "nap", &["sh", "-c", nap], "");
    let lab = Lab::new(&scenario);
    image(&lab);
    let sets = ["system.hosts.a.container.root=image", "time.mode=skip"];
    lab.run(&sets).succeeded();
    lab.assert_nothing_left();
    let said = lines(&lab, "nap");
    let slept: Vec<i64> = after(&said, "slept ")
        .split(' ')
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert!((1799..=1801).contains(&(slept[1] - slept[0])), "{slept:?}");
}

/// A bundle's process is a program of its host, and another program runs beside it. Both must find
/// the timelines of the host, and must not be able to change them.
#[test]
fn a_bundle_runs_as_it_says_and_reads_the_hosts_timelines() {
    let pry = "page=/run/timelines/own.page
until timeloom timeline read own --json > /tmp/read 2>/tmp/why; do sleep 0.1; done
echo read $(cat /tmp/read)
echo daemon $(timeloom timeline list --json | grep -c '\"daemon\"')
echo rights $(id -u):$(id -g) $(grep -E '^(NoNewPrivs|CapEff):' /proc/self/status)
echo where $(pwd) $GREETING
(echo x >> $page) 2>/dev/null || echo could not write
(: > $page) 2>/dev/null || echo could not truncate
exec 3< $page; (echo x > /proc/self/fd/3) 2>/dev/null || echo could not reopen
(echo x > /bin/new) 2>/dev/null || echo image is read-only
echo x > /out/kept && echo pried; sleep 100000";
    let timeline = r#"
[system.hosts.a.timelines.own]
tai_offset_s = 37
sources = [{ type = "system-clock", vouched_error = "0 ns" }]
[system.hosts.a.container]
bundle = "bundle"
ready = "log:pried"
ready_timeout = "100 s"
[[system.hosts.a.container.mounts]]
source = "out"
target = "/out"
writable = true
"#;
    let mut timeline = timeline.to_owned();
    let mounts = [(env!("CARGO_BIN_EXE_timeloom"), "/opt/timeloom")];
    let libraries = ["/usr", "/lib", "/lib64"].map(|machine| (machine, machine));
    for (source, target) in mounts.into_iter().chain(libraries) {
        write!(
            timeline,
            "[[system.hosts.a.container.mounts]]\nsource = {source:?}\ntarget = {target:?}\n"
        )
        .expect("a String");
    }
    let beside = ["cat", "/out/kept", "/proc/self/comm"];
    let scenario = Scenario::lasting("300 s").program(
        'a',
        "beside",
        &beside,
        "after = [\"container-a\"]\nessential = false",
    );
    // In the text, the tables of a host come before those of the next host.
    let text = scenario.to_toml().replacen(
        "[system.hosts.b]",
        &format!("{timeline}[system.hosts.b]"),
        1,
    );
    let lab = Lab::with_text(&text);
    let root = image(&lab);
    symlink("/opt/timeloom", root.join("bin/timeloom")).expect("there is room");
    let bundle = lab.path().join("bundle");
    fs::create_dir_all(&bundle).expect("there is room");
    fs::create_dir_all(root.join("srv")).expect("there is room");
    fs::rename(&root, bundle.join("rootfs")).expect("it is ours");
    fs::create_dir_all(lab.path().join("out")).expect("there is room");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(lab.path().join("out"), open).expect("it is ours");
    let config = format!(
        r#"{{"ociVersion": "1.0.0",
            "process": {{"user": {{"uid": 65534, "gid": 65534}}, "args": ["sh", "-c", {pry:?}],
                         "env": ["PATH=/bin", "GREETING=hello"], "cwd": "/srv"}},
            "root": {{"path": "rootfs", "readonly": true}},
            "mounts": [{{"destination": "/proc", "type": "proc"}}],
            "linux": {{"namespaces": [{{"type": "network"}}], "seccomp": {{}}}}}}"#
    );
    fs::write(bundle.join("config.json"), config).expect("there is room");
    let run = lab.run(&["time.mode=skip"]).succeeded();
    lab.assert_nothing_left();

    let said = lines(&lab, "container-a");
    let read: serde_json::Value = serde_json::from_str(after(&said, "read ")).expect("it is JSON");
    let (earliest, latest) = (&read["earliest_ns"], &read["latest_ns"]);
    let start_ns = (1_559_520_000 + 37) * 1_000_000_000_i64;
    let within = |at: &serde_json::Value| {
        let at_ns = at.as_i64().expect("a number");
        (start_ns - 1_000_000_000..start_ns + 301_000_000_000).contains(&at_ns)
    };
    assert!(within(earliest) && within(latest), "{read}");
    assert_eq!(after(&said, "daemon "), "1");
    assert_eq!(
        after(&said, "rights "),
        "65534:65534 CapEff: 0000000000000000 NoNewPrivs: 1"
    );
    assert_eq!(after(&said, "where "), "/srv hello");
    for refused in ["write", "truncate", "reopen"] {
        after(&said, &format!("could not {refused}"));
    }
    after(&said, "image is read-only");
    after(&said, "pried");
    assert_eq!(lines(&lab, "beside"), ["x", "cat"]);
    let modes = run.manifest().degraded_modes;
    let named = "These parts of the bundle of host a have no effect: seccomp. To do: ";
    assert!(
        modes.iter().any(|mode| mode.starts_with(named)),
        "{modes:?}"
    );
}

/// Until it executes a program, a child process has the supervisor's descriptors, some of which are
/// directories. A link of an image that leads through them must lead nowhere, both for the start
/// directory of a program and for the interpreter of a script.
#[test]
fn no_link_of_an_image_leads_to_the_machine_by_a_descriptor_of_ours() {
    for number in 3..6 {
        for (cwd, start, refused) in [
            ("/srv", "sh", "entering the working directory of `sh`"),
            ("/", "/bin/script", "cannot run `/bin/script`"),
        ] {
            let text = Scenario::lasting("1 s").to_toml().replacen(
                "[system.hosts.b]",
                "[system.hosts.a.container]\nbundle = \"bundle\"\nessential = false\n\
                 [system.hosts.b]",
                1,
            );
            let lab = Lab::with_text(&text);
            let (image, bundle) = (image(&lab), lab.path().join("bundle"));
            let through = format!("/proc/self/fd/{number}");
            symlink(&through, image.join("srv")).expect("there is room");
            let up = "../".repeat(12);
            let script = format!("#!{through}/{up}{} sh\ntrue\n", busybox().display());
            let file = image.join("bin/script");
            fs::write(&file, script).expect("there is room");
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&file, executable).expect("it is ours");
            fs::create_dir_all(&bundle).expect("there is room");
            fs::rename(image, bundle.join("rootfs")).expect("it is ours");
            let config = format!(
                r#"{{"root": {{"path": "rootfs"}},
                     "process": {{"args": ["{start}"], "cwd": "{cwd}"}}}}"#
            );
            fs::write(bundle.join("config.json"), config).expect("there is room");
            let run = lab.run(&[]);
            let said = format!("{}{}", run.stdout, run.stderr);
            assert_ne!(run.code, 0, "{cwd} {start} {number}: {said}");
            assert!(said.contains(refused), "{cwd} {start} {number}: {said}");
            lab.assert_nothing_left();
        }
    }
}

/// Mounts below a mounted directory of the machine must be included, and read-only if that is
/// read-only.
#[test]
fn all_that_is_mounted_below_a_mount_is_as_it_is() {
    let look = ["sh", "-c", "grep ' /m' /proc/self/mounts; echo looked"];
    let mount = "[[system.hosts.a.container.mounts]]\nsource = \"/sys\"\ntarget = \"/m\"\n";
    let text = Scenario::lasting("3600 s").program('a', "look", &look, "essential = false");
    let text = text.to_toml().replacen(
        "[system.hosts.b]",
        &format!("[system.hosts.a.container]\nroot = \"image\"\n{mount}[system.hosts.b]"),
        1,
    );
    let lab = Lab::with_text(&text);
    image(&lab);
    lab.run(&["time.mode=skip"]).succeeded();
    lab.assert_nothing_left();
    let said = lines(&lab, "look");
    after(&said, "looked");
    let mounts: Vec<_> = said.iter().filter(|line| line.contains(" /m")).collect();
    assert!(mounts.len() > 1, "cgroups are mounted below: {said:#?}");
    for mount in mounts {
        let options = mount.split(' ').nth(3).expect("a line of mounts");
        for option in ["ro", "nosuid", "nodev"] {
            assert!(options.split(',').any(|it| it == option), "{mount}");
        }
    }
}

/// A command from outside must run inside the container.
#[test]
fn a_command_comes_in_to_the_container() {
    let wait = ["sh", "-c", "echo begun; sleep 100000"];
    let lab = Lab::new(&Scenario::lasting("10 min").program('a', "wait", &wait, ""));
    image(&lab);
    let mut run = lab.start(&["system.hosts.a.container.root=image"]);
    run.wait_for_line("wait", "begun");
    let script = "ls /; hostname; date +%Y; echo $$";
    let arguments = [
        "exec",
        "--name",
        lab.name(),
        "--in",
        "a",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = timeloom(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed, "bin\ndev\netc\nproc\nsys\na\n2019\n1\n");
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code, 1, "it was stopped from outside");
    lab.assert_nothing_left();
}

/// A container that cannot be a host must be reported before anything starts, with the fix.
#[test]
fn a_container_that_cannot_be_is_a_mistake_of_the_file() {
    let config = r#"{"root": {"path": "rootfs"}, "process": {"args": ["ARGUMENT"]},
                     "linux": {"namespaces": [{"type": "network"NETWORK}]}}"#;
    for (set, [argument, network], message, help) in [
        (
            "root=nowhere",
            ["", ""],
            "there is no directory",
            "relative to the scenario file",
        ),
        (
            "root=image",
            ["", ""],
            "there is no program `absent` in the container",
            "into the image",
        ),
        (
            "bundle=image",
            ["", ""],
            "config.json: ",
            "a bundle is a directory with `config.json`",
        ),
        (
            "bundle=bundle",
            ["sh", r#", "path": "/run/netns/other""#],
            "the bundle has its own network, /run/netns/other",
            "its network is that of the host",
        ),
        (
            "bundle=bundle",
            ["absent", ""],
            "there is no program `absent` in the bundle",
            "`process.args`",
        ),
    ] {
        let run = match argument {
            "" => ["absent", "it"],
            _ => ["sh", "-c"],
        };
        let lab = Lab::new(&Scenario::lasting("1 s").program('a', "one", &run, ""));
        let image = image(&lab);
        fs::create_dir_all(lab.path().join("bundle")).expect("there is room");
        if set.starts_with("bundle=bundle") {
            fs::rename(image, lab.path().join("bundle/rootfs")).expect("it is ours");
        }
        let config = config
            .replace("ARGUMENT", argument)
            .replace("NETWORK", network);
        fs::write(lab.path().join("bundle/config.json"), config).expect("there is room");
        let file = lab.path().join("scenario.toml").display().to_string();
        let set = format!("system.hosts.a.container.{set}");
        let output = timeloom(&["check", &file, "--set", &set]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{set}: {said}");
        for part in [message, help] {
            assert!(said.contains(part), "{set}: no `{part}` in {said}");
        }
        assert!(!Path::new(&lab.run_path()).exists());
    }
}
