//! Feed from a slave to a timeline's daemon. For each Sync it contains the timestamps, the parts of
//! an error bound, and whether the time is authenticated.
//!
//! Each Sync is one JSON datagram to the socket that `timeloom timeline serve` created for its
//! source of type `ptp`. Both programs use the type [`FedSync`], which contains the slave's record;
//! docs/ptp.md lists the fields. Sending never blocks. A datagram that the socket does not accept
//! is lost; a timeline without input reports that itself. This feed is not the evidence log, which
//! is complete and meant for human readers.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use timeloom_timeline::protocol::FedSync;
use timeloom_wire::TimeInterval;

use crate::{EvidenceLine, ProgramOptions, PtpError, Stamping, SyncLine, VerificationPolicy};

/// Sender of Sync reports to one socket.
#[derive(Debug)]
pub struct Feed {
    socket: UnixDatagram,
    to: PathBuf,
    stamp_error: TimeInterval,
    unvouched: TimeInterval,
}

impl Feed {
    /// Creates a feed for a slave that runs with `options` under `policy`. The socket at `to` need
    /// not exist yet.
    ///
    /// # Errors
    /// Fails with hardware timestamps, because a timeline does not know the card's clock. Also
    /// fails if no socket can be opened.
    pub fn open(
        to: &Path,
        options: &ProgramOptions,
        policy: VerificationPolicy,
    ) -> Result<Self, PtpError> {
        if options.stamping == Stamping::Hardware {
            return Err(PtpError::usage(
                "a timeline needs --stamps software, since it cannot convert stamps of a card's \
                 own clock",
            ));
        }
        let socket = UnixDatagram::unbound().map_err(PtpError::doing("open a socket"))?;
        socket
            .set_nonblocking(true)
            .map_err(PtpError::doing("open a socket"))?;
        let unvouched = match policy {
            VerificationPolicy::Mixed { budget } => budget,
            _ => TimeInterval::ZERO,
        };
        Ok(Self {
            socket,
            to: to.to_owned(),
            stamp_error: options.jump_bound,
            unvouched,
        })
    }

    /// Sends `line` if it reports a Sync. The call does not block.
    pub fn tell(&self, line: &EvidenceLine) {
        if let EvidenceLine::Sync(sync) = line {
            // There is no receiver, or it is slow. The loss is harmless, because the next datagram
            // has the same kind of information.
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

    fn line() -> EvidenceLine {
        crate::evidence::tests::line_of_a_sync()
    }

    #[test]
    fn a_sync_is_one_datagram_and_a_missing_listener_is_no_fault() {
        let path = std::env::temp_dir().join(format!("timeloom-feed-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let options = ProgramOptions::new(Role::Slave, vec!["eth0".into()]);
        let budget = TimeInterval::from_ns(4_000);
        let feed = Feed::open(&path, &options, VerificationPolicy::Mixed { budget }).unwrap();
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
        let mut options = ProgramOptions::new(Role::Slave, vec!["eth0".into()]);
        options.stamping = Stamping::Hardware;
        assert!(Feed::open(Path::new("x"), &options, VerificationPolicy::Strict).is_err());
    }
}
