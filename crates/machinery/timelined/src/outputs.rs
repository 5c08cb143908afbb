//! Outputs of a timeline in the formats of other projects: a ClockBound segment, and samples for
//! chronyd's SOCK reference clock and for NTP's shared memory. The worker thread writes them after
//! the pages. The formats are in `timeloom_timeline::shm::foreign`.
//!
//! Only ClockBound version 2 bounds CLOCK_REALTIME itself. The sample formats have no field for a
//! bound, so only a timeline that is `ok` produces samples.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use timeloom_clock::RateError;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::{Segment, UtcView};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::Duration;
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::chrony_sock::SockSample;
use timeloom_timeline::shm::foreign::clockbound::{
    AnySegment, ClockStatus, Seconds, SegmentV2, SegmentV3, version_of,
};
use timeloom_timeline::shm::foreign::ntp_shm::{ShmSample, ShmTime};
use timeloom_timeline::shm::{ClockBoundFile, NtpShm, PageSegment, TimeType};

use crate::LocalClock;
use crate::config::TimelineConfig;
use timeloom_timeline::protocol::{TimelineName, TimelineScale};

/// Outputs of one timeline. Most timelines have none.
pub(crate) struct Outputs {
    clockbound: Option<ClockBound>,
    chrony: Option<(UnixDatagram, PathBuf)>,
    shm: Option<NtpShm>,
}

struct ClockBound {
    file: ClockBoundFile,
    version: u8,
    /// Maximum drift of CLOCK_REALTIME from true time between two updates, in parts per 10^9.
    drift_ppb: u32,
    /// Lock that is held while this daemon writes the segment.
    _lock: File,
}

/// Mistake in the combination of a configuration's values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputMistake {
    #[error("clockbound_version must be 2 or 3")]
    Version,
    #[error("clockbound, chrony_sock and ntp_shm tell UTC: scale must be \"tai\"")]
    LocalScale,
    #[error("{key} is also that of timeline {other}: give each timeline its own")]
    Shared {
        key: &'static str,
        other: TimelineName,
    },
}

/// Reason why an output cannot be written: the name of the output, and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{output}: {fault}")]
pub(crate) struct OutputError {
    output: String,
    fault: OutputFault,
}

/// Fault of an output, with the way to correct it.
#[derive(Debug, thiserror::Error)]
enum OutputFault {
    #[error(
        "version 3 counts by the time-stamp counter, which is not in use here: set \
         clockbound_version = 2"
    )]
    NoTsc,
    #[error("its directory does not exist: {0}")]
    NoDirectory(&'static str),
    #[error("is not a {0}")]
    OtherKind(&'static str),
    #[error(
        "is there and is not a ClockBound segment of version {0}: move it away, or name another"
    )]
    OtherFormat(u8),
    #[error("its lock {path}: {1}: name another place", path = .0.display())]
    Lock(PathBuf, io::Error),
    #[error("another daemon writes it: name another file")]
    Taken,
    #[error("{0}: choose another unit, or remove what `ipcs -m` shows for key 0x{1:x}")]
    Shm(io::Error, u32),
    #[error("{0}: {1}")]
    Mends(io::Error, &'static str),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Key of unit 0 of NTP's shared memory: "NTP0".
const NTP_SHM_KEY: u32 = 0x4e54_5030;

/// Advice for a wrong path of chronyd's socket.
const SOCK: &str = "name the path of chronyd's `refclock SOCK`";

/// Checks the configured outputs for consistency with each other and with those of other timelines.
///
/// # Errors
/// Returns the first mistake found.
pub(crate) fn check(
    config: &TimelineConfig,
    others: &[TimelineConfig],
) -> Result<(), OutputMistake> {
    if !(2..=3).contains(&config.clockbound_version) {
        return Err(OutputMistake::Version);
    }
    let samples = config.chrony_sock.is_some() || config.ntp_shm.is_some();
    if config.scale == TimelineScale::Local && (samples || config.clockbound.is_some()) {
        return Err(OutputMistake::LocalScale);
    }
    let same = |ours: &Option<PathBuf>, theirs: &Option<PathBuf>| {
        ours.as_deref()
            .zip(theirs.as_deref())
            .is_some_and(|(ours, theirs)| place(ours) == place(theirs))
    };
    for other in others {
        let shared = [
            ("clockbound", same(&config.clockbound, &other.clockbound)),
            ("chrony_sock", same(&config.chrony_sock, &other.chrony_sock)),
            (
                "ntp_shm",
                config.ntp_shm.is_some() && config.ntp_shm == other.ntp_shm,
            ),
        ];
        if let Some(&(key, _)) = shared.iter().find(|(_, shared)| *shared) {
            let other = other.name.clone();
            return Err(OutputMistake::Shared { key, other });
        }
    }
    Ok(())
}

/// Returns true if the configuration has an output that becomes wrong as soon as the system clock
/// is set.
pub(crate) fn hang_on_system_clock(config: &TimelineConfig) -> bool {
    config.clockbound.is_some() && config.clockbound_version == 2
}

/// Resolves the directory of `path` if it exists, so that two spellings of a path compare equal.
fn place(path: &Path) -> PathBuf {
    let directory = directory_of(path).canonicalize();
    directory.map_or_else(
        |_| path.to_owned(),
        |found| found.join(path.file_name().unwrap_or_default()),
    )
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Outputs {
    /// Creates the outputs of `config`. They state no time until the first update.
    ///
    /// # Errors
    /// Returns the output, the fault and the fix.
    pub(crate) fn open(config: &TimelineConfig, clock: &LocalClock) -> Result<Self, OutputError> {
        let clockbound = config.clockbound.as_deref();
        let clockbound = clockbound.map(|path| {
            ClockBound::open(path, config, clock).map_err(|fault| OutputError {
                output: format!("clockbound {}", path.display()),
                fault,
            })
        });
        let chrony = config.chrony_sock.as_deref().map(|path| {
            open_chrony(path).map_err(|fault| OutputError {
                output: format!("chrony_sock {}", path.display()),
                fault,
            })
        });
        let shm = config.ntp_shm.map(|unit| {
            NtpShm::open(unit).map_err(|error| OutputError {
                output: format!("ntp_shm {unit}"),
                fault: OutputFault::Shm(error, NTP_SHM_KEY + u32::from(unit)),
            })
        });
        let outputs = Self {
            clockbound: clockbound.transpose()?,
            chrony: chrony.transpose()?,
            shm: shm.transpose()?,
        };
        outputs.free();
        Ok(outputs)
    }

    /// Writes all outputs from a segment that was just published.
    pub(crate) fn update(&self, segment: &Segment, clock: &LocalClock, time_type: TimeType) {
        self.refresh(segment, clock, time_type);
        let ok = segment.status_at(clock.core()) == Status::Ok;
        match utc_of(time_type).filter(|_| ok) {
            Some(utc) => self.sample(segment, clock, &utc),
            None => self.free(),
        }
    }

    /// Writes those outputs that remain valid between two samples, with the segment's present age.
    pub(crate) fn refresh(&self, segment: &Segment, clock: &LocalClock, time_type: TimeType) {
        if let Some(clockbound) = &self.clockbound {
            let segment = clockbound.segment(segment, clock, utc_of(time_type));
            clockbound.file.publish(segment);
        }
        if segment.status_at(clock.core()) != Status::Ok {
            self.free();
        }
    }

    /// Marks every output as having no valid time.
    pub(crate) fn end(&self) {
        if let Some(clockbound) = &self.clockbound {
            let void = AnySegment::void(clockbound.version, ClockStatus::Unknown);
            clockbound.file.publish(void);
        }
        self.free();
    }

    fn free(&self) {
        if let Some(shm) = &self.shm {
            shm.free();
        }
    }

    fn sample(&self, segment: &Segment, clock: &LocalClock, utc: &UtcView) {
        if self.chrony.is_none() && self.shm.is_none() {
            return;
        }
        let pair = clock.realtime();
        let took = pair.after - pair.before;
        if took > LONGEST_LOOK {
            return self.free(); // A busy machine: the next update will do.
        }
        let middle = pair.before + Duration::from_ns(took.as_ns() / 2);
        let true_ns = utc.view(segment.interval_at(middle)).estimate().as_ns();
        let system_ns = pair.other_ns;
        if let Some((socket, path)) = &self.chrony {
            let system = Seconds::from_ns(system_ns);
            let sample = SockSample {
                tv_s: system.s,
                tv_us: system.ns / 1000,
                // An `f64` of seconds since 1970 cannot resolve nanoseconds; a difference of two
                // clocks can.
                offset_s: (true_ns - system_ns) as f64 / 1e9,
                pulse: false,
                leap: 0,
            };
            // chronyd may be absent, and creates a new socket when it starts again.
            let _ = socket.send_to(&sample.emit(), path);
        }
        if let Some(shm) = &self.shm {
            let time = |ns| {
                let Seconds { s, ns } = Seconds::from_ns(ns);
                ShmTime { s, ns: ns as i32 }
            };
            shm.publish(&ShmSample {
                count: 0,
                clock: time(true_ns),
                receive: time(system_ns),
                leap: 0,
                precision: PRECISION,
                valid: true,
            });
        }
    }
}

impl ClockBound {
    fn open(path: &Path, config: &TimelineConfig, clock: &LocalClock) -> Result<Self, OutputFault> {
        let version = config.clockbound_version;
        if version == 3 && clock.kind() != PageCounter::Tsc {
            return Err(OutputFault::NoTsc);
        }
        if path.file_name().is_none() || !directory_of(path).is_dir() {
            return Err(OutputFault::NoDirectory("make it, or name another"));
        }
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                return Err(OutputFault::OtherKind("file: name another"));
            }
            Ok(_) => {
                let mut start = Vec::new();
                let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut start));
                read.map_err(|error| OutputFault::Mends(error, "name another"))?;
                if version_of(&start) != Some(version) {
                    return Err(OutputFault::OtherFormat(version));
                }
            }
            Err(_) => {}
        }
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock);
        let lock = opened.map_err(|error| OutputFault::Lock(lock.into(), error))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(OutputFault::Taken);
        }
        let void = AnySegment::void(version, ClockStatus::Unknown);
        let file = ClockBoundFile::create(path, void)
            .map_err(|error| OutputFault::Mends(error, "name another place"))?;
        let stated = clock.oscillator(config.oscillator()).max_error;
        // The stated error counts twice: once for true time against the counter, and once for the
        // kernel's estimate of the counter's rate against ours.
        let drift = STEERED + stated + stated;
        Ok(Self {
            file,
            version,
            drift_ppb: u32::try_from(drift.as_ppt() / 1000 + 1).unwrap_or(u32::MAX),
            _lock: lock,
        })
    }

    fn segment(&self, segment: &Segment, clock: &LocalClock, utc: Option<UtcView>) -> AnySegment {
        let status = segment.status_at(clock.core());
        let void = |status| AnySegment::void(self.version, ClockStatus::from(status));
        let Some(utc) = utc.filter(|_| status.may_have_interval()) else {
            // Without the offset from UTC, the format has no status that means a known time.
            let known = status.may_have_interval();
            return void(if known {
                Status::NeverSynchronised
            } else {
                status
            });
        };
        if self.version == 3 {
            let encoded = PageSegment::new(segment, &clock.scale());
            let aged = Segment { status, ..*segment };
            return (&SegmentV3::of(&aged, &encoded, &utc)).into();
        }
        // Readers compute the age with a coarse clock, which lags, so the segment is dated with
        // that clock.
        let as_of_ns = read_ns(ClockId::MonotonicCoarse);
        let pair = clock.realtime();
        let life = segment.void_after - pair.after;
        if life <= Duration::ZERO {
            return void(status);
        }
        let earliest = utc.view(segment.interval_at(pair.before)).earliest();
        let latest = utc.view(segment.interval_at(pair.after)).latest();
        let system_ns = pair.other_ns;
        let bound_ns = earliest
            .as_ns()
            .abs_diff(system_ns)
            .max(latest.as_ns().abs_diff(system_ns));
        AnySegment::V2(SegmentV2 {
            generation: 2,
            as_of: Seconds::from_ns(as_of_ns),
            void_after: Seconds::from_ns(as_of_ns.saturating_add(life.as_ns())),
            // Two nanoseconds more, because readers truncate fractions.
            bound_ns: i64::try_from(bound_ns)
                .unwrap_or(i64::MAX)
                .saturating_add(2),
            disruption_marker: 0,
            max_drift_ppb: self.drift_ppb,
            status: status.into(),
            disruption_support: false,
        })
    }
}

fn open_chrony(path: &Path) -> Result<(UnixDatagram, PathBuf), OutputFault> {
    // chronyd creates the socket and may start later, so only the directory must exist.
    if path.file_name().is_none() || !directory_of(path).is_dir() {
        return Err(OutputFault::NoDirectory(SOCK));
    }
    if std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(OutputFault::OtherKind(
            "socket: name the path of chronyd's `refclock SOCK`",
        ));
    }
    std::os::unix::net::SocketAddr::from_pathname(path)
        .map_err(|error| OutputFault::Mends(error, "name a shorter path"))?;
    let socket = UnixDatagram::unbound()?;
    // The worker thread must not block.
    socket.set_nonblocking(true)?;
    Ok((socket, path.to_owned()))
}

fn utc_of(time_type: TimeType) -> Option<UtcView> {
    match time_type {
        TimeType::Tai(Some(tai_offset_s)) => Some(UtcView {
            tai_offset_s,
            leap: None,
        }),
        TimeType::Tai(None) | TimeType::Local => None,
    }
}

/// Maximum change of CLOCK_REALTIME's rate by the kernel's own clock discipline.
const STEERED: RateError = RateError::from_ppb(500_000);

/// Maximum time between the two readings of the core clock around a sample.
const LONGEST_LOOK: Duration = Duration::from_us(100);

/// Precision of a sample as a power of two in seconds: about a microsecond, the typical time
/// between the readings of two clocks.
const PRECISION: i32 = -20;
