//! Tests of every operation, with a daemon whose source is this machine's clock. The configuration
//! declares that clock to be exact, so that true time is known.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration as StdDuration, SystemTime, UNIX_EPOCH};

use timeloom_time::{Duration, Instant};
use timeloom_timeline::protocol::Connection;
use timeloom_timeline::{
    BindError, Change, ClientError, Directory, OpenError, Order, PastError, Requirement, Schedule,
    Status, Timeline, Timer, WaitError,
};
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::{Daemon, serve};

const PATIENCE: StdDuration = StdDuration::from_secs(120);

struct World {
    daemon: Option<Daemon>,
    timeline: Arc<Timeline>,
    directory: tempfile::TempDir,
}

impl World {
    /// Starts a daemon and waits until its timeline is `Ok`.
    fn new() -> Self {
        Self::with("")
    }

    /// Starts a daemon as [`Self::new`] does, with further keys in the timeline's configuration.
    fn with(keys: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config: DaemonConfig = toml::from_str(&format!(
            "[[timeline]]\nname = \"cell\"\ntai_offset_s = 37\nalive_for = \"2 s\"\n{keys}\n\
             poll = {{ shortest = \"20 ms\", longest = \"100 ms\" }}\n\
             source = [{{ type = \"system-clock\", vouched_error = \"0 ns\" }}]\n",
        ))
        .unwrap();
        config.directory = Some(directory.path().to_owned());
        let daemon = Some(serve(&config).unwrap());
        let place = Directory::new(directory.path());
        let timeline = Arc::new(Timeline::open_in(&place, "cell").unwrap());
        let deadline = std::time::Instant::now() + PATIENCE;
        while timeline.read().unwrap().status() != Status::Ok {
            assert!(std::time::Instant::now() < deadline, "never synchronised");
            std::thread::sleep(StdDuration::from_millis(5));
        }
        Self {
            daemon,
            timeline,
            directory,
        }
    }
}

/// Returns true time in nanoseconds: this machine's clock, converted to TAI.
fn truth() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as i64 + 37_000_000_000
}

fn ms(ms: i64) -> Duration {
    Duration::from_ms(ms)
}

#[test]
fn readings_hold_true_time_and_compare() {
    let world = World::new();
    let timeline = &world.timeline;
    for _ in 0..1_000 {
        let before = truth();
        let stamp = timeline.read().unwrap();
        let after = truth();
        let interval = stamp.interval().expect("a good timeline");
        assert!(
            interval.earliest().as_ns() <= after,
            "{interval:?} after {after}"
        );
        assert!(
            interval.latest().as_ns() >= before,
            "{interval:?} before {before}"
        );
    }
    assert_eq!(timeline.tai_offset_s(), Some(37));
    assert_eq!(timeline.name().unwrap().as_str(), "cell");
    let first = timeline.read().unwrap();
    assert_eq!(first.compare(&first), Ok(Order::Uncertain));
    timeline.commit_wait(&first).unwrap();
    let later = timeline.read().unwrap();
    assert_eq!(first.compare(&later), Ok(Order::Before));
    assert_eq!(later.compare(&first), Ok(Order::After));
    let strict: Vec<i64> = (0..1_000)
        .map(|_| timeline.read_strict().unwrap().interval().unwrap())
        .map(|interval| interval.estimate().as_ns())
        .collect();
    assert!(strict.is_sorted_by(|a, b| a < b));
}

#[test]
fn waits_are_never_early() {
    let world = World::new();
    let timeline = &world.timeline;
    for _ in 0..5 {
        let target = Instant::from_ns(truth()) + ms(3);
        let woken = timeline.wait_until(target).unwrap();
        assert!(
            truth() >= target.as_ns(),
            "early by {}",
            target.as_ns() - truth()
        );
        assert!(woken.stamp.interval().unwrap().earliest() >= target);
        assert!(woken.overshoot >= Duration::ZERO);
    }
    let before = truth();
    timeline.sleep(ms(5)).unwrap();
    assert!(truth() - before >= 5_000_000);
    let mut schedule = Schedule::new(ms(10), Instant::ZERO);
    let beginnings: Vec<i64> = (0..4)
        .map(|_| timeline.wait_until_next_period(&mut schedule).unwrap())
        .map(|woken| woken.target.as_ns())
        .collect();
    assert!(
        beginnings.iter().all(|ns| ns % 10_000_000 == 0),
        "{beginnings:?}"
    );
    assert!(beginnings.is_sorted_by(|a, b| a < b), "{beginnings:?}");
    let mut never = Schedule::new(Duration::ZERO, Instant::ZERO);
    assert_eq!(
        timeline.wait_until_next_period(&mut never),
        Err(WaitError::Senseless)
    );
}

#[test]
fn timers_fire_on_time_until_they_are_cancelled() {
    let world = World::new();
    let (fired, calls) = mpsc::channel();
    let first = Instant::from_ns(truth()) + ms(5);
    let fire = move |woken: Result<timeloom_timeline::WaitResult, WaitError>| {
        let woken = woken.unwrap();
        assert!(truth() >= woken.target.as_ns());
        let _ = fired.send(woken.target);
    };
    let timer = Timer::start(Arc::clone(&world.timeline), first, Some(ms(4)), fire).unwrap();
    let targets: Vec<_> = (0..3)
        .map(|_| calls.recv_timeout(PATIENCE).unwrap())
        .collect();
    assert_eq!(targets[0], first);
    for target in &targets {
        assert_eq!((*target - first).as_ns() % 4_000_000, 0, "{targets:?}");
    }
    timer.cancel();
    while calls.try_recv().is_ok() {}
    std::thread::sleep(StdDuration::from_millis(12));
    assert!(calls.try_recv().is_err(), "fired after it was cancelled");
    // A timer whose instant is far in the future can be cancelled at once.
    let far = Instant::from_ns(truth()) + Duration::from_s(3600);
    let timer = Timer::start(Arc::clone(&world.timeline), far, None, |_| panic!("early")).unwrap();
    drop(timer);
}

#[test]
fn bindings_hold_requirements_and_tell_when_they_are_not_met() {
    let mut world = World::new();
    let loose = Requirement::within(ms(10_000));
    let binding = world.timeline.bind(loose).unwrap();
    assert_eq!(binding.requirement().unwrap(), loose);
    let (told, changes) = mpsc::channel();
    let told = Mutex::new(told);
    let subscription = binding
        .subscribe(move |change| {
            let _ = told.lock().unwrap().send(change);
        })
        .unwrap();
    assert_eq!(changes.recv_timeout(PATIENCE).unwrap(), Change::Restored);
    binding.set_accuracy(ms(9_000)).unwrap();
    binding.set_resolution(ms(1)).unwrap();
    assert_eq!(binding.accuracy().unwrap(), ms(9_000));
    assert_eq!(binding.resolution().unwrap(), ms(1));
    let tight = binding.set_accuracy(Duration::from_ns(1));
    assert!(
        matches!(tight, Err(BindError::Impossible(best)) if best.accuracy > Duration::from_ns(1)),
        "{tight:?}"
    );
    assert_eq!(binding.accuracy().unwrap(), ms(9_000), "the old one stays");
    let negative = world.timeline.bind(Requirement::within(ms(-1)));
    assert!(matches!(negative, Err(BindError::Senseless)));
    // The end of the daemon is reported as a violation, with the reason.
    world.daemon.take();
    let change = changes.recv_timeout(PATIENCE).unwrap();
    assert!(
        matches!(
            change,
            Change::Violated {
                status: Status::DaemonDead,
                ..
            }
        ),
        "{change:?}"
    );
    drop(subscription);
    let refused = world.timeline.bind(loose);
    assert!(matches!(refused, Err(BindError::Daemon(_))), "{refused:?}");
}

#[test]
fn a_binding_ends_with_its_subscription_alive() {
    let world = World::new();
    let binding = world
        .timeline
        .bind(Requirement::within(ms(10_000)))
        .unwrap();
    let subscription = binding.subscribe(|_| ()).unwrap();
    drop(binding);
    drop(subscription);
    world
        .timeline
        .bind(Requirement::within(ms(10_000)))
        .unwrap()
        .unbind()
        .unwrap();
}

#[test]
fn past_stamps_are_converted_and_unknown_ones_refused() {
    let world = World::new();
    let event = world.timeline.event().unwrap();
    let known = truth();
    std::thread::sleep(StdDuration::from_millis(150));
    let converted = world.timeline.convert(event.ticks).unwrap();
    let interval = converted.interval().expect("it was synchronised then");
    // The event was before `known`, at most as long ago as this test takes.
    assert!(interval.earliest().as_ns() <= known);
    assert!(interval.latest() >= event.stamp.interval().unwrap().earliest());
    assert!(matches!(
        world.timeline.convert(1),
        Err(PastError::Daemon(_))
    ));
    let soon = world.timeline.ticks() * 2;
    assert!(matches!(
        world.timeline.convert(soon),
        Err(PastError::Daemon(_))
    ));
}

/// The daemon closes connections that have been idle for long. The program does not notice this.
#[test]
fn a_question_after_a_long_silence_is_answered() {
    let world = World::with("idle_for = \"200 ms\"");
    let place = Directory::new(world.directory.path());
    let name = world.timeline.name().unwrap();
    let later = Connection::open(&place, name);
    // This connection was opened after the timeline's own one, so the daemon closes it later.
    let ended = later.unwrap().next_event(PATIENCE);
    assert!(matches!(ended, Err(ClientError::Ended)), "{ended:?}");
    let event = world.timeline.event().unwrap();
    for _ in 0..3 {
        world.timeline.convert(event.ticks).unwrap();
    }
}

#[test]
fn the_page_alone_is_enough_to_read_and_wait() {
    let mut world = World::new();
    let path = world.directory.path().join("cell.page");
    let page = Timeline::open_page(&path).unwrap();
    assert_eq!(page.id(), world.timeline.id());
    page.sleep(ms(1)).unwrap();
    assert!(matches!(
        page.bind(Requirement::within(ms(1))),
        Err(BindError::NoDaemon)
    ));
    assert!(matches!(page.convert(1), Err(PastError::NoDaemon)));
    // Without a daemon the page ages. Waits succeed until the page has no valid interval any more.
    world.daemon.take();
    page.sleep(ms(1)).unwrap();
    let missing = Timeline::open_in(&Directory::new(world.directory.path()), "cell");
    assert!(matches!(missing, Err(OpenError::Daemon(_))));
    let missing = Timeline::open_in(&Directory::new(world.directory.path()), "a/b");
    assert!(matches!(missing, Err(OpenError::Name(_))));
}
