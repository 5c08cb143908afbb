//! `timeloom ptp slave` as a source; the slave reports every Sync message to the daemon.
//!
//! The daemon creates a datagram socket and the slave sends to it. The daemon uses a Sync only if
//! the slave accepted it and checked every signature. The arrival of an unsigned or rejected Sync
//! is reported to the estimator too, so that the status of a timeline can be `unauthenticated`.
//! Such a Sync never contributes to an interval, whatever the timeline demands of its other
//! sources.
//!
//! The slave's timestamps are of CLOCK_REALTIME, which the slave or other programs may steer
//! meanwhile.

use parking_lot::Mutex;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration as StdDuration;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use timeloom_clock::timeline::Era;

use super::bracket::Bracket;
use super::fed_sync::{Judged, TimedSync, judge};
use super::realtime_line::RealtimeLine;
use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{PtpConfig, Shows, TimelineConfig};
use timeloom_timeline::protocol::{FedSync, MOST_FEED_BYTES, TimelineScale};

pub(super) struct Ptp {
    config: PtpConfig,
    /// Offset from UTC; present if the grandmaster counts UTC and the timeline does not.
    from_utc: Option<FromUtc>,
    shared: Arc<Mutex<Shared>>,
}

/// State shared by the listening thread and the requests.
struct Shared {
    config: PtpConfig,
    bracket: Bracket,
    master: String,
    /// True if an authenticated Sync has arrived since the last request.
    authenticated: bool,
    unauthenticated: bool,
    last_refusal: Option<SourceFailure>,
}

impl Ptp {
    pub(super) fn new(
        config: PtpConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Result<Self, SourceFailure> {
        let from_utc = match (timeline.scale, config.shows) {
            (TimelineScale::Local, _) | (_, Some(Shows::Tai)) => None,
            (TimelineScale::Tai, Some(Shows::Utc)) => Some(FromUtc::of(timeline)),
            (TimelineScale::Tai, None) => {
                return Err(SourceFailure::because(
                    "the grandmaster does not state its time scale: set `shows`, or make the \
                     timeline local",
                ));
            }
        };
        let socket = listener(&config.feed)
            .map_err(|error| SourceFailure(format!("{}: {error}", config.feed.display())))?;
        let max_error = clock.oscillator(timeline.oscillator()).max_error;
        let shared = Arc::new(Mutex::new(Shared {
            config: config.clone(),
            bracket: Bracket::new(Era::default(), max_error),
            master: String::new(),
            authenticated: false,
            unauthenticated: false,
            last_refusal: None,
        }));
        let weak = Arc::downgrade(&shared);
        std::thread::spawn(move || listen(&socket, &clock, &weak));
        Ok(Self {
            config,
            from_utc,
            shared,
        })
    }
}

impl Source for Ptp {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let mut shared = self.shared.lock();
        if shared.bracket.era() != era {
            shared.bracket.begin(era);
            (shared.authenticated, shared.unauthenticated) = (false, false);
        }
        let authenticated = std::mem::take(&mut shared.authenticated);
        let unauthenticated = std::mem::take(&mut shared.unauthenticated);
        if !authenticated {
            return match unauthenticated {
                true => Ok(SourceSample::Unproven { era }),
                false => Err(shared.last_refusal.take().unwrap_or_else(|| {
                    SourceFailure::because("the slave has reported no Sync since the last query")
                })),
            };
        }
        let mut bound = shared
            .bracket
            .bound()
            .ok_or_else(|| SourceFailure::because("the slave's report is inconsistent"))?;
        let shift = self.from_utc.map_or(Ok(Default::default()), FromUtc::now)?;
        bound.earliest = bound.earliest + shift - self.config.reference_error;
        bound.latest = bound.latest + shift + self.config.reference_error;
        Ok(SourceSample::Bound {
            era,
            bound,
            authenticated: true,
        })
    }
}

impl Drop for Ptp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.config.feed);
    }
}

/// Creates a socket at `path` that only this user can write to.
fn listener(path: &Path) -> std::io::Result<UnixDatagram> {
    // The file may be left from a dead daemon. A living daemon would hold the timeline's lock.
    if path
        .symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket())
    {
        std::fs::remove_file(path)?;
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // The mode is set before the socket has a path, so that no other user can connect first.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixDatagram::from(socket);
    socket.set_read_timeout(Some(StdDuration::from_millis(500)))?;
    Ok(socket)
}

fn listen(socket: &UnixDatagram, clock: &LocalClock, shared: &Weak<Mutex<Shared>>) {
    let mut line = RealtimeLine::default();
    // The buffer is one byte longer than a datagram may be, so that a longer one is detected.
    let mut buffer = [0; MOST_FEED_BYTES + 1];
    loop {
        let received = socket.recv(&mut buffer);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let Ok(length) = received else { continue };
        let judged = FedSync::decode(&buffer[..length])
            .map_err(SourceFailure::because)
            .and_then(|sync| judge(sync).map_err(SourceFailure::because));
        let mut shared = shared.lock();
        match judged {
            Ok(Judged::Authenticated(measured)) => shared.take(&measured, &mut line, clock),
            Ok(Judged::Unauthenticated) => shared.unauthenticated = true,
            Ok(Judged::Incomplete) => {}
            Err(why) => shared.last_refusal = Some(why),
        }
    }
}

impl Shared {
    fn take(&mut self, measured: &TimedSync, line: &mut RealtimeLine, clock: &LocalClock) {
        let era = self.bracket.era();
        if self.master != measured.source {
            self.master.clone_from(&measured.source);
            self.bracket.begin(era);
        }
        match line.place(clock, measured.arrival_ns) {
            Ok((first, last)) => {
                let (config, bracket) = (&self.config, &mut self.bracket);
                let (earliest, latest) = measured.master(config.asymmetry, config.stamp_error);
                // The arrival is known as a range of the core clock. Each side of the bound uses
                // the end of the range that makes it wider.
                bracket.not_before(last, earliest);
                bracket.not_after(first, latest);
                self.authenticated = true;
            }
            Err(untold) => {
                self.bracket.begin(era);
                self.last_refusal = Some(untold);
            }
        }
    }
}
