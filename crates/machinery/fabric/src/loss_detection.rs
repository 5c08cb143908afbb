//! Loss detection of the TCP connections of a station, which depends on the machine's time.
//!
//! If an acknowledgement shows a gap that reordering could explain, Linux waits for some
//! milliseconds of the machine's time before it takes the missing segments for lost (RFC 8985,
//! section 6.2). This is the only short timer that remains in [`crate::make_timerless`] stations.
//! Linux also ignores the acknowledgement of a retransmission that arrives sooner than the shortest
//! round trip (section 6.2, step 2).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags, Timer,
};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use timeloom_time::Duration as Span;

use crate::station::STATION_INTERFACE;
use crate::{KernelError, Namespace};

/// Access to the loss detection of the TCP connections of one station (socket diagnosis,
/// sock_diag(7)).
#[derive(Debug)]
pub struct LossDetection {
    socket: OwnedFd,
    /// Interface of connections that are bound to the station's interface.
    interface: u32,
    sequence: u32,
}

impl LossDetection {
    /// Opens the access for `station`.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered, or without socket diagnosis in the kernel.
    pub fn of(station: &Namespace) -> Result<Self, KernelError> {
        let opened = station.run(Self::here)?;
        opened.map_err(|error| {
            let missing = "socket diagnosis in the kernel (CONFIG_INET_DIAG, CONFIG_INET_TCP_DIAG)";
            KernelError::new("query the timers of TCP connections", error)
                .missing_if(&[Errno::NOENT, Errno::PROTONOSUPPORT], missing)
        })
    }

    /// Opens the access for the namespace of the calling thread.
    fn here() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(SOCK_DIAG),
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER))?;
        let mut timers = Self {
            interface: name_to_index(&socket, STATION_INTERFACE).unwrap_or(0),
            socket,
            sequence: 0,
        };
        // A kernel without the diagnosis of TCP answers as if there were no such socket. The query
        // also loads the kernel's module.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let nothing = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        match timers.query(listener.local_addr()?, nothing)? {
            Some(_) => Ok(timers),
            None => Err(Errno::NOENT.into()),
        }
    }

    /// Returns the state of the connection between `local`, which is an address of the station, and
    /// `remote`; the default if the kernel has no such connection.
    ///
    /// # Errors
    /// Fails if the kernel does not answer.
    pub fn state(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<LossState> {
        let Some(answer) = self.query(local, remote)? else {
            return Ok(LossState::default());
        };
        // The kernel calls this timer a retransmission timer, which is much longer.
        let is_running =
            matches!(answer.header.timer, Some(Timer::Retransmit(left, _)) if left < SHORT);
        // While a program uses the socket, arriving segments wait until it has finished.
        let waits = |nla: &Nla| match nla {
            Nla::MemInfo(memory) => memory.backlog_queue_length > 0,
            _ => false,
        };
        let round_trips = answer.nlas.iter().find_map(|nla| match nla {
            Nla::TcpInfo(info) if info.min_rtt < u32::MAX => Some([info.min_rtt, info.rtt]),
            _ => None,
        });
        let round_trips = round_trips.unwrap_or_default();
        let [shortest_round_trip, round_trip] = round_trips.map(|us| Span::from_us(us.into()));
        Ok(LossState {
            is_undecided: is_running || answer.nlas.iter().any(waits),
            shortest_round_trip,
            round_trip,
        })
    }

    /// Asks for a socket; returns `None` if there is none.
    fn query(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<Box<InetResponse>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = self.request(local, remote);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut bytes = [0; 4096];
        loop {
            let (used, _) = recv(&self.socket, &mut bytes, RecvFlags::empty())?;
            let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&bytes[..used]);
            let answer = answer.map_err(|error| io::Error::other(error.to_string()))?;
            if answer.header.sequence_number != self.sequence {
                continue; // the late answer to an earlier query
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                    Ok(Some(found))
                }
                NetlinkPayload::Error(refusal) => match refusal.to_io() {
                    error if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(None),
                    error => Err(error),
                },
                _ => Err(io::Error::other("an answer of an unknown kind")),
            };
        }
    }

    fn request(&self, local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
        let is_v4 = local.is_ipv4();
        let mut socket_id = match is_v4 {
            true => SocketId::new_v4(),
            false => SocketId::new_v6(),
        };
        socket_id.source_address = local.ip();
        socket_id.source_port = local.port();
        socket_id.destination_address = remote.ip();
        socket_id.destination_port = remote.port();
        socket_id.interface_id = self.interface;
        socket_id.cookie = [0xff; 8];
        let query = InetRequest {
            family: if is_v4 { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::SKMEMINFO | ExtensionFlags::INFO,
            states: StateFlags::all(),
            socket_id,
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        header.sequence_number = self.sequence;
        let query = SockDiagMessage::InetRequest(query);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(query));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }
}

/// State of the loss detection of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossState {
    /// True while the kernel may still have to decide which segments are lost: while the reordering
    /// timer is running, or while segments have arrived that the kernel has not processed.
    pub is_undecided: bool,
    /// Shortest round trip so far, in the machine's time; zero if it is unknown.
    pub shortest_round_trip: Span,
    /// Smoothed round trip, in the machine's time; zero if it is unknown.
    pub round_trip: Span,
}

/// Longest time that the kernel needs for its answer. It answers during the request.
const ANSWER: Duration = Duration::from_secs(1);

/// Duration that is longer than any reordering timer (two round trips of the machine's time and two
/// ticks at most) and shorter than the retransmission timeouts of a station without TCP timers,
/// which are two minutes.
const SHORT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use timeloom_sys::interface::{Interface, Offload};

    use crate::make_timerless;

    /// Classic BPF program that drops packets of more than 500 bytes.
    const DROP_LARGE: &str = "4,128 0 0 0,37 0 1 500,6 0 0 2,6 0 0 0";

    /// Lets a station without TCP timers drop large packets, and tolerate reordering as by default.
    fn drop_large(station: &Namespace) {
        make_timerless(station, None).unwrap();
        let run = |words: &str, last: &[&str]| {
            let mut words = words.split_whitespace().chain(last.iter().copied());
            let status = Command::new(words.next().unwrap()).args(words).status();
            assert!(status.unwrap().success(), "{last:?}");
        };
        let change = || {
            run("ip link set lo mtu 1500", &[]);
            run("tc qdisc add dev lo ingress", &[]);
            run(
                "tc filter add dev lo ingress bpf da bytecode",
                &[DROP_LARGE],
            );
            std::fs::write("/proc/sys/net/ipv4/tcp_reordering", "3").unwrap();
            let loopback = Interface::named("lo").unwrap();
            for offload in [Offload::TcpSegmentation, Offload::GenericSegmentation] {
                loopback.switch_off(offload).unwrap();
            }
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
        let station = Namespace::quiet("detection").unwrap();
        drop_large(&station);
        let mut timers = LossDetection::of(&station).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert_eq!(
            timers.state(nowhere, nowhere).unwrap(),
            LossState::default()
        );
        // The timer does not start if the segments of a write leave too far apart, and may expire
        // before the query on a busy machine.
        loop {
            let [mut stream, peer] = connect(&station);
            let [local, remote] = [&stream, &peer].map(|end| end.local_addr().unwrap());
            let mut is_undecided = || timers.state(local, remote).unwrap().is_undecided;
            // A large segment, which is lost, and a small one.
            stream.write_all(&[0; 1548]).unwrap();
            let has_run = is_undecided();
            while is_undecided() {
                assert!(Instant::now() < until, "it does not expire");
            }
            if has_run {
                stream.write_all(b"small").unwrap();
                assert!(!is_undecided(), "the retransmission timeout is long");
                let round_trip = timers.state(local, remote).unwrap().shortest_round_trip;
                assert!(round_trip > Span::ZERO);
                return;
            }
            assert!(Instant::now() < until, "it does not start");
        }
    }
}
