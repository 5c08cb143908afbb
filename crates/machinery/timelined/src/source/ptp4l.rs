//! linuxptp's `ptp4l` as a source, by its slave event monitor.
//!
//! The offset that `ptp4l` reports is an average over filtered delays, which is not a bound. Its
//! event monitor (`slave_event_monitor` in its configuration) provides the four timestamps
//! themselves, which limit the time from both sides without any assumption about the path. Its
//! management socket (`uds_address`) reports the time scale of the master and the number of clocks
//! between the grandmaster and this host.
//!
//! This source is for software timestamping: the slave's own timestamps are then of CLOCK_REALTIME,
//! which `ptp4l` may or may not steer.

use parking_lot::Mutex;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration as StdDuration;

use timeloom_clock::timeline::Era;
use timeloom_time::{Duration, Instant};
use timeloom_wire::PortIdentity;

use super::bracket::Bracket;
use super::ptp4l_codec::{
    DataSet, DataSetAnswer, TimingKind, TimingRecord, accuracy_ns, get, parse_answer, parse_timing,
};
use super::realtime_line::RealtimeLine;
use super::tai_offset::Stated;
use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{Ptp4lConfig, Shows, TimelineConfig};
use timeloom_timeline::protocol::TimelineScale;

pub(super) struct Ptp4l {
    config: Ptp4lConfig,
    scale: TimelineScale,
    from_utc: FromUtc,
    shared: Arc<Mutex<Shared>>,
    sequence_id: u16,
    properties: Option<MasterProperties>,
    /// Text about a TAI offset of the master that the table of leap seconds disproves.
    contradiction: Option<String>,
}

/// State shared by the thread that receives monitor messages and the requests.
struct Shared {
    bracket: Bracket,
    master: Option<PortIdentity>,
    heard: u64,
    given: u64,
    last_refusal: Option<SourceFailure>,
}

/// Properties of a master, as of an instant.
struct MasterProperties {
    at: std::time::Instant,
    master: Option<PortIdentity>,
    reference: Reference,
}

/// Relation of the master's clock to the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    /// Offset to add to the master's time.
    shift: Duration,
    /// Maximum error of the master's clock.
    error: Duration,
}

impl Ptp4l {
    pub(super) fn new(
        config: Ptp4lConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Result<Self, SourceFailure> {
        let path = config.monitor.clone();
        let failed = |error: std::io::Error| SourceFailure(format!("{}: {error}", path.display()));
        // The file may be left from a dead daemon. A living daemon would hold the timeline's lock.
        let _ = std::fs::remove_file(&config.monitor);
        let socket = UnixDatagram::bind(&config.monitor).map_err(failed)?;
        socket
            .set_read_timeout(Some(StdDuration::from_millis(500)))
            .map_err(failed)?;
        let max_error = clock.oscillator(timeline.oscillator()).max_error;
        let shared = Arc::new(Mutex::new(Shared {
            bracket: Bracket::new(Era::default(), max_error),
            master: None,
            heard: 0,
            given: 0,
            last_refusal: None,
        }));
        let weak = Arc::downgrade(&shared);
        std::thread::spawn(move || listen(&socket, &clock, &weak));
        Ok(Self {
            config,
            scale: timeline.scale,
            from_utc: FromUtc::of(timeline),
            shared,
            sequence_id: 0,
            properties: None,
            contradiction: None,
        })
    }

    /// Returns the properties of `master` according to the management socket, cached for
    /// [`PROPERTIES_LIFETIME`]. Another master may have another time scale, offset or accuracy.
    fn reference(&mut self, master: Option<PortIdentity>) -> Result<Reference, SourceFailure> {
        if let Some(properties) = &self.properties
            && properties.master == master
            && properties.at.elapsed() < PROPERTIES_LIFETIME
        {
            return Ok(properties.reference);
        }
        let (socket, _name) = self.management()?;
        let (parent, accuracy) = self.parent(&socket)?;
        let DataSetAnswer::Current { steps_removed } = self.get(&socket, DataSet::Current)? else {
            return Err(SourceFailure::because("ptp4l sent an unexpected answer"));
        };
        let DataSetAnswer::TimeProperties {
            utc_offset_s,
            ptp_timescale,
        } = self.get(&socket, DataSet::TimeProperties)?
        else {
            return Err(SourceFailure::because("ptp4l sent an unexpected answer"));
        };
        // `ptp4l` selects another master before it reports the first record of that master.
        let (parent_after, _) = self.parent(&socket)?;
        if parent_after != parent || master.is_some_and(|master| master != parent) {
            return Err(SourceFailure::because("the master has just changed"));
        }
        let reference = Reference {
            shift: self.shift(ptp_timescale, utc_offset_s)?,
            error: self.error(steps_removed, accuracy)?,
        };
        self.properties = Some(MasterProperties {
            at: std::time::Instant::now(),
            master,
            reference,
        });
        Ok(reference)
    }

    /// Requests the port identity of `ptp4l`'s present master and the accuracy of its grandmaster.
    fn parent(&mut self, socket: &UnixDatagram) -> Result<(PortIdentity, u8), SourceFailure> {
        match self.get(socket, DataSet::Parent)? {
            DataSetAnswer::Parent { master, accuracy } => Ok((master, accuracy)),
            _ => Err(SourceFailure::because("ptp4l sent an unexpected answer")),
        }
    }

    /// Returns the offset to add to the master's time, and records whether the master's statement
    /// of TAI minus UTC is overruled.
    fn shift(
        &mut self,
        ptp_timescale: bool,
        utc_offset_s: Option<i16>,
    ) -> Result<Duration, SourceFailure> {
        self.contradiction = None;
        let shows = match self.config.shows {
            Some(shows) => shows,
            None if ptp_timescale => Shows::Tai,
            None if self.scale == TimelineScale::Local => return Ok(Duration::ZERO),
            None => {
                return Err(SourceFailure::because(
                    "the master has an epoch of its own: set `shows`, or make the timeline local",
                ));
            }
        };
        if self.scale == TimelineScale::Local || shows == Shows::Tai {
            return Ok(Duration::ZERO);
        }
        let offset = self.from_utc.judge(Stated {
            offset_s: utc_offset_s.map(i32::from),
            by: "the PTP master",
        })?;
        self.contradiction = offset.contradiction;
        Ok(Duration::from_s(offset.offset_s.into()))
    }

    fn error(&self, steps_removed: u16, accuracy: u8) -> Result<Duration, SourceFailure> {
        let master = match (
            self.config.reference_error,
            accuracy_ns(accuracy),
            self.scale,
        ) {
            (Some(stated), _, _) => stated,
            (None, Some(ns), _) => Duration::from_ns(ns),
            // A local timeline has the grandmaster's scale.
            (None, None, TimelineScale::Local) => Duration::ZERO,
            (None, None, TimelineScale::Tai) => {
                return Err(SourceFailure::because(
                    "the grandmaster does not state its accuracy: set `reference_error`",
                ));
            }
        };
        let between = i64::from(steps_removed.saturating_sub(1));
        let hops = match self.config.hop_error {
            Some(each) => Duration::from_ns(each.as_ns().saturating_mul(between)),
            None if between == 0 => Duration::ZERO,
            None => {
                return Err(SourceFailure(format!(
                    "{between} boundary clocks lie between: set `hop_error`"
                )));
            }
        };
        Ok(master + hops + self.config.path_error)
    }

    /// Opens a socket for management answers, bound to a path of its own.
    fn management(&self) -> Result<(UnixDatagram, Unlinked), SourceFailure> {
        let path = self
            .config
            .monitor
            .with_extension(format!("{}", std::process::id()));
        let failed = |error: std::io::Error| {
            SourceFailure(format!(
                "ptp4l at {}: {error}",
                self.config.socket.display()
            ))
        };
        // `ptp4l` runs in another working directory and answers to this path, so it must be
        // absolute.
        let path = std::path::absolute(path).map_err(failed)?;
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).map_err(failed)?;
        let name = Unlinked(path);
        socket
            .set_read_timeout(Some(StdDuration::from_millis(300)))
            .map_err(failed)?;
        socket.connect(&self.config.socket).map_err(failed)?;
        Ok((socket, name))
    }

    fn get(&mut self, socket: &UnixDatagram, set: DataSet) -> Result<DataSetAnswer, SourceFailure> {
        self.sequence_id = self.sequence_id.wrapping_add(1);
        let request = get(set, self.config.domain, self.sequence_id);
        let failed =
            |error: std::io::Error| SourceFailure(format!("ptp4l does not answer: {error}"));
        socket.send(&request).map_err(failed)?;
        let mut buffer = [0; 1500];
        for _ in 0..8 {
            let length = socket.recv(&mut buffer).map_err(failed)?;
            if let Some(answer) = parse_answer(&buffer[..length], self.sequence_id) {
                return Ok(answer);
            }
        }
        Err(SourceFailure::because("ptp4l sent an unexpected answer"))
    }
}

/// Path of a socket; the file is removed when this value is dropped.
struct Unlinked(PathBuf);

impl Drop for Unlinked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Source for Ptp4l {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let master = self.shared.lock().master;
        let reference = self.reference(master)?;
        let mut shared = self.shared.lock();
        if shared.master != master {
            return Err(SourceFailure::because("the master has just changed"));
        }
        if shared.bracket.era() != era {
            shared.bracket.begin(era);
        }
        if shared.heard == shared.given {
            return Err(shared.last_refusal.take().unwrap_or_else(|| {
                SourceFailure::because("ptp4l has received nothing new from its master")
            }));
        }
        let bound = shared
            .bracket
            .bound()
            .ok_or_else(|| SourceFailure::because("ptp4l has not measured both directions yet"))?;
        shared.given = shared.heard;
        let mut bound = bound;
        bound.earliest = bound.earliest + reference.shift - reference.error;
        bound.latest = bound.latest + reference.shift + reference.error;
        Ok(SourceSample::Bound {
            era,
            bound,
            authenticated: false,
        })
    }

    fn contradiction(&self) -> Option<String> {
        self.contradiction.clone()
    }
}

/// Receives the monitor's messages without delay, because `ptp4l` would block on a full socket.
fn listen(socket: &UnixDatagram, clock: &LocalClock, shared: &Weak<Mutex<Shared>>) {
    let mut line = RealtimeLine::default();
    let mut buffer = [0; 1500];
    loop {
        let received = socket.recv(&mut buffer);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let Ok(length) = received else { continue };
        let records = parse_timing(&buffer[..length]);
        let mut shared = shared.lock();
        let taken = records.map_err(SourceFailure::because).and_then(|all| {
            all.iter()
                .try_for_each(|one| shared.take(one, &mut line, clock))
        });
        if let Err(untold) = taken {
            let era = shared.bracket.era();
            shared.bracket.begin(era);
            shared.last_refusal = Some(untold);
        }
    }
}

impl Shared {
    fn take(
        &mut self,
        record: &TimingRecord,
        line: &mut RealtimeLine,
        clock: &LocalClock,
    ) -> Result<(), SourceFailure> {
        if self
            .master
            .replace(record.master)
            .is_some_and(|before| before != record.master)
        {
            let era = self.bracket.era();
            self.bracket.begin(era);
        }
        let correction = rounded_down(record.correction_2_16);
        match record.kind {
            TimingKind::Sync => {
                // The Sync left the master at T1, and was under way for at least its correction.
                let (_, at) = line.place(clock, record.receipt_ns)?;
                self.bracket
                    .not_before(at, Instant::from_ns(record.origin_ns) + correction);
            }
            TimingKind::DelayReq => {
                let (at, _) = line.place(clock, record.origin_ns)?;
                self.bracket
                    .not_after(at, Instant::from_ns(record.receipt_ns) - correction);
            }
        }
        self.heard += 1;
        Ok(())
    }
}

/// Time for which the properties of the master are cached; they change seldom.
const PROPERTIES_LIFETIME: StdDuration = StdDuration::from_secs(5);

/// Converts a correction to nanoseconds, rounded down. A smaller correction leaves each side of the
/// bracket unchanged or makes it wider.
fn rounded_down(correction_2_16: i64) -> Duration {
    Duration::from_ns(correction_2_16 >> 16)
}

#[cfg(test)]
mod tests {
    use timeloom_wire::ClockIdentity;

    use super::*;
    use crate::config::DaemonConfig;

    /// Master whose slave the fake `ptp4l` is. It announces UTC.
    struct Parent {
        identity: PortIdentity,
        utc_offset_s: u16,
        /// Number of the master that follows at the next request for the time properties.
        next: Option<u8>,
    }

    fn identity(number: u8) -> PortIdentity {
        PortIdentity {
            clock: ClockIdentity([number; 8]),
            port: 1,
        }
    }

    /// Answers management requests at `path`, as a slave of `parent`.
    fn answer(path: std::path::PathBuf, parent: Arc<Mutex<Parent>>) {
        let socket = UnixDatagram::bind(path).unwrap();
        std::thread::spawn(move || {
            let mut request = [0; 128];
            while let Ok((length, from)) = socket.recv_from(&mut request) {
                let mut answer = request[..length].to_vec();
                answer[46] = 2; // RESPONSE
                let id = u16::from_be_bytes([answer[52], answer[53]]);
                let mut parent = parent.lock();
                let data = match id {
                    // stepsRemoved, offsetFromMaster, meanPathDelay.
                    0x2001 => [&1u16.to_be_bytes()[..], &[0; 16]].concat(),
                    // The accuracy is 100 ns.
                    0x2002 => [
                        &parent.identity.clock.0[..],
                        &parent.identity.port.to_be_bytes(),
                        &[0; 10],
                        &[0x21, 0, 0, 0],
                        &[0; 8],
                    ]
                    .concat(),
                    // The offset is valid, and the time scale is not PTP's.
                    _ => {
                        if let Some(next) = parent.next.take() {
                            parent.identity = identity(next);
                        }
                        [&parent.utc_offset_s.to_be_bytes()[..], &[4, 0xa0]].concat()
                    }
                };
                let tlv_length = (2 + data.len()) as u16;
                answer[50..52].copy_from_slice(&tlv_length.to_be_bytes());
                answer.extend(data);
                let length = (answer.len() as u16).to_be_bytes();
                answer[2..4].copy_from_slice(&length);
                let to = from.as_pathname().unwrap();
                let _ = socket.send_to(&answer, to);
            }
        });
    }

    /// Returns a source in `directory` whose `ptp4l` is a slave of master 1, and that master.
    fn source(directory: &std::path::Path) -> (Ptp4l, Arc<Mutex<Parent>>) {
        let parent = Arc::new(Mutex::new(Parent {
            identity: identity(1),
            utc_offset_s: 37,
            next: None,
        }));
        answer(directory.join("uds"), parent.clone());
        let text = format!(
            r#"
            [[timeline]]
            name = "ptp"
            scale = "tai"
            [[timeline.source]]
            type = "ptp4l"
            monitor = "{0}/monitor"
            socket = "{0}/uds"
            shows = "utc"
            "#,
            directory.display()
        );
        let daemon: DaemonConfig = text.parse().unwrap();
        let timeline = &daemon.timelines[0];
        let crate::config::SourceConfig::Ptp4l(config) = &timeline.sources[0] else {
            panic!("{timeline:?}")
        };
        let clock = Arc::new(LocalClock::of_this_machine());
        let source = Ptp4l::new(config.clone(), timeline, clock).unwrap();
        (source, parent)
    }

    #[test]
    fn the_tai_offset_of_another_master_is_judged_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (mut source, parent) = source(directory.path());
        let reference = source.reference(Some(identity(1))).unwrap();
        assert_eq!(reference.shift, Duration::from_s(37));
        assert_eq!(reference.error, Duration::from_ns(100));
        *parent.lock() = Parent {
            identity: identity(2),
            utc_offset_s: 1,
            next: None,
        };
        let cached = source.reference(Some(identity(1)));
        assert_eq!(cached, Ok(reference));
        let refused = source.reference(Some(identity(2))).unwrap_err();
        assert!(
            refused.0.contains("the PTP master says that TAI is 1 s"),
            "{refused}"
        );
    }

    /// `ptp4l` selects another master before it reports a Sync of that master.
    #[test]
    fn properties_of_another_master_than_that_of_the_records_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mut source, parent) = source(directory.path());
        let refused = |source: &mut Ptp4l, number| {
            let refused = source.reference(Some(identity(number))).unwrap_err();
            assert_eq!(refused.0, "the master has just changed");
            assert!(source.properties.is_none(), "nothing is cached");
        };
        refused(&mut source, 2);
        parent.lock().next = Some(2);
        refused(&mut source, 1);
        assert!(source.reference(Some(identity(2))).is_ok());
    }
}
