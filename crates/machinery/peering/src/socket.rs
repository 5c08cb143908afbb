//! UDP, many datagrams at a time.
//!
//! Full datagrams have one length, so the kernel is handed trains of them
//! (UDP_SEGMENT), and hands over trains in turn (UDP_GRO): its cost is per
//! train then. Kernels without either get single datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use timeloom_sys::batch::{self, Batch};
use timeloom_sys::control::ControlMessage;

use crate::peer::Datagrams;

/// A socket to one other engine. The kernel drops what others send to it.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    trains: bool,
    batch: Batch<AT_ONCE>,
}

/// Trains taken in by one call.
const AT_ONCE: usize = 8;
/// The largest train.
const TRAIN: usize = 65_536;
/// Segments that the kernel cuts one train into at most.
const SEGMENTS: usize = 64;
/// Bytes that one train may have to send: a datagram of IPv4.
const TRAIN_OUT: usize = 65_507;
/// What the kernel may keep for us in each direction: some milliseconds of
/// 10 Gbit/s, and a bound for floods.
const KEPT: usize = 4 << 20;

impl Socket {
    /// A socket bound to `local`, for the engine at `remote`.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn connect(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        Self::new(UdpSocket::bind(local)?, remote)
    }

    /// A socket for the engine at the other end, from one that is bound.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn new(socket: UdpSocket, remote: SocketAddr) -> io::Result<Self> {
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        // Less than was asked for is what the system allows.
        let _ = set_socket_recv_buffer_size(&socket, KEPT);
        let _ = set_socket_send_buffer_size(&socket, KEPT);
        let _ = batch::take_trains(&socket);
        // Asking for no segmentation succeeds exactly where there is some.
        let trains = batch::cut_into(&socket, 0).is_ok();
        Ok(Self {
            socket,
            trains,
            batch: Batch::datagrams(TRAIN),
        })
    }

    /// Whether trains are sent; `false` sends every datagram for itself.
    pub fn set_trains(&mut self, trains: bool) {
        self.trains = trains;
    }

    /// Sends all. What the kernel does not take is dropped, as a
    /// network would: nothing here waits.
    ///
    /// # Errors
    ///
    /// When the socket is of no use any more.
    pub fn send(&mut self, datagrams: &Datagrams) -> io::Result<()> {
        let lengths = &datagrams.lengths;
        let (mut first, mut at) = (0, 0);
        while first < lengths.len() {
            let each = lengths[first] as usize;
            let (mut last, mut bytes) = (first + 1, each);
            let most = if self.trains { SEGMENTS } else { 1 };
            while last < lengths.len() && last - first < most {
                let next = lengths[last] as usize;
                if next > each || bytes + next > TRAIN_OUT {
                    break;
                }
                bytes += next;
                last += 1;
                // The last one of a train may be shorter.
                if next < each {
                    break;
                }
            }
            let train = &datagrams.bytes[at..at + bytes];
            let segment = (last - first > 1).then_some(each as u16);
            match batch::send_train(&self.socket, train, segment) {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
            at += bytes;
            first = last;
        }
        Ok(())
    }

    /// Takes in what is there, at most `budget` trains of datagrams, and hands
    /// each datagram to `act`. Gives back how many trains there were.
    ///
    /// # Errors
    ///
    /// When the socket is of no use any more.
    pub fn receive(&mut self, budget: usize, mut act: impl FnMut(&[u8])) -> io::Result<usize> {
        let mut taken = 0;
        while taken < budget {
            let wanted = AT_ONCE.min(budget - taken);
            let received = self
                .batch
                .receive(&self.socket, wanted, RecvFlags::DONTWAIT);
            let count = match received {
                Ok(count) => count,
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            };
            for train in self.batch.received() {
                let segment = train.messages().find_map(|message| match message {
                    ControlMessage::Segments(length) if length > 0 => Some(length),
                    _ => None,
                });
                let segment = segment.unwrap_or(train.bytes.len()).max(1);
                train.bytes.chunks(segment).for_each(&mut act);
            }
            taken += count;
            if count < wanted {
                break;
            }
        }
        Ok(taken)
    }

    /// The descriptor, to be waited on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel is full, or the other end is not there: a network would lose the
/// datagram as well. Its refusals (of a train too large, for one) likewise.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock | ConnectionRefused | Interrupted | HostUnreachable | NetworkUnreachable
    ) || matches!(
        Errno::from_io_error(error),
        Some(Errno::NOBUFS | Errno::MSGSIZE | Errno::PERM)
    )
}
