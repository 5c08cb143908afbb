//! Tests of channels. The source of their daemon is this machine's clock, so true time is known.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use timeloom_test_support::{PATIENCE, eventually};
use timeloom_time::Instant;
use timeloom_timeline::messages::{
    Channel, ChannelError, Counts, Endpoints, Envelope, ReceivedMessage, Seal,
};
use timeloom_timeline::{Directory, Order, Status, Timeline, TimelineId};
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::{Daemon, serve};

const KEY: &[u8] = b"a key of sixteen bytes or more";

struct World {
    _daemon: Daemon,
    timeline: Arc<Timeline>,
    _directory: tempfile::TempDir,
}

impl World {
    /// Starts a daemon and waits until its timeline is `Ok`.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config: DaemonConfig = toml::from_str(
            "[[timeline]]\nname = \"cell\"\ntai_offset_s = 37\n\
             poll = { shortest = \"20 ms\", longest = \"100 ms\" }\n\
             source = [{ type = \"system-clock\", vouched_error = \"0 ns\" }]\n",
        )
        .expect("a configuration");
        config.directory = Some(directory.path().to_owned());
        let daemon = serve(&config).expect("a daemon");
        let place = Directory::new(directory.path());
        let timeline = Arc::new(Timeline::open_in(&place, "cell").expect("its timeline"));
        eventually("it is in step", || {
            timeline.read().unwrap().status() == Status::Ok
        });
        Self {
            _daemon: daemon,
            timeline,
            _directory: directory,
        }
    }

    /// Opens a channel that publishes to `peers`, sealed with `key` if that is given.
    fn channel(&self, peers: &[SocketAddr], key: Option<&[u8]>) -> Channel {
        let seal = key.map(|key| Seal::new(key).expect("a long key"));
        Channel::open(Arc::clone(&self.timeline), "run", &endpoints(peers), seal)
            .expect("a channel")
    }
}

fn endpoints(peers: &[SocketAddr]) -> Endpoints {
    Endpoints {
        listen: "127.0.0.1:0".parse().expect("an address"),
        peers: peers.to_vec(),
    }
}

/// Returns true time in nanoseconds: this machine's clock, converted to TAI.
fn truth_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as i64 + 37_000_000_000
}

/// Subscribes to `pattern`; returns the messages received, each with the true time of the callback.
fn heard(
    channel: &Channel,
    pattern: &str,
    at_time: bool,
) -> mpsc::Receiver<(ReceivedMessage, i64)> {
    let (sender, receiver) = mpsc::channel();
    let told = move |message: &ReceivedMessage| {
        let _ = sender.send((message.clone(), truth_ns()));
    };
    channel
        .subscribe(pattern, at_time, told)
        .expect("a pattern");
    receiver
}

fn next(receiver: &mpsc::Receiver<(ReceivedMessage, i64)>) -> (ReceivedMessage, i64) {
    receiver.recv_timeout(PATIENCE).expect("a message")
}

#[test]
fn messages_carry_their_interval_and_wait_for_their_time() {
    let world = World::new();
    let there = world.channel(&[], Some(KEY));
    let here = world.channel(&[there.local_address()], Some(KEY));
    let got = heard(&there, "cell/*", true);
    let other = heard(&there, "cell/stop", false);
    let sent = here.publish("cell/valve", b"now", None).unwrap();
    let (message, _) = next(&got);
    assert_eq!(
        (&*message.key, &*message.payload),
        ("cell/valve", &b"now"[..])
    );
    assert_eq!((message.sent, message.act_at), (sent, None));
    assert_ne!(message.sent.compare(&message.arrived), Ok(Order::After));
    assert!(message.in_time());
    // The messages are sent in another order than that in which they are due.
    let base_ns = truth_ns() + 200_000_000;
    for after_ms in [20, 0, 40] {
        let act_at = Instant::from_ns(base_ns + after_ms * 1_000_000);
        here.publish("cell/valve", &[after_ms as u8], Some(act_at))
            .unwrap();
    }
    for after_ms in [0, 20, 40] {
        let (message, at_ns) = next(&got);
        let due_ns = base_ns + after_ms * 1_000_000;
        assert_eq!(message.payload, [after_ms as u8]);
        assert!(at_ns >= due_ns, "{} ns early", due_ns - at_ns);
        assert!(message.acted.interval().unwrap().earliest().as_ns() >= due_ns);
    }
    let late = sent.interval().unwrap().earliest();
    here.publish("cell/stop", b"late", Some(late)).unwrap();
    let (message, _) = next(&other);
    assert!(!message.in_time());
    assert_eq!(next(&got).0.payload, b"late", "both are told");
    assert_eq!(there.counts(), Counts::default());
}

/// A listener records the datagrams and sends them a second time.
#[test]
fn a_sender_without_the_key_and_replayed_messages_are_not_heard() {
    let world = World::new();
    let tap = UdpSocket::bind("127.0.0.1:0").unwrap();
    tap.set_read_timeout(Some(PATIENCE)).unwrap();
    let there = world.channel(&[], Some(KEY));
    let to = there.local_address();
    let here = world.channel(&[tap.local_addr().unwrap()], Some(KEY));
    let got = heard(&there, "**", false);
    let mut datagram = [0; 2000];
    here.publish("move", b"first", None).unwrap();
    let length = tap.recv(&mut datagram).unwrap();
    let first = datagram[..length].to_vec();
    here.publish("move", b"second", None).unwrap();
    let length = tap.recv(&mut datagram).unwrap();
    let second = datagram[..length].to_vec();

    let unproved = |wanted| eventually("refused", || there.counts().unproved == wanted);
    tap.send_to(&first, to).unwrap();
    assert_eq!(next(&got).0.payload, b"first");
    tap.send_to(&first, to).unwrap();
    unproved(1);
    // The datagram is modified at its end, sent under another key, and sent by a sender with
    // another secret or none.
    let mut changed = second.clone();
    *changed.last_mut().unwrap() ^= 1;
    tap.send_to(&changed, to).unwrap();
    unproved(2);
    let mut renamed = second.clone();
    renamed[8 + "run/mov".len()] = b'a';
    tap.send_to(&renamed, to).unwrap();
    unproved(3);
    for (key, wanted) in [(None, 4), (Some(&b"another secret ..."[..]), 5)] {
        let rogue = world.channel(&[to], key);
        rogue.publish("move", b"forged", None).unwrap();
        unproved(wanted);
    }
    tap.send_to(&second, to).unwrap();
    assert_eq!(next(&got).0.payload, b"second", "and nothing else has come");
    tap.send_to(&first, to).unwrap();
    unproved(6);
    assert_eq!(there.counts().dropped, 0);
}

/// Counts alone do not protect a restarted receiver, because it has not heard any sender.
#[test]
fn a_restarted_receiver_refuses_earlier_messages() {
    let world = World::new();
    let tap = UdpSocket::bind("127.0.0.1:0").unwrap();
    tap.set_read_timeout(Some(PATIENCE)).unwrap();
    let here = world.channel(&[tap.local_addr().unwrap()], Some(KEY));
    let mut datagram = [0; 2000];
    let before = here.publish("move", b"before", None).unwrap();
    let length = tap.recv(&mut datagram).unwrap();
    let recorded = datagram[..length].to_vec();
    // The test waits until the message was certainly sent before the receiver starts.
    world.timeline.commit_wait(&before).unwrap();

    let there = world.channel(&[], Some(KEY));
    let got = heard(&there, "move", false);
    tap.send_to(&recorded, there.local_address()).unwrap();
    eventually("refused", || there.counts().unproved == 1);
    // A sender that is older than the receiver is accepted with messages that it sends from now on.
    here.publish("move", b"since", None).unwrap();
    let length = tap.recv(&mut datagram).unwrap();
    tap.send_to(&datagram[..length], there.local_address())
        .unwrap();
    assert_eq!(next(&got).0.payload, b"since");
    // A message without an interval may have been sent at any time.
    let void = timeloom_timeline::Stamp::void(world.timeline.id(), Status::Disrupted);
    let envelope = Envelope {
        sent: void,
        act_at: None,
        payload: b"",
    };
    let since = world.timeline.read().unwrap();
    let (new, mine) = (Seal::new(KEY).unwrap(), Seal::new(KEY).unwrap());
    let bytes = timeloom_timeline::messages::write(Some(&new), "run/move", &envelope);
    assert!(
        timeloom_timeline::messages::open(Some(&mine), "run/move", &bytes, Some(&since)).is_err()
    );
    assert!(timeloom_timeline::messages::open(Some(&mine), "run/move", &bytes, None).is_ok());
}

#[test]
fn malformed_and_foreign_messages_are_counted_and_dropped() {
    let world = World::new();
    let there = world.channel(&[], None);
    let got = heard(&there, "**", false);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = there.local_address();
    let other = Envelope {
        sent: timeloom_timeline::Stamp::void(TimelineId(1), Status::Disrupted),
        act_at: None,
        payload: b"of another timeline",
    };
    let other = [&b"TLMD\x01\0\0\x08run/move"[..], &other.to_bytes()].concat();
    for (wanted, bytes) in (1..).zip([&b""[..], b"rubbish", &other]) {
        stranger.send_to(bytes, to).unwrap();
        eventually("dropped", || there.counts().dropped == wanted);
    }
    let endpoints = endpoints(&[to]);
    let elsewhere = Channel::open(Arc::clone(&world.timeline), "other", &endpoints, None).unwrap();
    elsewhere.publish("move", b"another run's", None).unwrap();
    eventually("dropped", || there.counts().dropped == 4);
    let here = world.channel(&[to], None);
    here.publish("move", b"ours", None).unwrap();
    assert_eq!(next(&got).0.payload, b"ours", "and nothing else has come");
    for bad in ["", "a//b", "*"] {
        let refused = here.publish(bad, b"", None);
        assert!(matches!(refused, Err(ChannelError::Key(_))), "{refused:?}");
    }
    let refused = here.publish("long", &[0; 65_507], None);
    assert!(matches!(refused, Err(ChannelError::Long(_))), "{refused:?}");
    assert!(there.subscribe("a*", false, |_| {}).is_err());
}

/// Dropping a channel waits for the callback under way. Messages that are still waiting are
/// dropped.
#[test]
fn a_channel_ends_with_all_that_it_began() {
    let world = World::new();
    let there = world.channel(&[], None);
    let here = world.channel(&[there.local_address()], None);
    let got = heard(&there, "**", true);
    here.publish(
        "later",
        b"",
        Some(Instant::from_ns(truth_ns() + 3_600_000_000_000)),
    )
    .unwrap();
    here.publish("now", b"", None).unwrap();
    assert_eq!(next(&got).0.key, "now");
    drop(there);
    // The channel's queue had the only other sender.
    assert!(matches!(
        got.recv_timeout(PATIENCE),
        Err(mpsc::RecvTimeoutError::Disconnected)
    ));
}
