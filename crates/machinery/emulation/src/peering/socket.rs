//! UDP socket that sends and receives datagrams in batches.
//!
//! Full datagrams have the same length. The kernel therefore accepts several of them as one train
//! (UDP_SEGMENT) and delivers them as one train (UDP_GRO), so that its cost is per train. Kernels
//! without these options get single datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use timeloom_sys::batch::{self, ReceiveBatch};
use timeloom_sys::control::ControlMessage;

use crate::peering::peer::Datagrams;

/// Socket to one other engine. The kernel drops datagrams from other senders.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    trains: bool,
    batch: ReceiveBatch<AT_ONCE>,
}

/// Number of trains received by one system call.
const AT_ONCE: usize = 8;
/// Maximum length of a received train in bytes.
const TRAIN: usize = 65_536;
/// Maximum number of segments into which the kernel cuts one train.
const SEGMENTS: usize = 64;
/// Maximum length of a train to send in bytes, which is that of a datagram over IPv4.
const TRAIN_OUT: usize = 65_507;
/// Size of the kernel's buffer in each direction in bytes. It holds some milliseconds of 10 Gbit/s,
/// and limits the effect of a flood.
const KEPT: usize = 4 << 20;

impl Socket {
    /// Opens a socket bound to `local`, for the engine at `remote`.
    ///
    /// # Errors
    ///
    /// Fails if a system call fails.
    pub fn connect(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        Self::new(UdpSocket::bind(local)?, remote)
    }

    /// Creates a socket from a bound UDP socket, for the engine at `remote`.
    ///
    /// # Errors
    ///
    /// Fails if a system call fails.
    pub fn new(socket: UdpSocket, remote: SocketAddr) -> io::Result<Self> {
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        // The kernel reduces the size to what the system allows.
        let _ = set_socket_recv_buffer_size(&socket, KEPT);
        let _ = set_socket_send_buffer_size(&socket, KEPT);
        let _ = batch::take_trains(&socket);
        // Setting the segment size to 0 succeeds exactly if segmentation is supported.
        let trains = batch::cut_into(&socket, 0).is_ok();
        Ok(Self {
            socket,
            trains,
            batch: ReceiveBatch::datagrams(TRAIN),
        })
    }

    /// Enables or disables trains. Without trains every datagram is sent separately.
    pub fn set_trains(&mut self, trains: bool) {
        self.trains = trains;
    }

    /// Sends all datagrams. The call never blocks. Datagrams that the kernel refuses are dropped,
    /// as a network would do.
    ///
    /// # Errors
    ///
    /// Fails if the socket is unusable.
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
                // The last datagram of a train may be shorter.
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

    /// Receives at most `budget` trains of datagrams and passes each datagram to `act`. Returns the
    /// number of trains.
    ///
    /// # Errors
    ///
    /// Fails if the socket is unusable.
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

    /// Returns the descriptor, so that a caller can wait for input.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns true for an error under which a network would lose the datagram too: full buffers, an
/// unreachable peer, and other refusals, such as that of a train that is too large.
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
