//! Tests of Open vSwitch in place of the kernel's bridges.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use timeloom_fabric::{CONTROLLER, Datapath, Fabric, OpenFlowSpec, probe};
use timeloom_test_support::eventually;

use crate::world::{H2, build, host, inside, line, ping};

const PATIENCE: Duration = Duration::from_millis(500);

fn openflow(switches: &[&str], controlled: bool) -> Fabric {
    let mut spec = line(3, None);
    spec.openflow = OpenFlowSpec {
        switches: switches.iter().map(|&name| name.to_owned()).collect(),
        controlled,
    };
    build(&spec)
}

/// Returns the number of processes in this network namespace.
fn living(inode: u64) -> usize {
    let here = format!("net:[{inode}]");
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter(|entry| {
            let ns = std::fs::read_link(entry.path().join("ns/net"));
            ns.is_ok_and(|ns| ns.to_string_lossy() == here)
        })
        .count()
}

#[test]
fn switches_of_both_kinds_forward_together() {
    let fabric = openflow(&["s1", "s3"], false);
    assert_eq!(fabric.trouble(), None);
    eventually("an echo through Open vSwitch", || {
        ping(host(&fabric, "h1"), H2, PATIENCE).is_some()
    });
    let bridges = inside(fabric.fabric_namespace(), "ip -o link show type bridge");
    assert_eq!(
        bridges.lines().count(),
        1,
        "only s2 is the kernel's: {bridges}"
    );
}

/// A daemon that forwards frames itself serves a limited number of switches.
#[test]
fn many_switches_have_several_daemons_and_forward_together() {
    let mut spec = line(17, None);
    spec.openflow.switches.clone_from(&spec.switches);
    let fabric = build(&spec);
    assert_eq!(fabric.trouble(), None);
    eventually("an echo through seventeen switches", || {
        ping(host(&fabric, "h1"), H2, PATIENCE).is_some()
    });
    let namespace = fabric.fabric_namespace();
    let datapath = Datapath::choose(namespace).expect("the kernel answers");
    let pairs = match datapath {
        Datapath::Kernel => 1,
        Datapath::UserSpace => 3,
    };
    let inode = namespace.inode().expect("stat");
    assert_eq!(living(inode), 2 * pairs, "{datapath}");
    drop(fabric);
    assert_eq!(living(inode), 0);
}

#[test]
fn a_probe_names_open_vswitch_and_its_datapath() {
    let found = probe().into_iter();
    let mut found = found.filter(|feature| feature.name == "Open vSwitch");
    let found = found.next().expect("it is looked at");
    assert!(found.available, "{}", found.detail);
    let here = timeloom_fabric::Namespace::quiet("asked").expect("a namespace");
    let datapath = Datapath::choose(&here).expect("the kernel answers");
    assert!(
        found.detail.starts_with("Open vSwitch "),
        "{}",
        found.detail
    );
    assert!(
        found.detail.ends_with(&datapath.to_string()),
        "{}",
        found.detail
    );
}

/// Returns the listener of the controller, and its connection to a switch of the fabric.
fn connected(fabric: &Fabric) -> (TcpListener, TcpStream) {
    let controller = fabric
        .fabric_namespace()
        .run(|| TcpListener::bind(CONTROLLER))
        .expect("enter the namespace")
        .expect("listen");
    let (switch, _) = controller.accept().expect("the switch connects");
    (controller, switch)
}

#[test]
fn without_its_controller_a_controlled_switch_forwards_nothing_and_asks_for_it() {
    let fabric = openflow(&["s2"], true);
    let (_controller, mut switch) = connected(&fabric);
    let mut hello = [0; 8];
    switch.read_exact(&mut hello).expect("it says hello");
    assert_eq!((hello[0], hello[1]), (4, 0), "OpenFlow 1.3, HELLO");
    assert_eq!(ping(host(&fabric, "h1"), H2, PATIENCE), None);
}

/// A controller is paused with the testbed, for any duration. By default, Open vSwitch would probe
/// it after five seconds and disconnect after ten.
#[test]
fn a_controller_that_says_nothing_for_long_is_not_hung_up_on() {
    const SILENCE: Duration = Duration::from_secs(15);
    let fabric = openflow(&["s2"], true);
    let (_controller, mut switch) = connected(&fabric);
    let mut say = |kind, number: u32| {
        let [a, b, c, d] = number.to_be_bytes();
        let message = [4, kind, 0, 8, a, b, c, d];
        std::io::Write::write_all(&mut switch, &message).expect("the switch listens");
    };
    let (hello, features) = (0, 5);
    say(hello, 1);
    say(features, 2);
    // At first the controller answers, because it has not been paused yet.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(7) {
        say(features, 3);
        std::thread::sleep(Duration::from_millis(500));
    }
    switch.set_read_timeout(Some(SILENCE)).expect("a socket");
    let silent_since = Instant::now();
    let mut heard = [0; 4096];
    while silent_since.elapsed() < SILENCE {
        match switch.read(&mut heard) {
            Ok(0) => panic!("hung up after {:?}", silent_since.elapsed()),
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
}

#[test]
fn the_daemons_end_with_the_network() {
    let fabric = openflow(&["s1"], false);
    let inode = fabric.fabric_namespace().inode().expect("stat");
    assert_eq!(living(inode), 2, "ovs-vswitchd and ovsdb-server");
    drop(fabric);
    assert_eq!(living(inode), 0);
    let prefix = format!("timeloom-ovs-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir())
        .expect("list")
        .flatten();
    let ours = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    // Tests that run at the same time may be creating their directories.
    eventually("directories to be gone", {
        let left: Vec<_> = ours.map(|entry| entry.path()).collect();
        move || left.iter().all(|path| !path.exists())
    });
}
