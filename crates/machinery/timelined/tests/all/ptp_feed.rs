//! Tests that `timeloom ptp slave` feeds a timeline: with artificial records, and with a signed
//! grandmaster and slave on a virtual cable. All programs share this machine's clock, so true time
//! is known.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::net::{Cable, INTERFACE};
use crate::common::{config, realtime_ns, wait_for, wait_for_status};
use timeloom_clock::quality::Status;
use timeloom_ptp_io::keys::{SignRequest, make_authority, make_node, sign_ring};
use timeloom_ptp_io::{
    Auth, DriverCounters, EntryForm, Evidence, Feed, Names, ProgramControl, ProgramOptions,
    PtpError, PtpProgram, Role, SignatureChannel, Suite, VerificationPolicy,
};
use timeloom_timeline::shm::PageReader;
use timeloom_timelined::{Daemon, serve};

const TAI_NS: i64 = 37_000_000_000;

/// Starts a daemon in `place` with one timeline, and returns it with the path of its feed socket
/// and a reader.
fn fed(place: &Path, time_to_live: &str, source: &str) -> (Daemon, PathBuf, PageReader) {
    let feed = place.join("feed");
    let text = format!(
        "[[timeline]]\nname = \"plant\"\ntai_offset_s = 37\n\
         poll = {{ shortest = \"20 ms\", longest = \"100 ms\" }}\n\
         fresh_for = \"500 ms\"\ntime_to_live = \"{time_to_live}\"\n\
         [[timeline.source]]\ntype = \"ptp\"\nshows = \"utc\"\nfeed = \"{}\"\n{source}",
        feed.display()
    );
    let daemon = serve(&config(place, &text)).unwrap();
    let reader = PageReader::open(daemon.timelines().next().unwrap().page()).unwrap();
    (daemon, feed, reader)
}

/// Returns the report of a Sync that left its master 30 µs ago and has just arrived, over a link
/// delay of 20 µs and with a correction of 10 µs.
fn record(verdict: &str) -> String {
    let arrival_ns = realtime_ns();
    format!(
        r#"{{"verdict":"{verdict}","source":"gm-1","sequence":1,"arrival_ns":{arrival_ns},"origin_ns":{},"correction_ns":10000.0,"path_delay_ns":20000.0,"offset_ns":0.0,"stamp_error_ns":5000.0,"unvouched_ns":0.0,"hops":1,"failures":0}}"#,
        arrival_ns - 30_000
    )
}

/// Asserts that the interval of a reading contains this machine's time, and returns the interval's
/// width.
fn holds_truth(reader: &PageReader) -> Option<i64> {
    let before_ns = realtime_ns() + TAI_NS;
    let stamp = reader.read().unwrap();
    let after_ns = realtime_ns() + TAI_NS;
    let interval = stamp.interval()?;
    assert!(
        interval.earliest().as_ns() <= after_ns && before_ns <= interval.latest().as_ns(),
        "the truth {before_ns}…{after_ns} is not in {interval:?}"
    );
    Some(interval.width().as_ns())
}

#[test]
fn accepted_syncs_make_time_and_silence_ends_it() {
    let place = tempfile::tempdir().unwrap();
    let (daemon, feed, reader) = fed(place.path(), "2 s", "");
    let mode = feed.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "no other user may write to it");
    let slave = UnixDatagram::unbound().unwrap();
    let tell = |what: &str| slave.send_to(what.as_bytes(), &feed).unwrap();
    wait_for("time", || {
        tell(&record("accepted"));
        holds_truth(&reader)
    });
    let mut least_ns = i64::MAX;
    for _ in 0..50 {
        tell(&record("accepted"));
        // Neither damaged nor unsigned records have an effect.
        tell("{\"verdict\":\"accepted\"}");
        tell(&record("unsigned"));
        std::thread::sleep(Duration::from_millis(10));
        least_ns = least_ns.min(holds_truth(&reader).unwrap());
    }
    // Twice the whole of the link delay and the correction, and the timestamps: ± 35 µs.
    assert!(least_ns >= 60_000, "{least_ns} ns claims too much");
    assert!(least_ns < 2_000_000, "{least_ns} ns");
    // Without further records the status changes at first, and then the interval is lost.
    let lost = wait_for_status(&reader, Status::SourceLost);
    assert!(lost.interval().is_some());
    wait_for("the end of its time", || {
        let stamp = reader.read().unwrap();
        assert!(stamp.status() != Status::Unauthenticated);
        (stamp.interval().is_none()).then_some(())
    });
    assert_eq!(reader.read().unwrap().status(), Status::SourceLost);
    drop((daemon, reader));
}

#[test]
fn unauthenticated_time_gives_no_interval() {
    for verdict in ["unsigned", "rejected", "incomplete"] {
        let place = tempfile::tempdir().unwrap();
        // This timeline does not demand authentication of its sources; a `ptp` source always needs
        // it.
        let (daemon, feed, reader) = fed(place.path(), "60 s", "");
        let slave = UnixDatagram::unbound().unwrap();
        for _ in 0..20 {
            let _ = slave.send_to(record(verdict).as_bytes(), &feed);
            assert!(reader.read().unwrap().interval().is_none(), "{verdict}");
            std::thread::sleep(Duration::from_millis(10));
        }
        wait_for("unauthenticated", || {
            let _ = slave.send_to(record(verdict).as_bytes(), &feed);
            (reader.read().unwrap().status() == Status::Unauthenticated).then_some(())
        });
        // Records that were accepted afterwards count.
        wait_for("time", || {
            let _ = slave.send_to(record("accepted").as_bytes(), &feed);
            holds_truth(&reader)
        });
        drop((daemon, reader));
    }
}

#[test]
fn without_a_word_on_the_scale_and_over_a_file_nothing_is_served() {
    let place = tempfile::tempdir().unwrap();
    let feed = place.path().join("precious");
    std::fs::write(&feed, "data").unwrap();
    let text = |keys: &str| {
        format!(
            "[[timeline]]\nname = \"plant\"\n[[timeline.source]]\ntype = \"ptp\"\nfeed = \"{}\"\n{keys}",
            feed.display()
        )
    };
    let refusal = |keys: &str| {
        serve(&config(place.path(), &text(keys)))
            .unwrap_err()
            .to_string()
    };
    assert!(refusal("").contains("shows"));
    assert!(refusal("shows = \"tai\"").contains("precious"));
    assert_eq!(std::fs::read_to_string(&feed).unwrap(), "data");
}

/// PTP program in a thread that ends with the test.
struct Clock {
    wake: ProgramControl,
    thread: Option<JoinHandle<Result<DriverCounters, PtpError>>>,
}

impl Clock {
    fn start(
        cable: &Cable,
        end: usize,
        mut options: ProgramOptions,
        feed: Option<(&Path, VerificationPolicy)>,
    ) -> Self {
        options.profile.log_sync_interval = -4;
        options.profile.log_announce_interval = -3;
        options.profile.log_delay_interval = -3;
        // Delays on a busy machine must not count as an attack.
        options.jump_bound = timeloom_ptp_io::TimeInterval::from_ns(STAMP_ERROR_NS);
        let names = options
            .auth
            .as_ref()
            .map_or_else(Names::default, Auth::names);
        let feed = feed.map(|(path, policy)| Feed::open(path, &options, policy).unwrap());
        let sink = Box::new(move |line| feed.iter().for_each(|feed| feed.tell(&line)));
        let evidence = Evidence::new("node", names, sink);
        let wake = ProgramControl::new().unwrap();
        let told = wake.clone();
        let program = cable.ends[end]
            .run(move || PtpProgram::open(options, told, Box::new(evidence)))
            .unwrap()
            .unwrap();
        let thread = Some(std::thread::spawn(move || program.run()));
        Self { wake, thread }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Error of software timestamps on a machine that may take the processor from a thread for a while.
const STAMP_ERROR_NS: i64 = 20_000_000;

fn options(role: Role, keys: Option<&Path>) -> ProgramOptions {
    let mut options = ProgramOptions::new(role, vec![INTERFACE.to_owned()]);
    options.profile.priority.0 = if role == Role::Grandmaster { 100 } else { 200 };
    options.auth = keys.map(|keys| {
        let channel = SignatureChannel::Inline(Suite::Ed25519);
        let (policy, hops) = (VerificationPolicy::Strict, options.profile.max_hops);
        Auth::open(keys, role, channel, policy, EntryForm::Full, hops).unwrap()
    });
    options
}

/// Creates keys for both ends, and the right to be grandmaster for one of them.
fn make_keys(place: &Path) -> [PathBuf; 2] {
    make_authority(place).unwrap();
    let nodes = [("gm", "020000fffe00000a"), ("slave", "020000fffe00000b")];
    let directories = nodes.map(|(name, clock)| {
        let directory = place.join(name);
        make_node(&directory, name, clock, Suite::Ed25519, 4).unwrap();
        directory
    });
    let request = SignRequest {
        authority: place.join("authority.key"),
        ring: place.join("ring.toml"),
        publics: directories.iter().map(|of| of.join("node.pub")).collect(),
        grandmasters: vec!["gm".to_owned()],
        ..SignRequest::default()
    };
    sign_ring(&request).unwrap();
    for directory in &directories {
        for file in ["ring.toml", "authority.pub"] {
            std::fs::copy(place.join(file), directory.join(file)).unwrap();
        }
    }
    directories
}

#[test]
fn a_signed_grandmaster_is_time_and_an_unsigned_one_is_not() {
    let cable = Cable::lay();
    let place = tempfile::tempdir().unwrap();
    let [gm, slave] = make_keys(&place.path().join("keys"));
    let (daemon, feed, reader) = fed(place.path(), "3 s", "");
    let policy = VerificationPolicy::Strict;
    let following = options(Role::Slave, Some(&slave));
    let _slave = Clock::start(&cable, 1, following, Some((&feed, policy)));
    let leader = Clock::start(&cable, 0, options(Role::Grandmaster, Some(&gm)), None);
    wait_for_status(&reader, Status::Ok);
    let widths: Vec<i64> = (0..200)
        .filter_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            holds_truth(&reader)
        })
        .collect();
    assert!(widths.len() >= 150, "{} of 200 readings", widths.len());
    let least_ns = *widths.iter().min().unwrap();
    eprintln!(
        "narrowest interval: {least_ns} ns, of which stamps {}",
        2 * STAMP_ERROR_NS
    );
    assert!(least_ns < 4 * STAMP_ERROR_NS, "{least_ns} ns");
    // An unsigned grandmaster replaces it: the interval grows, and is then lost.
    drop(leader);
    let unsigned = Clock::start(&cable, 0, options(Role::Grandmaster, None), None);
    wait_for("unauthenticated", || {
        holds_truth(&reader);
        (reader.read().unwrap().status() == Status::Unauthenticated).then_some(())
    });
    for _ in 0..50 {
        assert_eq!(reader.read().unwrap().status(), Status::Unauthenticated);
        std::thread::sleep(Duration::from_millis(5));
    }
    // The signed grandmaster returns.
    drop(unsigned);
    let _leader = Clock::start(&cable, 0, options(Role::Grandmaster, Some(&gm)), None);
    wait_for_status(&reader, Status::Ok);
    assert!(holds_truth(&reader).is_some());
    drop((daemon, reader));
}

#[test]
fn a_slave_without_keys_makes_no_time() {
    let cable = Cable::lay();
    let place = tempfile::tempdir().unwrap();
    let (_daemon, feed, reader) = fed(place.path(), "60 s", "");
    let _leader = Clock::start(&cable, 0, options(Role::Grandmaster, None), None);
    let following = options(Role::Slave, None);
    let _slave = Clock::start(
        &cable,
        1,
        following,
        Some((&feed, VerificationPolicy::Strict)),
    );
    wait_for("unauthenticated", || {
        let stamp = reader.read().unwrap();
        assert!(stamp.interval().is_none());
        (stamp.status() == Status::Unauthenticated).then_some(())
    });
}
