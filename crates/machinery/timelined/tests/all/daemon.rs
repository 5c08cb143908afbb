//! A daemon and its clients, over a real socket and real pages.

use std::time::Duration;

use crate::common::{config, realtime_ns, wait_for, wait_for_status};
use timeloom_clock::quality::Status;
use timeloom_test_support::Traces;
use timeloom_timeline::protocol::{
    Answer, BindingEvent, PlainRequirement, RefusalCode, RequestKind, TimelineScale, decode,
};
use timeloom_timeline::protocol::{ClientError, Connection, Directory, TimelineName};
use timeloom_timeline::shm::PageReader;
use timeloom_timelined::{DaemonError, serve};

/// A timeline whose reference is the machine's own clock, which is true by definition.
const OWN: &str = r#"
    [[timeline]]
    name = "own"
    tai_offset_s = 37
    poll = { shortest = "20 ms", longest = "2 s" }
    [[timeline.source]]
    type = "system-clock"
    vouched_error = "0 ns"
"#;

fn own() -> TimelineName {
    "own".parse().unwrap()
}

fn need(accuracy_ns: i64) -> PlainRequirement {
    PlainRequirement {
        below_ns: accuracy_ns,
        above_ns: accuracy_ns,
        resolution_ns: accuracy_ns.max(1),
    }
}

fn bind(connection: &mut Connection, accuracy_ns: i64) -> u64 {
    match connection
        .ask(RequestKind::Bind(need(accuracy_ns)))
        .unwrap()
    {
        Answer::Bound { binding } => binding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_reads_the_timeline_of_the_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = serve(&config(directory.path(), OWN)).unwrap();
    let mut connection = Connection::open(daemon.directory(), &own()).unwrap();
    let (page, fd) = connection.page().unwrap();
    assert_eq!((page.version, page.scale), (1, TimelineScale::Tai));
    assert_eq!(page.timeline, format!("{:032x}", own().id().0));
    let readers = [
        PageReader::open(&fd).unwrap(),
        PageReader::open_path(page.path.as_ref()).unwrap(),
    ];
    for reader in &readers {
        wait_for_status(reader, Status::Ok);
        assert_eq!(reader.tai_offset_s(), Some(37));
        for _ in 0..100 {
            let tai_ns = |utc_ns: i64| utc_ns + 37_000_000_000;
            let before_ns = tai_ns(realtime_ns());
            let interval = reader.read().unwrap().interval().unwrap();
            let after_ns = tai_ns(realtime_ns());
            assert!(interval.earliest().as_ns() <= after_ns);
            assert!(interval.latest().as_ns() >= before_ns);
        }
    }
    // The shared memory cannot be written, not even through /proc.
    use std::os::fd::AsRawFd;
    let again = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let again = std::fs::File::options().read(true).write(true).open(again);
    if let Ok(file) = again {
        use std::os::unix::fs::FileExt;
        assert!(file.write_at(&[0; 8], 0).is_err());
        assert!(file.set_len(0).is_err());
    }
    // A past reading of the counter is converted; a future one is refused.
    let past = readers[0].ticks();
    let then = match connection
        .ask(RequestKind::Convert { ticks: past })
        .unwrap()
    {
        Answer::Stamp(stamp) => stamp.interval.unwrap(),
        other => panic!("{other:?}"),
    };
    let now = readers[0].read().unwrap().interval().unwrap();
    assert!(then.earliest_ns <= now.latest().as_ns());
    let future = connection.ask(RequestKind::Convert {
        ticks: past + (1 << 50),
    });
    let Err(ClientError::Refused { code, .. }) = future else {
        panic!("{future:?}");
    };
    assert_eq!(code, RefusalCode::InFuture);
}

#[test]
fn bindings_report_changes_and_end_with_their_client() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = serve(&config(directory.path(), OWN)).unwrap();
    let timeline = daemon.timelines().next().unwrap().clone();
    let report = || timeline.report().unwrap();
    wait_for("synchronisation", || {
        (report().stamp.status == Status::Ok).then_some(())
    });
    let mut connection = Connection::open(daemon.directory(), &own()).unwrap();
    let loose = bind(&mut connection, 100_000_000);
    connection
        .ask(RequestKind::Subscribe { binding: loose })
        .unwrap();
    let first = connection.next_event(Duration::from_secs(120)).unwrap();
    assert_eq!(first, Some(BindingEvent::Restored { binding: loose }));
    // No accuracy can be better than the clock's resolution. The answer states the best possible
    // one.
    let impossible = connection.ask(RequestKind::Bind(need(0))).unwrap();
    let Answer::Impossible {
        accuracy_ns,
        resolution_ns,
    } = impossible
    else {
        panic!("{impossible:?}");
    };
    assert!(accuracy_ns > 0 && resolution_ns == 1);
    let tight = bind(&mut connection, accuracy_ns * 4);
    wait_for("effort", || {
        (report().poll_interval_ns < 2_000_000_000).then_some(())
    });
    connection
        .ask(RequestKind::Set {
            binding: tight,
            need: need(1_000_000_000),
        })
        .unwrap();
    match connection.ask(RequestKind::Get { binding: tight }).unwrap() {
        Answer::Binding(binding) => assert_eq!(binding.need, need(1_000_000_000)),
        other => panic!("{other:?}"),
    }
    wait_for("rest", || {
        (report().poll_interval_ns == 2_000_000_000).then_some(())
    });
    // Another client's bindings are not accessible.
    let mut other = Connection::open(daemon.directory(), &own()).unwrap();
    let stolen = other.ask(RequestKind::Unbind { binding: loose });
    assert!(
        matches!(
            stolen,
            Err(ClientError::Refused {
                code: RefusalCode::NoSuchBinding,
                ..
            })
        ),
        "{stolen:?}"
    );
    bind(&mut other, 1_000_000);
    assert_eq!(report().bindings, 3);
    connection
        .ask(RequestKind::Unbind { binding: tight })
        .unwrap();
    assert!(connection.ask(RequestKind::Get { binding: tight }).is_err());
    drop(other);
    wait_for("the dead client's binding to end", || {
        (report().bindings == 1).then_some(())
    });
}

#[test]
fn a_disturbance_voids_the_timeline_and_tells_bindings() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = serve(&config(directory.path(), OWN)).unwrap();
    let timeline = daemon.timelines().next().unwrap();
    let reader = PageReader::open(timeline.page()).unwrap();
    wait_for_status(&reader, Status::Ok);
    let mut connection = Connection::open(daemon.directory(), &own()).unwrap();
    let binding = bind(&mut connection, 100_000_000);
    connection.ask(RequestKind::Subscribe { binding }).unwrap();
    let next =
        |connection: &mut Connection| connection.next_event(Duration::from_secs(120)).unwrap();
    assert_eq!(
        next(&mut connection),
        Some(BindingEvent::Restored { binding })
    );
    timeline.disturb(timeloom_clock::timeline::Disturbance::SystemClockSet);
    match next(&mut connection) {
        Some(BindingEvent::Violated { shortfall, .. }) => {
            assert_eq!(shortfall.status, Status::Disrupted);
        }
        other => panic!("{other:?}"),
    }
    // The timeline begins again: an answer of the new era restores the binding.
    assert_eq!(
        next(&mut connection),
        Some(BindingEvent::Restored { binding })
    );
    let report = timeline.report().unwrap();
    assert_eq!(report.disturbances, 1);
    assert_eq!(
        report.last_disturbance.as_deref(),
        Some("the system clock was set")
    );
}

#[test]
fn one_timeline_has_one_daemon_and_a_successor_goes_on_with_its_page() {
    let directory = tempfile::tempdir().unwrap();
    let settings = config(directory.path(), OWN);
    let first = serve(&settings).unwrap();
    let second = serve(&settings);
    assert!(
        matches!(second, Err(DaemonError::Taken { .. })),
        "{second:?}"
    );
    let path = Directory::new(directory.path()).page(&own());
    let of_file = PageReader::open_path(&path).unwrap();
    let of_memory = PageReader::open(first.timelines().next().unwrap().page()).unwrap();
    wait_for_status(&of_file, Status::Ok);
    drop(first);
    for reader in [&of_file, &of_memory] {
        // Readers see this at once, not only after `alive_for`.
        assert_eq!(reader.read().unwrap().status(), Status::DaemonDead);
    }
    let gone = Connection::open(&Directory::new(directory.path()), &own());
    assert!(matches!(gone, Err(ClientError::NoDaemon(_))));
    let _successor = serve(&settings).unwrap();
    wait_for_status(&of_file, Status::Ok);
    assert_eq!(of_memory.read().unwrap().status(), Status::DaemonDead);
}

#[test]
fn hostile_packets_are_refused_and_cost_nothing() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
    let directory = tempfile::tempdir().unwrap();
    let daemon = serve(&config(directory.path(), OWN)).unwrap();
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let path = daemon.directory().socket(&own());
    rustix::net::connect(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let long = vec![b'['; 60_000];
    let deep = vec![b'['; 10_000];
    let negative = br#"{"id":5,"ask":"bind","below_ns":-1,"above_ns":0,"resolution_ns":1}"#;
    for packet in [b"\0\xff".as_slice(), b"{}", &long, &deep, negative] {
        rustix::net::send(&socket, packet, SendFlags::empty()).unwrap();
        let mut buffer = [0; 4096];
        let length = rustix::net::recv(&socket, &mut buffer[..], rustix::net::RecvFlags::empty());
        let length = length.unwrap().0;
        let reply: timeloom_timeline::protocol::Reply = decode(&buffer[..length]).unwrap();
        assert!(
            matches!(
                reply.answer,
                Answer::Refused {
                    code: RefusalCode::BadRequest,
                    ..
                }
            ),
            "{reply:?}"
        );
    }
    drop(socket);
    assert!(
        Connection::open(daemon.directory(), &own())
            .unwrap()
            .ask(RequestKind::Report)
            .is_ok()
    );
}

/// A thousand idle connections must not delay other clients.
#[test]
fn idle_connections_keep_no_other_client_out() {
    let directory = tempfile::tempdir().unwrap();
    let traces = Traces::in_directory(directory.path());
    timeloom_sys::limit::raise_descriptors().unwrap();
    let daemon = serve(&config(directory.path(), OWN)).unwrap();
    let mut bound = Connection::open(daemon.directory(), &own()).unwrap();
    let binding = bind(&mut bound, 1_000_000_000);
    let mut idle = Vec::new();
    for _ in 0..1_100 {
        idle.push(Connection::open(daemon.directory(), &own()).unwrap());
    }
    let mut late = Connection::open(daemon.directory(), &own()).unwrap();
    let (page, fd) = late.page().unwrap();
    assert_eq!(page.name, own());
    assert!(PageReader::open(&fd).is_ok());
    bind(&mut late, 1_000_000_000);
    // A program that was bound before those connections is still bound.
    let answer = bound.ask(RequestKind::Get { binding }).unwrap();
    assert!(matches!(answer, Answer::Binding(_)), "{answer:?}");
    drop((idle, fd, daemon));
    traces.assert_nothing_left();
}

/// An idle connection is closed even if no other client needs its place.
#[test]
fn a_connection_without_a_binding_ends_after_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let traces = Traces::in_directory(directory.path());
    let idle_for = Duration::from_millis(300);
    let settings = OWN.replace("poll =", "idle_for = \"300 ms\"\npoll =");
    let daemon = serve(&config(directory.path(), &settings)).unwrap();
    let mut bound = Connection::open(daemon.directory(), &own()).unwrap();
    let binding = bind(&mut bound, 1_000_000_000);
    let mut unbound = Connection::open(daemon.directory(), &own()).unwrap();
    let once = bind(&mut unbound, 1_000_000_000);
    let began = std::time::Instant::now();
    unbound.ask(RequestKind::Unbind { binding: once }).unwrap();
    let ended = unbound.next_event(Duration::from_secs(120));
    assert!(matches!(ended, Err(ClientError::Ended)), "{ended:?}");
    assert!(began.elapsed() >= idle_for);
    // This connection was silent for longer than that, but has a binding.
    let answer = bound.ask(RequestKind::Get { binding }).unwrap();
    assert!(matches!(answer, Answer::Binding(_)), "{answer:?}");
    drop(daemon);
    traces.assert_nothing_left();
}
