//! `chronyd` as a source, by its command protocol. It may steer the system clock
//! or not (`-x`); both are the same to us, because it says how far off the
//! system clock is.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use timeloom_clock::RateError;
use timeloom_clock::timeline::{Era, Exchange};
use timeloom_time::{Duration, Instant};

use super::chrony_words::{LENGTH, Tracking, parse, request};
use super::realtime_line::{STEERED, check_even};
use super::{FromUtc, Sample, Source, Untold};
use crate::LocalClock;
use crate::config::{ChronyConfig, TimelineConfig};
use crate::local_clock::Pair;

pub(super) struct Chrony {
    config: ChronyConfig,
    clock: Arc<LocalClock>,
    /// How fast chronyd's idea of the frequency may be left behind.
    drift: RateError,
    from_utc: FromUtc,
    link: Option<Link>,
    sequence: u32,
    /// The word for "this machine is another one now" when it was last looked at, and
    /// what the system clock showed when it was found to be new.
    marked: (u64, i64),
}

/// The way to chronyd.
enum Link {
    Udp(UdpSocket),
    /// With the name to which it answers.
    Unix(UnixDatagram, PathBuf),
}

impl Chrony {
    pub(super) fn new(
        config: ChronyConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Self {
        let marker = clock.marker();
        let stated = config.drift_ppb.map(RateError::from_ppb);
        Self {
            drift: stated.unwrap_or(timeline.oscillator().max_error),
            from_utc: FromUtc::of(timeline),
            config,
            clock,
            link: None,
            sequence: std::process::id(),
            marked: (marker, i64::MIN),
        }
    }

    fn tracking(&mut self) -> Result<Tracking, Untold> {
        let address = &self.config.address;
        let failed = |error: std::io::Error| Untold(format!("chronyd at {address}: {error}"));
        let link = match self.link.take() {
            Some(link) => link,
            None => Link::open(address).map_err(failed)?,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut buffer = [0; 4 * LENGTH];
        link.send(&request(self.sequence)).map_err(failed)?;
        // A late answer to an earlier question may come first.
        for _ in 0..4 {
            let length = link.receive(&mut buffer).map_err(failed)?;
            match parse(&buffer[..length], self.sequence) {
                Err(super::chrony_words::BadReply::Other) => {}
                other => {
                    self.link = Some(link);
                    return other.map_err(Untold::because);
                }
            }
        }
        Err(Untold(format!("chronyd at {address} does not answer")))
    }
}

impl Source for Chrony {
    fn ask(&mut self, era: Era) -> Result<Sample, Untold> {
        let tai_offset = self.from_utc.now()?;
        let before = self.clock.realtime();
        let tracking = self.tracking()?;
        let after = self.clock.realtime();
        check_even(&before, &after)?;
        let marker = self.clock.marker();
        if self.marked.0 != marker {
            self.marked = (marker, after.other_ns);
        }
        // It cannot know what this machine has missed before it hears of it.
        if tracking.ref_time_ns <= self.marked.1 {
            return Err(Untold::because(
                "chronyd has not heard its sources since this machine was held or replaced",
            ));
        }
        interpret(&tracking, era, (&before, &after), tai_offset, self.drift)
    }
}

/// What the answer, which was given between the two looks at the system clock,
/// says of the second.
fn interpret(
    tracking: &Tracking,
    era: Era,
    (before, after): (&Pair, &Pair),
    tai_offset: Duration,
    drift: RateError,
) -> Result<Sample, Untold> {
    if !tracking.synchronised {
        return Err(Untold::because("chronyd is not in step with any source"));
    }
    let correction_ns = tracking.correction_s * 1e9;
    let utc_ns = after.other_ns.saturating_add(correction_ns as i64);
    let age = Duration::from_ns(utc_ns.saturating_sub(tracking.ref_time_ns));
    if age < -Duration::from_s(1) {
        return Err(Untold::because("chronyd's last update lies in the future"));
    }
    // The clock may have been slewed since the answer was given; numbers come
    // with 24 bits.
    let moved = STEERED.over_up(after.after - before.before);
    let cut_ns = correction_ns.abs() / 8e6 + 2.0;
    let ns_up = |s: f64| Duration::from_ns((s * 1e9 * (1.0 + 1e-6)).ceil() as i64);
    let shows = Instant::from_ns(utc_ns) + tai_offset;
    Ok(Sample::Exchange(Exchange {
        era,
        sent: after.before,
        asked: shows,
        answered: shows,
        received: after.after,
        root_delay: ns_up(tracking.root_delay_s),
        root_dispersion: ns_up(tracking.root_dispersion_s)
            + drift.over_up(age.max(Duration::ZERO))
            + moved
            + Duration::from_ns(cut_ns.ceil() as i64),
        least_delay: Duration::ZERO,
        asymmetry: None,
        authenticated: false,
    }))
}

impl Link {
    /// A path to chronyd's socket, or a UDP address.
    fn open(address: &str) -> std::io::Result<Self> {
        let patience = Some(StdDuration::from_millis(500));
        if !address.contains('/') {
            let local = if address.starts_with('[') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(local)?;
            socket.connect(address)?;
            socket.set_read_timeout(patience)?;
            return Ok(Self::Udp(socket));
        }
        // chronyd answers to a name, which must be writable for its user and lie
        // where that user can reach it: beside its own socket.
        let number = NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("timeloom.{}.{number}", std::process::id());
        let name = std::path::absolute(std::path::Path::new(address).with_file_name(name))?;
        let socket = UnixDatagram::bind(&name)?;
        let link = Self::Unix(socket, name);
        if let Self::Unix(socket, name) = &link {
            std::fs::set_permissions(name, std::fs::Permissions::from_mode(0o666))?;
            socket.set_read_timeout(patience)?;
            socket.connect(address)?;
        }
        Ok(link)
    }

    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(packet),
            Self::Unix(socket, _) => socket.send(packet),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.recv(buffer),
            Self::Unix(socket, _) => socket.recv(buffer),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Self::Unix(_, name) = self {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// So that two sources on one chronyd have two names.
static NAMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(core_ns: i64, other_ns: i64) -> Pair {
        Pair {
            before: Instant::from_ns(core_ns),
            other_ns,
            after: Instant::from_ns(core_ns + 100),
        }
    }

    #[test]
    fn half_the_delay_the_dispersion_and_the_drift_since_are_in_the_bound() {
        let second = 1_000_000_000;
        let tracking = Tracking {
            synchronised: true,
            ref_time_ns: 90 * second,
            correction_s: 0.25,
            root_delay_s: 0.002,
            root_dispersion_s: 0.0005,
        };
        let (before, after) = (
            pair(second, 100 * second),
            pair(second + 1_000, 100 * second + 1_000),
        );
        let drift = RateError::from_ppb(10_000);
        let tai = Duration::from_s(37);
        let sample = interpret(&tracking, Era(2), (&before, &after), tai, drift).unwrap();
        let Sample::Exchange(exchange) = sample else {
            panic!("{sample:?}");
        };
        let bound = exchange
            .bound(Duration::from_ns(1), RateError::from_ppb(100_000))
            .unwrap();
        let truth_ns = 137 * second + 1_000 + second / 4;
        // 1 ms + 0.5 ms + 10.25 s of 10 ppm.
        let expected_ns = 1_000_000 + 500_000 + 102_500;
        let below_ns = truth_ns - bound.earliest.as_ns();
        assert!(
            (expected_ns..expected_ns + 200).contains(&below_ns),
            "{below_ns}"
        );
        assert!(bound.latest.as_ns() - truth_ns >= expected_ns);
        let lost = Tracking {
            synchronised: false,
            ..tracking
        };
        assert!(interpret(&lost, Era(2), (&before, &after), tai, drift).is_err());
    }
}
