//! Reordering timers of the TCP connections of a station.
//!
//! If an acknowledgement shows a gap that reordering could explain, Linux waits for some
//! milliseconds of the machine's time before it takes the missing segments for lost (RFC 8985,
//! section 6.2). This is the only short timer that remains in [`crate::make_timerless`] stations.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags, Timer};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    sockopt::set_socket_timeout,
};

use crate::{KernelError, Namespace};

/// Access to the reordering timers of the TCP connections of one station (socket diagnosis,
/// sock_diag(7)).
#[derive(Debug)]
pub struct ReorderingTimers(OwnedFd);

impl ReorderingTimers {
    /// Opens the access for `station`.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered, or without socket diagnosis in the kernel
    /// (CONFIG_INET_DIAG).
    pub fn of(station: &Namespace) -> Result<Self, KernelError> {
        let open = || {
            let socket = socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                Some(SOCK_DIAG),
            )?;
            let timeout = rustix::net::sockopt::Timeout::Recv;
            set_socket_timeout(&socket, timeout, Some(ANSWER))?;
            Ok::<_, io::Error>(Self(socket))
        };
        let opened = station.run(open)?;
        opened.map_err(|error| KernelError::new("open a socket for socket diagnosis", error))
    }

    /// Takes over a descriptor from another process ([`ReorderingTimers::as_fd`]).
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Returns true if the timer of the connection between `local`, which is an address of the
    /// station, and `remote` is running. Returns false if the kernel has no such connection.
    ///
    /// # Errors
    /// Fails if the kernel does not answer.
    pub fn is_running(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<bool> {
        send(&self.0, &request(local, remote), SendFlags::empty())?;
        let mut answer = [0; 4096];
        let (used, _) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer[..used]);
        let answer = answer.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                // The kernel calls this timer a retransmission timer, which is much longer.
                matches!(response.header.timer, Some(Timer::Retransmit(left, _)) if left < SHORT)
            }
            _ => false,
        })
    }
}

impl AsFd for ReorderingTimers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Longest time that the kernel needs for its answer. It answers during the request.
const ANSWER: Duration = Duration::from_secs(1);

/// Duration that is longer than any reordering timer (a quarter of the round trip and two ticks) and
/// shorter than the retransmission timeouts of a station without TCP timers.
const SHORT: Duration = Duration::from_secs(2);

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let is_v4 = local.is_ipv4();
    let mut socket_id = match is_v4 {
        true => SocketId::new_v4(),
        false => SocketId::new_v6(),
    };
    socket_id.source_address = local.ip();
    socket_id.source_port = local.port();
    socket_id.destination_address = remote.ip();
    socket_id.destination_port = remote.port();
    socket_id.cookie = [0xff; 8];
    let query = InetRequest {
        family: if is_v4 { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let query = SockDiagMessage::InetRequest(query);
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(query));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use crate::make_timerless;

    /// Classic BPF program that drops packets of more than 500 bytes.
    const DROP_LARGE: &str = "4,128 0 0 0,37 0 1 500,6 0 0 2,6 0 0 0";

    /// Lets a station without TCP timers drop large packets, and tolerate reordering as by default.
    fn drop_large(station: &Namespace) {
        make_timerless(station, None).unwrap();
        let tc = |words: &str, last: &[&str]| {
            let words = words.split_whitespace().chain(last.iter().copied());
            let status = Command::new("tc").args(words).status();
            assert!(status.unwrap().success(), "{last:?}");
        };
        let change = || {
            tc("qdisc add dev lo ingress", &[]);
            tc("filter add dev lo ingress bpf da bytecode", &[DROP_LARGE]);
            std::fs::write("/proc/sys/net/ipv4/tcp_reordering", "3").unwrap();
        };
        station.run(change).unwrap();
    }

    fn connect(station: &Namespace) -> [TcpStream; 2] {
        let connect = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            [stream, listener.accept().unwrap().0]
        };
        station.run(connect).unwrap()
    }

    /// The kernel waits for a segment that may only have been reordered.
    #[test]
    fn a_gap_starts_the_timer() {
        let station = Namespace::quiet("reordering").unwrap();
        drop_large(&station);
        let timers = ReorderingTimers::of(&station).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        // On a busy machine, the timer may expire between the acknowledgement and the query.
        loop {
            let [mut stream, peer] = connect(&station);
            let [local, remote] = [&stream, &peer].map(|end| end.local_addr().unwrap());
            let is_running = || timers.is_running(local, remote).unwrap();
            let other = SocketAddr::new(remote.ip(), 1);
            assert!(!timers.is_running(local, other).unwrap(), "no connection");
            stream.write_all(&[0; 1000]).unwrap();
            assert!(!is_running(), "the retransmission timeout is long");
            stream.write_all(b"small").unwrap();
            let has_run = is_running();
            while is_running() {
                assert!(Instant::now() < until, "it does not expire");
            }
            if has_run {
                return;
            }
            assert!(Instant::now() < until, "it does not start");
        }
    }
}
