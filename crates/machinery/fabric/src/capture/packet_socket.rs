//! The packet socket: opening one on an interface and reading it in batches.
//! Layouts: packet(7), linux/if_packet.h.

use core::mem::{size_of, size_of_val, zeroed};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::{Direction, stamping};
use crate::ancillary::{control_messages, timespec_ns};

/// An open packet socket, bound to one interface.
#[derive(Debug)]
pub(super) struct PacketSocket {
    fd: OwnedFd,
}

/// A frame as it comes out of a batch.
pub(super) struct RawFrame {
    pub(super) realtime_ns: Option<i64>,
    pub(super) direction: Direction,
    pub(super) bytes: Vec<u8>,
    pub(super) original_len: u32,
}

/// Room for one read.
pub(super) struct Batch {
    snap_len: usize,
    /// The frames' bytes, `snap_len` apart.
    storage: Vec<u8>,
    envelopes: Vec<Envelope>,
    filled: usize,
}

/// What the kernel says about a frame beside its bytes.
#[derive(Clone, Copy)]
struct Envelope {
    address: libc::sockaddr_ll,
    control: Control,
    control_len: usize,
    original_len: u32,
}

/// Control messages start at multiples of 8.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_LEN]);

impl PacketSocket {
    /// Opens a socket on `interface` of the calling thread's namespace.
    pub(super) fn open_here(interface: &str, buffer_bytes: usize) -> io::Result<Self> {
        // Protocol none: it hears nothing before it is bound to the interface.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
        // Forcing passes the machine-wide limit and needs CAP_NET_ADMIN.
        setsockopt(&fd, sockopt::RcvBufForce, &buffer_bytes)
            .or_else(|_| setsockopt(&fd, sockopt::RcvBuf, &buffer_bytes))?;
        let socket = Self { fd };
        socket.ask_for_auxiliary_data()?;
        stamping::wait_until_on();
        socket.bind(if_nametoindex(interface)?)?;
        Ok(socket)
    }

    /// VLAN tags, which the kernel takes out of the bytes, come along this way.
    fn ask_for_auxiliary_data(&self) -> io::Result<()> {
        let yes: libc::c_int = 1;
        // SAFETY: the option's value is an int, passed with its size.
        let answer = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_AUXDATA,
                (&raw const yes).cast(),
                size_of_val(&yes) as libc::socklen_t,
            )
        };
        Errno::result(answer).map(drop).map_err(io::Error::from)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: plain old data; zero is a valid value of every field.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        // SAFETY: a complete sockaddr_ll, passed with its size.
        let answer = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        Errno::result(answer).map(drop).map_err(io::Error::from)
    }

    /// Lets no more frames in; those that are waiting can still be read.
    pub(super) fn close_the_door(&self) -> io::Result<()> {
        // A socket filter that keeps zero bytes of everything.
        let mut program = [libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: 0,
        }];
        let filter = libc::sock_fprog {
            len: 1,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: the option's value is a sock_fprog, passed with its size; the
        // program it points to has the stated length and outlives the call.
        let answer = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of_val(&filter) as libc::socklen_t,
            )
        };
        Errno::result(answer).map(drop).map_err(io::Error::from)
    }

    /// Fills `batch` with what is there, without waiting.
    pub(super) fn receive(&self, batch: &mut Batch) -> Result<(), Errno> {
        batch.filled = 0;
        // SAFETY: plain old data; null pointers and zero lengths are valid.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let rooms = batch
            .storage
            .chunks_exact_mut(batch.snap_len)
            .zip(&mut batch.envelopes);
        for ((header, part), (room, envelope)) in headers.iter_mut().zip(&mut parts).zip(rooms) {
            part.iov_base = room.as_mut_ptr().cast();
            part.iov_len = room.len();
            header.msg_hdr.msg_name = (&raw mut envelope.address).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = envelope.control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_LEN as _;
        }
        // With MSG_TRUNC the kernel reports how long a frame was, not how much
        // of it was kept.
        // SAFETY: every header points to a name, a buffer and a control area
        // of the stated sizes, all alive and untouched until the call returns.
        let answer = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_TRUNC as _,
                core::ptr::null_mut(),
            )
        };
        batch.filled = Errno::result(answer)?.unsigned_abs() as usize;
        for (header, envelope) in headers.iter().zip(&mut batch.envelopes) {
            envelope.control_len = header.msg_hdr.msg_controllen;
            envelope.original_len = header.msg_len;
        }
        Ok(())
    }

    /// How many frames were lost since this was last asked.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the option's value is a tpacket_stats, passed with its size.
        let answer = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        Errno::result(answer)?;
        Ok(u64::from(statistics.tp_drops))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Batch {
    pub(super) fn new(snap_len: usize) -> Self {
        let empty = Envelope {
            // SAFETY: plain old data; zero is a valid value of every field.
            address: unsafe { zeroed() },
            control: Control([0; CONTROL_LEN]),
            control_len: 0,
            original_len: 0,
        };
        Self {
            snap_len,
            // Zeroed memory from the system is not touched before it is used.
            storage: vec![0; snap_len * BATCH],
            envelopes: vec![empty; BATCH],
            filled: 0,
        }
    }

    /// What the last read brought, in the order of capture.
    pub(super) fn frames(&self) -> impl Iterator<Item = RawFrame> {
        self.storage
            .chunks_exact(self.snap_len)
            .zip(&self.envelopes)
            .take(self.filled)
            .map(|(room, envelope)| envelope.open(room))
    }
}

impl Envelope {
    fn open(&self, room: &[u8]) -> RawFrame {
        let kept = room.len().min(self.original_len as usize);
        let mut frame = RawFrame {
            realtime_ns: None,
            direction: match self.address.sll_pkttype {
                libc::PACKET_OUTGOING => Direction::Outbound,
                _ => Direction::Inbound,
            },
            bytes: room[..kept].to_vec(),
            original_len: self.original_len,
        };
        let control = &self.control.0[..self.control_len.min(CONTROL_LEN)];
        for (level, kind, data) in control_messages(control) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    frame.realtime_ns = timespec_ns(data);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    if let Some(tag) = vlan_tag(data) {
                        frame.put_back(tag, room.len());
                    }
                }
                _ => {}
            }
        }
        frame
    }
}

impl RawFrame {
    /// Puts a VLAN tag where it was on the wire: after the two addresses.
    fn put_back(&mut self, tag: [u8; 4], snap_len: usize) {
        const ADDRESSES_LEN: usize = 12;
        if self.bytes.len() >= ADDRESSES_LEN {
            self.bytes.splice(ADDRESSES_LEN..ADDRESSES_LEN, tag);
            self.bytes.truncate(snap_len);
            self.original_len += 4;
        }
    }
}

/// The tag in `struct tpacket_auxdata`: status, len, snaplen `u32`, mac, net,
/// vlan_tci, vlan_tpid `u16`.
fn vlan_tag(data: &[u8]) -> Option<[u8; 4]> {
    let half = |at: usize| Some(u16::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let status = u32::from_ne_bytes(*data.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let named = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if named {
        half(18)?
    } else {
        libc::ETH_P_8021Q as u16
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), half(16)?.to_be_bytes());
    Some([a, b, c, d])
}

/// The control messages are taken apart as a 64-bit kernel writes them.
const _: () = assert!(size_of::<usize>() == 8 && size_of::<libc::cmsghdr>() == 16);

const BATCH: usize = 32;
/// A timestamp takes 32 bytes and auxiliary data 40.
const CONTROL_LEN: usize = 128;
