//! What runs inside of a virtual machine: the library, and what a hostile guest does.

use std::io::{Read, Write};

use timeloom_clock::quality::Requirement;
use timeloom_time::Duration;
use timeloom_timeline_client::Timeline;
use timeloom_timeline_protocol::Directory;
use timeloom_vm::{Agent, devices};

use crate::common::wait_for;

#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_guest() {
    let directory = Directory::new("/run/timelines");
    let region = devices::region().unwrap();
    let agent = Agent::start(
        devices::port().unwrap().into(),
        region.into(),
        directory.clone(),
    );
    let agent = agent.unwrap();
    let timeline = wait_for("the host", || Timeline::open_in(&directory, "own").ok());
    wait_for("a good reading", || timeline.read().unwrap().interval());
    let need = Requirement::within(Duration::from_ms(900));
    let binding = timeline.bind(need).unwrap();
    let mut asked = devices::port_named("test").unwrap();
    asked.write_all(b"ready\n").unwrap();
    let mut byte = [0];
    loop {
        // Nobody at the other end yet, or any more.
        if asked.read(&mut byte).unwrap_or(0) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            continue;
        }
        let stamp = timeline.read().unwrap();
        let said = match stamp.interval() {
            None => format!("- - {}\n", stamp.status()),
            Some(interval) => format!(
                "{} {} {}\n",
                interval.earliest().as_ns(),
                interval.latest().as_ns(),
                stamp.status(),
            ),
        };
        asked.write_all(said.as_bytes()).unwrap();
        let _ = (&agent, &binding);
    }
}

#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_hostile_guest() {
    let mut port = devices::port().unwrap();
    port.write_all(b"\0{\"say\":\"hello\",\"nonce\":1,\"version\":1}\0")
        .unwrap();
    let nonsense: Vec<u8> = b"{\"say\":\"ask\"\0".repeat(1_000);
    for _ in 0..100 {
        port.write_all(&nonsense).unwrap();
    }
    port.write_all(b"half of one {\"say\":").unwrap();
    devices::port_named("test")
        .unwrap()
        .write_all(b"ready\n")
        .unwrap();
    loop {
        std::thread::park();
    }
}
