//! State of the TCP timers in the kernel of a station: timeouts that happened, and timers that are
//! running.

use std::fs::read_to_string;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::{KernelError, Namespace};

/// Retransmissions in one station's network namespace since the namespace was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Number of retransmission timeouts, including those of connection attempts (`TCPTimeouts`).
    pub timeouts: u64,
    /// Number of losses that a tail loss probe repaired. The kernel counts them
    /// (`TCPLossProbeRecovery`) only if more data follows, so probes that the peer has not reported
    /// as duplicates count as well.
    pub repaired: u64,
    /// Number of probes of a closed window that a timer sent (`TCPWinProbe`).
    pub window_probes: u64,
    /// Number of acknowledgements that were sent after a delay (`DelayedACKs`).
    pub delayed: u64,
    /// Number of connections whose timer for retransmissions or window probes is running, because
    /// data is unacknowledged or cannot be sent.
    pub pending: u64,
}

impl TcpState {
    /// Reads the state of `station`. Data that is acknowledged within 0.1 s does not count as
    /// pending, since acknowledgements may be delayed.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered or its files cannot be read.
    pub fn of(station: &Namespace) -> Result<Self, KernelError> {
        station.run(|| {
            let mut state = Self::read()?;
            if state.pending > 0 {
                std::thread::sleep(DELAYED);
                state = Self::read()?;
            }
            Ok(state)
        })?
    }

    /// Reads the state of the namespace of the calling thread.
    fn read() -> Result<Self, KernelError> {
        let counters = read("netstat")?;
        let count = |name| counter(&counters, "TcpExt:", name).unwrap_or(0);
        let sockets = [read("tcp")?, read("tcp6").unwrap_or_default()];
        Ok(Self {
            timeouts: count("TCPTimeouts"),
            repaired: count("TCPLossProbeRecovery")
                .max(count("TCPLossProbes").saturating_sub(count("TCPDSACKRecv"))),
            window_probes: count("TCPWinProbe"),
            delayed: count("DelayedACKs"),
            pending: sockets.iter().map(|table| waiting(table)).sum(),
        })
    }
}

/// Returns the number of the network namespace of a process, and the number of TCP segments that
/// the namespace has sent; `None` if the process has ended.
pub fn namespace_traffic(pid: i32) -> Option<(u64, u64)> {
    let inode = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
    let counters = read_to_string(format!("/proc/{pid}/net/snmp")).ok()?;
    Some((inode, counter(&counters, "Tcp:", "OutSegs")?))
}

/// Time in which delayed acknowledgements arrive. It is longer than Linux's first delay of an
/// acknowledgement (TCP_ATO_MIN, 40 ms).
const DELAYED: Duration = Duration::from_millis(100);

fn read(name: &str) -> Result<String, KernelError> {
    let path = format!("/proc/thread-self/net/{name}");
    read_to_string(&path).map_err(|error| KernelError::new(format!("read {path}"), error))
}

/// Returns the value of a counter in `/proc/net/netstat`. That file has a line of names before each
/// line of values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|it| it == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// Counts the sockets in `/proc/net/tcp` whose timer for retransmissions or window probes is running.
fn waiting(table: &str) -> u64 {
    let waits = |line: &&str| {
        // The columns are sl, local, remote, state, queues, and the kind of timer with its expiry.
        let timer = line.split_whitespace().nth(5);
        timer.is_some_and(|timer| SENDING.iter().any(|kind| timer.starts_with(kind)))
    };
    table.lines().skip(1).filter(waits).count() as u64
}

/// Kinds of timers of a socket that has something to send: retransmission, window probe.
const SENDING: [&str; 2] = ["01:", "04:"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "TcpExt: A TCPTimeouts B\nTcpExt: 1 22 3\nIpExt: C\nIpExt: 4\n";
        assert_eq!(counter(text, "TcpExt:", "TCPTimeouts"), Some(22));
        assert_eq!(counter(text, "IpExt:", "C"), Some(4));
        assert_eq!(counter(text, "TcpExt:", "D"), None);
    }

    #[test]
    fn only_sockets_that_wait_to_send_again_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n   \
            0: 0100000A:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1\n   \
            1: 0100000A:1388 0200000A:D431 01 0000000C:00000000 01:00000014 00000002 0 0 2\n   \
            2: 0100000A:1388 0200000A:D432 01 00000000:00000000 02:0000AB14 00000000 0 0 3\n   \
            3: 0100000A:1388 0200000A:D433 01 00000400:00000000 04:00000014 00000000 0 0 4\n";
        assert_eq!(waiting(table), 2);
        assert_eq!(waiting(""), 0);
    }

    #[test]
    fn the_traffic_of_a_namespace_is_that_of_its_processes() {
        let (inode, _) = namespace_traffic(std::process::id() as i32).unwrap();
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_eq!(own.to_str(), Some(&*format!("net:[{inode}]")));
        assert_eq!(namespace_traffic(i32::MAX), None);
    }

    #[test]
    fn this_machine_has_such_files() {
        let state = TcpState::read().unwrap();
        assert!(state.pending < 1 << 20, "{state:?}");
    }
}
