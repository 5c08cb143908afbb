//! What a slave tells a timeline: each Sync's stamps, the parts of a bound, and
//! whether anybody vouches for it.
//!
//! One datagram of JSON per Sync, to the socket that `timeloom timeline serve`
//! made for its source of type `ptp` (docs/ptp.md has the fields). Nothing waits
//! for the other side: what it does not take is lost, and a timeline that hears
//! nothing says so itself. This is not the evidence log, which has everything
//! and is for people.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use serde::Serialize;
use timeloom_wire::TimeInterval;

use crate::{Fate, Line, Options, Policy, PtpError, Stamping, SyncLine};

/// Tells Syncs to one socket.
#[derive(Debug)]
pub struct Feed {
    socket: UnixDatagram,
    to: PathBuf,
    stamp_error_ns: f64,
    unvouched_ns: f64,
}

/// A Sync, as the other side wants it.
#[derive(Debug, Serialize)]
struct Told<'a> {
    verdict: Fate,
    source: &'a str,
    sequence: u16,
    arrival_ns: Option<i64>,
    origin_ns: Option<i64>,
    correction_ns: Option<f64>,
    path_delay_ns: Option<f64>,
    offset_ns: Option<f64>,
    /// How far the delay of one message may be from the measured one unnoticed.
    stamp_error_ns: f64,
    /// How much of the correction nobody need vouch for, by the policy.
    unvouched_ns: f64,
    hops: usize,
    failures: usize,
}

/// Names longer than this are cut: the other side takes no more.
const MAX_NAME: usize = 128;

impl Feed {
    /// A feed of a slave that runs with `options` under `policy`, to the socket
    /// at `to`. It need not be there yet.
    ///
    /// # Errors
    /// With hardware stamps, whose clock a timeline does not know; when there is
    /// no socket to be had.
    pub fn open(to: &Path, options: &Options, policy: Policy) -> Result<Self, PtpError> {
        if options.stamping == Stamping::Hardware {
            return Err(PtpError::usage(
                "a timeline is fed by --stamps software: it cannot place the stamps of a card's clock",
            ));
        }
        let socket = UnixDatagram::unbound().map_err(PtpError::doing("open a socket"))?;
        socket
            .set_nonblocking(true)
            .map_err(PtpError::doing("open a socket"))?;
        let unvouched = match policy {
            Policy::Mixed { budget } => budget,
            _ => TimeInterval::ZERO,
        };
        Ok(Self {
            socket,
            to: to.to_owned(),
            stamp_error_ns: options.jump_bound.as_ns_f64(),
            unvouched_ns: unvouched.as_ns_f64(),
        })
    }

    /// Tells `line` if it is a Sync's. Does not wait.
    pub fn tell(&self, line: &Line) {
        if let Line::Sync(sync) = line {
            // Nobody there, or not fast enough: the next one will tell as much.
            let _ = self.socket.send_to(&self.datagram(sync), &self.to);
        }
    }

    fn datagram(&self, sync: &SyncLine) -> Vec<u8> {
        let cut = sync.source.floor_char_boundary(MAX_NAME);
        serde_json::to_vec(&Told {
            verdict: sync.verdict,
            source: &sync.source[..cut],
            sequence: sync.sequence,
            arrival_ns: sync.arrival_ns,
            origin_ns: sync.origin_ns,
            correction_ns: sync.correction_ns,
            path_delay_ns: sync.path_delay_ns,
            offset_ns: sync.offset_ns,
            stamp_error_ns: self.stamp_error_ns,
            unvouched_ns: self.unvouched_ns,
            hops: sync.hops.len(),
            failures: sync.failures.len(),
        })
        .expect("plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn line() -> Line {
        Line::Sync(Box::new(SyncLine {
            t_ns: 1,
            node: "slave".into(),
            source: "gm-1".into(),
            sequence: 7,
            arrival_ns: Some(1_000_000_500),
            origin_ns: Some(1_000_000_000),
            correction_ns: Some(300.5),
            path_delay_ns: Some(100.0),
            hops: Vec::new(),
            offset_ns: Some(99.5),
            verdict: Fate::Accepted,
            failures: Vec::new(),
        }))
    }

    #[test]
    fn a_sync_is_one_datagram_and_a_missing_listener_is_no_fault() {
        let path = std::env::temp_dir().join(format!("timeloom-feed-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let options = Options::new(Role::Slave, vec!["eth0".into()]);
        let budget = TimeInterval::from_ns(4_000);
        let feed = Feed::open(&path, &options, Policy::Mixed { budget }).unwrap();
        feed.tell(&line());
        let listener = UnixDatagram::bind(&path).unwrap();
        feed.tell(&line());
        let mut buffer = [0; 4096];
        let length = listener.recv(&mut buffer).unwrap();
        let _ = std::fs::remove_file(&path);
        assert_eq!(
            String::from_utf8_lossy(&buffer[..length]),
            r#"{"verdict":"accepted","source":"gm-1","sequence":7,"arrival_ns":1000000500,"origin_ns":1000000000,"correction_ns":300.5,"path_delay_ns":100.0,"offset_ns":99.5,"stamp_error_ns":100000.0,"unvouched_ns":4000.0,"hops":0,"failures":0}"#
        );
    }

    #[test]
    fn a_card_s_stamps_feed_no_timeline() {
        let mut options = Options::new(Role::Slave, vec!["eth0".into()]);
        options.stamping = Stamping::Hardware;
        assert!(Feed::open(Path::new("x"), &options, Policy::Strict).is_err());
    }
}
