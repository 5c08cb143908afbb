//! Feed from a slave to a timeline: each Sync's stamps, the parts of a bound, and whether the time
//! is authenticated.
//!
//! Each Sync is one datagram of JSON to the socket that `timeloom timeline serve` created for its
//! source of type `ptp` (docs/ptp.md has the fields; both sides know it as a [`FedSync`], which
//! contains the slave's record). Sending never blocks: a datagram that is not accepted is lost, and
//! a timeline without input reports this itself. This is not the evidence log, which is complete
//! and for human readers.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use timeloom_timeline_protocol::FedSync;
use timeloom_wire::TimeInterval;

use crate::{Line, Options, Policy, PtpError, Stamping, SyncLine};

/// Sender of Syncs to one socket.
#[derive(Debug)]
pub struct Feed {
    socket: UnixDatagram,
    to: PathBuf,
    stamp_error: TimeInterval,
    unvouched: TimeInterval,
}

impl Feed {
    /// Creates a feed of a slave that runs with `options` under `policy`, to the socket at `to`,
    /// which need not exist yet.
    ///
    /// # Errors
    /// Fails with hardware stamps, whose clock a timeline does not know, or if no socket can be
    /// opened.
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
            stamp_error: options.jump_bound,
            unvouched,
        })
    }

    /// Sends `line` if it is a Sync's. Does not wait.
    pub fn tell(&self, line: &Line) {
        if let Line::Sync(sync) = line {
            // No receiver, or a slow one: the next datagram is equally informative.
            let _ = self.socket.send_to(&self.datagram(sync), &self.to);
        }
    }

    fn datagram(&self, sync: &SyncLine) -> Vec<u8> {
        let fed = FedSync {
            source: sync.source(),
            record: sync.report.record,
            stamp_error: self.stamp_error,
            unvouched: self.unvouched,
            hops: sync.report.hops.len() as u32,
            failures: sync.report.failures.len() as u32,
        };
        fed.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn line() -> Line {
        crate::evidence::tests::line_of_a_sync()
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
