//! Programs that run inside a virtual machine: a user of the library, a hostile guest, and a server
//! of the machine's clock.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use timeloom_clock::quality::Requirement;
use timeloom_time::Duration;
use timeloom_timeline::Timeline;
use timeloom_timeline::protocol::Directory;
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::vm::{GuestAgent, HostLink, devices};

use crate::common::wait_for;

#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_guest() {
    serve(|| HostLink::Port(devices::port().unwrap().into()));
}

#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_guest_by_vsock() {
    serve(|| HostLink::Vsock);
}

/// Program for a machine that is a host of a session. `scripts/vm/ask_time` sends the names of its
/// host's timelines, one on each line. Each timeline is read on another processor than the previous
/// one, because a measurement on one processor must be valid on all.
#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_reader() {
    let agent = started(|| HostLink::Port(devices::port().unwrap().into()));
    let timelines: BTreeMap<String, Timeline> = agent
        .timelines()
        .map(|name| (name.to_owned(), opened(name)))
        .collect();
    let around = processors();
    let listener = TcpListener::bind(("0.0.0.0", 7000)).unwrap();
    println!(
        "the guest answers: {} timelines, {} processors",
        timelines.len(),
        around.len()
    );
    let mut next_processor = around.into_iter().cycle();
    answer(&listener, |name| {
        pin(&[next_processor.next().unwrap()]);
        let said = timelines.get(name).map(reading);
        said.unwrap_or_else(|| "- - no such timeline\n".to_owned())
    });
}

/// Whole stack in a machine: a daemon of its own, and a `ptp4l` that receives a master over the
/// machine's network interface. `scripts/vm/ptp` asks for that timeline as `scripts/vm/timelines`
/// does.
#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_ptp_slave() {
    let directory = Directory::new(TIMELINES);
    directory.make().unwrap();
    let timeline = format!(
        r#"
        directory = "{TIMELINES}"
        [[timeline]]
        name = "ptp"
        scale = "local"
        poll = {{ shortest = "50 ms", longest = "250 ms" }}
        [[timeline.source]]
        type = "ptp4l"
        monitor = "{TIMELINES}/monitor"
        socket = "{TIMELINES}/ptp4l"
        "#
    );
    let config: DaemonConfig = timeline.parse().unwrap();
    let _daemon = timeloom_timelined::serve(&config).unwrap();
    // The daemon does not adjust the machine's clock, which keeps its initial error.
    let settings = format!(
        "[global]\ntime_stamping software\nnetwork_transport L2\nfree_running 1\n\
         slaveOnly 1\nlogMinDelayReqInterval -3\ntx_timestamp_timeout 200\n\
         uds_address {TIMELINES}/ptp4l\nslave_event_monitor {TIMELINES}/monitor\n"
    );
    std::fs::write("/tmp/ptp4l.conf", settings).unwrap();
    let mut slave = Command::new("ptp4l");
    slave.args(["-m", "-i", "eth0", "-f", "/tmp/ptp4l.conf"]);
    let mut slave = slave.spawn().unwrap();
    let timeline = opened("ptp");
    let listener = TcpListener::bind(("0.0.0.0", 7000)).unwrap();
    println!("the guest answers");
    answer(&listener, |name| match name {
        "ptp" => reading(&timeline),
        _ => "- - no such timeline\n".to_owned(),
    });
    slave.kill().unwrap();
    slave.wait().unwrap();
}

/// Answers the lines of each client, one at a time, with the result of `to`.
fn answer(listener: &TcpListener, mut to: impl FnMut(&str) -> String) {
    for stream in listener.incoming().flatten() {
        let mut answers = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if answers.write_all(to(&line).as_bytes()).is_err() {
                break;
            }
        }
    }
}

/// Starts an agent, and returns it once it has found the host.
fn started(link: impl Fn() -> HostLink) -> GuestAgent {
    let region = wait_for("the region", || devices::region().ok());
    wait_for("the way to the host", || {
        let region = region.try_clone().unwrap();
        let clock = devices::clock().ok().map(OwnedFd::from);
        GuestAgent::start(link(), region.into(), clock, Directory::new(TIMELINES)).ok()
    })
}

/// Returns the host's timeline of that name, once it has an interval.
fn opened(name: &str) -> Timeline {
    let directory = Directory::new(TIMELINES);
    let timeline = wait_for("the host", || Timeline::open_in(&directory, name).ok());
    wait_for("a good reading", || timeline.read().unwrap().interval());
    timeline
}

/// Formats a reading as a line: begin and end of its interval, if it has one, and its status.
fn reading(timeline: &Timeline) -> String {
    let stamp = timeline.read().unwrap();
    match stamp.interval() {
        None => format!("- - {}\n", stamp.status()),
        Some(interval) => format!(
            "{} {} {}\n",
            interval.earliest().as_ns(),
            interval.latest().as_ns(),
            stamp.status(),
        ),
    }
}

/// Reads the host's timelines for clients at the port `test`.
fn serve(link: impl Fn() -> HostLink) {
    let agent = started(link);
    let timeline = opened("own");
    let need = Requirement::within(Duration::from_ms(900));
    let binding = timeline.bind(need).unwrap();
    let mut asked = devices::port_named("test").unwrap();
    asked.write_all(b"ready\n").unwrap();
    let mut byte = [0];
    loop {
        // The port has no peer, either not yet or not any more.
        if asked.read(&mut byte).unwrap_or(0) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            continue;
        }
        asked.write_all(reading(&timeline).as_bytes()).unwrap();
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

/// Program for a machine that is a host of a session. `scripts/vm/ask` sends lines to it, and
/// compares the answers with the session's clock.
#[test]
#[ignore = "runs in a virtual machine that `make test-vm` starts"]
fn a_clock() {
    let listener = TcpListener::bind(("0.0.0.0", 7000)).unwrap();
    println!("the guest answers");
    answer(&listener, |_| {
        let said: Vec<String> = clocks()
            .iter()
            .map(|(processor, ns)| format!("{processor} {ns}"))
            .collect();
        format!("{}\n", said.join(" "))
    });
}

/// Reads the clock of each processor several times. A thread moves from one processor to the next,
/// so no clock may be behind the previous one.
fn clocks() -> Vec<(usize, i64)> {
    let around = processors();
    let mut said = Vec::new();
    for &processor in around.iter().cycle().take(around.len() * 4) {
        pin(&[processor]);
        let now = clock_gettime(ClockId::Monotonic);
        said.push((processor, now.tv_sec * 1_000_000_000 + now.tv_nsec));
    }
    pin(&around);
    said
}

/// Returns the numbers of the processors that this thread may use.
fn processors() -> Vec<usize> {
    let all = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|number| all.is_set(*number))
        .collect()
}

/// Restricts this thread to the given processors.
fn pin(processors: &[usize]) {
    let mut set = CpuSet::new();
    for &processor in processors {
        set.set(processor);
    }
    sched_setaffinity(None, &set).unwrap();
}

/// Directory in which programs in the machine connect to the agent.
const TIMELINES: &str = "/run/timelines";
