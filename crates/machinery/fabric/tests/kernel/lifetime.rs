//! Tests that nothing remains of a fabric, however the process that holds it ends.
//!
//! An anonymous namespace is in no list, so its end is observed from outside. An observer has one
//! end of a cable whose other end is in the namespace. That other end does not keep the namespace
//! alive, and both ends are removed with the namespace.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use timeloom_fabric::{Fabric, Namespace, PacketCapture};
use timeloom_test_support::eventually;

use crate::world::{H2, build, host, inside, line, ping};

fn interfaces(machine: &Namespace) -> usize {
    inside(machine, "ip -o link").lines().count()
}

/// Attaches a cable, which is removed together with the namespace behind `path`.
fn attach(observer: &Namespace, sensor: &str, path: &str) {
    let said = inside(
        observer,
        &format!("ip link add {sensor} type veth peer name sensor netns {path}"),
    );
    assert_eq!(said, "", "attaching {sensor}");
}

fn present(observer: &Namespace) -> usize {
    inside(observer, "ip -o link show type veth")
        .lines()
        .count()
}

fn all_of(fabric: &Fabric) -> [&Namespace; 3] {
    [
        host(fabric, "h1"),
        host(fabric, "h2"),
        fabric.fabric_namespace(),
    ]
}

#[test]
fn drop_leaves_nothing() {
    let observer = Namespace::create("observer").expect("root");
    // The test uses a separate namespace, because interfaces come and go in the machine's own one.
    let machine = Namespace::create("machine").expect("root");
    let before = interfaces(&machine);
    let built = machine.run(|| build(&line(4, Some(100_000_000))));
    let fabric = built.expect("entered");
    assert_eq!(interfaces(&machine), before, "nothing shows there");
    for (i, namespace) in all_of(&fabric).iter().enumerate() {
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        attach(&observer, &format!("sensor{i}"), &path);
    }
    assert_eq!(present(&observer), 3);
    let (capture, frames) = PacketCapture::start(fabric.fabric_namespace(), "s1-h1").unwrap();
    ping(host(&fabric, "h1"), H2, Duration::from_secs(1)).expect("a reply");
    capture.stop();
    drop(frames);
    drop(fabric);
    eventually("the namespaces to vanish after drop", || {
        present(&observer) == 0
    });
    assert_eq!(interfaces(&machine), before);
}

#[test]
fn a_program_keeps_its_station_and_nothing_else() {
    let observer = Namespace::create("observer").expect("root");
    let fabric = build(&line(1, None));
    let mut program = start_sleeping(host(&fabric, "h1"));
    for (i, namespace) in all_of(&fabric).iter().enumerate() {
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        attach(&observer, &format!("sensor{i}"), &path);
    }
    drop(fabric);
    eventually("all but h1 to vanish", || present(&observer) == 1);
    program.kill().unwrap();
    program.wait().unwrap();
    eventually("h1 to vanish with its program", || present(&observer) == 0);
}

fn start_sleeping(namespace: &Namespace) -> Child {
    // The command references the namespace too, so it must be dropped here.
    let mut program = Command::new("sleep");
    program.arg("60");
    namespace.confine(&mut program).unwrap();
    program.spawn().unwrap()
}

/// The test binary starts itself as the process that holds the fabric, and kills it with SIGKILL.
#[test]
fn sigkill_leaves_nothing() {
    if std::env::var_os(HOLDER).is_some() {
        let fabric = build(&line(4, Some(10_000_000)));
        let fds = all_of(&fabric).map(|namespace| namespace.as_raw_fd().to_string());
        println!("\nholding {}", fds.join(" "));
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let observer = Namespace::create("observer").expect("root");
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "lifetime::sigkill_leaves_nothing"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let fds = lines.find_map(|line| line.strip_prefix("holding ").map(str::to_owned));
    for (i, fd) in fds.expect("it builds").split(' ').enumerate() {
        attach(
            &observer,
            &format!("sensor{i}"),
            &format!("/proc/{}/fd/{fd}", holder.id()),
        );
    }
    assert_eq!(present(&observer), 3);
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the namespaces to vanish after SIGKILL", || {
        present(&observer) == 0
    });
}

const HOLDER: &str = "TIMELOOM_FABRIC_TEST_HOLDER";
