//! Tests of relay and agent without a machine between them. A pair of sockets takes the place of
//! the port, and the region's memory that of the PCI device. Both sides have the same counter, so
//! the guest's measurement must contain zero, and its readings the true time.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use timeloom_clock::quality::{Requirement, Status};
use timeloom_time::Duration as Length;
use timeloom_timeline::protocol::Directory;
use timeloom_timeline::{Change, Timeline};
use timeloom_timelined::vm::{Frames, GuestAgent, HostLink, MOST_FRAME_BYTES, Relay, RelayStats};

use crate::common::{Host, read_the_truth, wait_for};

struct Guest {
    relay: Relay,
    agent: GuestAgent,
    directory: Directory,
    _place: tempfile::TempDir,
}

impl Guest {
    fn new(host: &Host) -> Self {
        let (relay, port) = host.relay();
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::new(place.path());
        let region = relay.region().try_clone_to_owned().unwrap();
        let agent =
            GuestAgent::start(HostLink::Port(port), region, None, directory.clone()).unwrap();
        Self {
            relay,
            agent,
            directory,
            _place: place,
        }
    }

    fn timeline(&self) -> Timeline {
        wait_for("the host's welcome", || {
            Timeline::open_in(&self.directory, "own").ok()
        })
    }
}

#[test]
fn a_guest_binds_and_reads_the_truth_and_its_bindings_end_with_it() {
    let host = Host::new();
    let guest = Guest::new(&host);
    assert_eq!(guest.agent.timelines().collect::<Vec<_>>(), ["own"]);
    let timeline = guest.timeline();
    read_the_truth(&timeline, 20_000);
    let (tell, told) = std::sync::mpsc::channel();
    let binding = timeline
        .bind(Requirement::within(Length::from_ms(500)))
        .unwrap();
    let watch = binding
        .subscribe(move |change| drop(tell.send(change)))
        .unwrap();
    let first = told.recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!(first, Change::Restored);
    assert_eq!(host.bindings(), 1);
    // The counter may have been displaced, so no reading may be good before the next measurement.
    guest.relay.displace();
    assert_eq!(timeline.read().unwrap().status(), Status::Disrupted);
    read_the_truth(&timeline, 1_000);
    // The guest disappears without a message.
    drop(watch);
    let Guest { relay, agent, .. } = guest;
    std::mem::forget(binding);
    drop(agent);
    wait_for("the end of its bindings", || {
        (host.bindings() == 0).then_some(())
    });
    wait_for("the end of its channel", || {
        (!relay.is_connected()).then_some(())
    });
}

#[test]
fn a_guest_whose_way_to_the_host_breaks_takes_it_anew() {
    let host = Host::new();
    let (mut relay, port) = host.relay();
    drop(port);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("vsock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let region = relay.region().try_clone_to_owned().unwrap();
    let directory = Directory::new(place.path());
    let agent = GuestAgent::start(HostLink::Local(path), region, None, directory.clone()).unwrap();
    let mut way = listener.accept().unwrap().0;
    for _ in 0..3 {
        relay.connect(way.try_clone().unwrap().into()).unwrap();
        let timeline = wait_for("the host's welcome", || {
            Timeline::open_in(&directory, "own").ok()
        });
        let need = Requirement::within(Length::from_ms(500));
        let _binding = wait_for("a binding", || timeline.bind(need).ok());
        read_the_truth(&timeline, 1_000);
        assert_eq!(host.bindings(), 1);
        // The link is cut as if the device between the two were restarted.
        way.shutdown(std::net::Shutdown::Both).unwrap();
        wait_for("the end of its bindings", || {
            (host.bindings() == 0).then_some(())
        });
        way = listener.accept().unwrap().0;
    }
    drop(way);
    drop(agent);
}

#[test]
fn a_silent_guest_loses_its_bindings_and_its_channel_serves_the_next() {
    let host = Host::new();
    let (relay, port) = host.relay();
    let mut port = UnixStream::from(port);
    let say = |port: &mut UnixStream, text: &str| {
        port.write_all(text.as_bytes()).unwrap();
        port.write_all(&[0]).unwrap();
    };
    let bind = r#"{"say":"ask","connection":1,"timeline":"own","request":
        {"id":1,"ask":"bind","below_ns":500000000,"above_ns":500000000,"resolution_ns":1}}"#;
    // Messages before a hello must be ignored, because they may come from another guest.
    say(&mut port, bind);
    say(&mut port, r#"{"say":"hello","nonce":7,"version":1}"#);
    say(&mut port, bind);
    wait_for("a binding", || (host.bindings() == 1).then_some(()));
    // Half a message, and then the next guest. Its messages must be read, and the connections of
    // the old guest must end.
    port.write_all(br#"{"say":"ask","connection":2,"timel"#)
        .unwrap();
    port.write_all(&[0]).unwrap();
    say(&mut port, r#"{"say":"hello","nonce":8,"version":1}"#);
    wait_for("the end of the first one's", || {
        (host.bindings() == 0).then_some(())
    });
    say(&mut port, bind);
    wait_for("a binding again", || (host.bindings() == 1).then_some(()));
    // From here on the guest sends nothing.
    wait_for("the end of the second one's", || {
        (host.bindings() == 0).then_some(())
    });
    assert!(relay.is_connected(), "the machine is there");
    assert!(relay.stats().malformed >= 1);
}

#[test]
fn a_hostile_guest_hurts_only_itself() {
    let host = Host::new();
    let good = Guest::new(&host);
    let timeline = good.timeline();
    let binding = timeline
        .bind(Requirement::within(Length::from_ms(500)))
        .unwrap();
    let (relay, port) = host.relay();
    let mut port = UnixStream::from(port);
    port.set_write_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let hello = b"\0{\"say\":\"hello\",\"nonce\":7,\"version\":1}\0";
    port.write_all(hello).unwrap();
    // 100,000 invalid messages of five kinds, one of them very long and without an end.
    let kinds: [&[u8]; 5] = [
        b"\0x\0",
        b"\0{\"say\":\"beat\",\"sequence\":-1}\0",
        b"\0\xff\xfe{{{{\0",
        b"\0{\"say\":\"ask\",\"connection\":1,\"timeline\":\"../own\",\"request\":{\"id\":1,\"ask\":\"open\"}}\0",
        b"\0[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\0",
    ];
    for turn in 0..100_000 {
        port.write_all(kinds[turn % 5]).unwrap();
    }
    port.write_all(&vec![b'z'; 3 * MOST_FRAME_BYTES]).unwrap();
    // More connections and bindings than are allowed, with answers that the guest never reads.
    port.write_all(b"\0").unwrap();
    for number in 0..200 {
        let bind = format!(
            "\0{{\"say\":\"ask\",\"connection\":{},\"timeline\":\"own\",\"request\":{{\"id\":{number},\"ask\":\"bind\",\"below_ns\":900000000,\"above_ns\":900000000,\"resolution_ns\":1}}}}\0",
            number % 10,
        );
        port.write_all(bind.as_bytes()).unwrap();
    }
    let stats = wait_for("all of it to be looked at", || {
        let stats = relay.stats();
        (stats.malformed >= 100_001 && stats.frames >= 201).then_some(stats)
    });
    let RelayStats {
        bindings,
        connections,
        ..
    } = stats;
    assert!(bindings <= 40, "four on each of ten: {bindings}");
    assert!(connections <= 10, "{connections}");
    // The other guest must keep its connections, and read the true time.
    assert!(binding.requirement().is_ok());
    read_the_truth(&timeline, 5_000);
    assert_eq!(good.relay.stats().malformed, 0);
    drop(port);
    wait_for("the end of the hostile one's", || {
        (host.bindings() == 1).then_some(())
    });
}

#[test]
fn frames_are_found_at_any_position_in_a_stream() {
    let mut seen = Vec::new();
    let stream = b"half of one\0{\"a\":1}\0\0\0{\"b\":2}\0{\"c\"";
    for cut in 0..stream.len() {
        let mut frames = Frames::default();
        seen.clear();
        for part in [&stream[..cut], &stream[cut..]] {
            frames.take(part, |frame| seen.push(frame.unwrap().to_vec()));
        }
        let expected: [&[u8]; 3] = [b"half of one", b"{\"a\":1}", b"{\"b\":2}"];
        assert_eq!(seen, expected, "cut at {cut}");
    }
    let mut frames = Frames::default();
    let mut too_long = 0;
    let mut whole = 0;
    let mut count = |frame: Option<&[u8]>| match frame {
        Some(_) => whole += 1,
        None => too_long += 1,
    };
    for _ in 0..5 {
        frames.take(&vec![b'x'; MOST_FRAME_BYTES - 1], &mut count);
    }
    frames.take(b"\0{}\0", &mut count);
    assert_eq!((too_long, whole), (1, 1));
}
