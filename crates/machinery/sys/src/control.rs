//! Decoding of the control messages that `recvmsg` returns. Layouts: cmsg(3), timestamping.rst,
//! linux/if_packet.h, linux/errqueue.h.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::RecvFlags;
use timeloom_time::Duration;

use crate::option::set;

/// Control message that accompanies a received datagram or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// Arrival time by CLOCK_REALTIME, in nanoseconds since 1970 (SCM_TIMESTAMPNS).
    Arrived {
        /// Arrival time; `None` if the kernel had no timestamp.
        realtime_ns: Option<i64>,
    },
    /// Arrival or departure time by two clocks (SCM_TIMESTAMPING).
    Stamped {
        /// The kernel's software timestamp by CLOCK_REALTIME, in nanoseconds since 1970; `None` if
        /// there is none.
        software_ns: Option<i64>,
        /// Timestamp by the network card's clock, in nanoseconds since that clock's zero; `None` if
        /// there is none.
        hardware_ns: Option<i64>,
    },
    /// VLAN tag that the kernel has removed from the frame (PACKET_AUXDATA).
    Vlan {
        /// Priority and VLAN identifier, in the layout of the tag.
        tci: u16,
        /// Ethertype of the tag.
        tpid: u16,
    },
    /// Length in bytes of each datagram of a train, except for the last (UDP_GRO).
    Segments(usize),
    /// Error of a sent packet, or the report of a departure to which a timestamp belongs
    /// (IP_RECVERR).
    Error {
        /// Error number.
        errno: i32,
        /// Type and code of the ICMP message.
        kind: (u8, u8),
        /// Additional information of the ICMP message, such as the path MTU.
        info: u32,
        /// Sequence number of the packet to which a timestamp belongs.
        data: u32,
        /// Sender of the ICMP message; `None` if there is no such message.
        by: Option<Ipv4Addr>,
    },
}

/// Buffer for control messages, with the result of the last receive call.
#[derive(Clone, Debug)]
pub struct ControlBuffer {
    area: Area,
    used: usize,
}

/// Area for control messages, which start at multiples of 8 bytes.
#[repr(C, align(8))]
#[derive(Clone, Debug)]
struct Area([u8; CONTROL_LEN]);

/// Size of the control area in bytes. Three timestamps take 64 bytes, auxiliary data 40, an error
/// report 48.
const CONTROL_LEN: usize = 256;

impl Default for ControlBuffer {
    fn default() -> Self {
        Self {
            area: Area([0; CONTROL_LEN]),
            used: 0,
        }
    }
}

impl ControlBuffer {
    /// Returns those messages of the last receive call that [`ControlMessage`] can represent.
    pub fn messages(&self) -> impl Iterator<Item = ControlMessage> + '_ {
        messages(&self.area.0[..self.used])
    }
}

/// Makes a UDP socket report ICMP errors in its error queue, as [`ControlMessage::Error`].
///
/// # Errors
/// No cause of failure is known.
pub fn hear_errors(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &1)
}

/// Receives one datagram or frame with `flags`; truncates it to the size of `buffer`. Returns the
/// number of bytes received, or with [`RecvFlags::TRUNC`] the original length.
///
/// # Errors
/// Fails as recvmsg(2) does.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    control: &mut ControlBuffer,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: plain old data; null pointers and zero lengths are valid.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.area.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LEN as _;
    let flags = flags.bits().cast_signed();
    // SAFETY: the header points to one buffer and a control area of the stated sizes. Both are
    // alive and not otherwise accessed until the call returns.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    control.used = 0;
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    control.used = header.msg_controllen.min(CONTROL_LEN);
    Ok(got)
}

/// Decodes those messages of a control area that [`ControlMessage`] can represent.
pub(crate) fn messages(area: &[u8]) -> impl Iterator<Item = ControlMessage> + '_ {
    raw_messages(area).filter_map(|(level, kind, data)| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => Some(ControlMessage::Arrived {
            realtime_ns: timespec_ns(data),
        }),
        // struct scm_timestamping: software, unused, hardware.
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => Some(ControlMessage::Stamped {
            software_ns: timespec_ns(data),
            hardware_ns: data.get(32..).and_then(timespec_ns),
        }),
        (libc::SOL_PACKET, libc::PACKET_AUXDATA) => vlan(data),
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let length = i32::from_ne_bytes(*data.first_chunk()?);
            usize::try_from(length).ok().map(ControlMessage::Segments)
        }
        (libc::SOL_IP, libc::IP_RECVERR) => error(data),
        _ => None,
    })
}

/// Iterates over the `struct cmsghdr`s of `area`: length (including this header), level, kind,
/// data, and padding to the next multiple of 8. Yields level, kind and data of each. A length that
/// exceeds the area ends the iteration.
fn raw_messages(mut area: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    core::iter::from_fn(move || {
        let (len, rest) = area.split_first_chunk::<8>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let len = usize::from_ne_bytes(*len);
        let data = area.get(HEADER_LEN..len)?;
        area = area.get(len.next_multiple_of(8)..).unwrap_or_default();
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
    })
}

const HEADER_LEN: usize = size_of::<libc::cmsghdr>();
/// Control messages are decoded in the layout of a 64-bit kernel.
const _: () = assert!(size_of::<usize>() == 8 && HEADER_LEN == 16);

/// Returns the nanoseconds of a `struct timespec` of a 64-bit machine, or `None` if it is zero,
/// which means no timestamp.
fn timespec_ns(data: &[u8]) -> Option<i64> {
    let (s, rest) = data.split_first_chunk::<8>()?;
    let (ns, _) = rest.split_first_chunk::<8>()?;
    let time = Duration::from_s_ns(i64::from_ne_bytes(*s), i64::from_ne_bytes(*ns)).as_ns();
    (time != 0).then_some(time)
}

/// Decodes the tag in `struct tpacket_auxdata`: status, len, snaplen `u32`, mac, net, vlan_tci,
/// vlan_tpid `u16`.
fn vlan(data: &[u8]) -> Option<ControlMessage> {
    let half = |at: usize| Some(u16::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let status = u32::from_ne_bytes(*data.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let named = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tci = half(16)?;
    let tpid = if named {
        half(18)?
    } else {
        libc::ETH_P_8021Q as u16
    };
    Some(ControlMessage::Vlan { tci, tpid })
}

/// Decodes `struct sock_extended_err`: errno `u32`; origin, type, code, padding `u8`; info, data
/// `u32`. For an ICMP message the `sockaddr_in` of its sender follows.
fn error(data: &[u8]) -> Option<ControlMessage> {
    let word = |at: usize| Some(*data.get(at..)?.first_chunk::<4>()?);
    let by = if *data.get(4)? == libc::SO_EE_ORIGIN_ICMP {
        word(20)
    } else {
        None
    };
    Some(ControlMessage::Error {
        errno: i32::from_ne_bytes(word(0)?),
        kind: (*data.get(5)?, *data.get(6)?),
        info: u32::from_ne_bytes(word(8)?),
        data: u32::from_ne_bytes(word(12)?),
        by: by.map(Ipv4Addr::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_LEN + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn tags_and_stamps_are_read_as_the_kernel_writes_them() {
        let mut aux = [0u8; 20];
        aux[16..18].copy_from_slice(&0x8005u16.to_ne_bytes());
        let without = message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &aux);
        assert_eq!(messages(&without).count(), 0);
        aux[..4].copy_from_slice(&libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
        let mut stamps = [0u8; 48];
        stamps[32..40].copy_from_slice(&7i64.to_ne_bytes());
        let mut area = message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &aux);
        area.extend(message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamps));
        area.extend(message(
            libc::SOL_UDP,
            libc::UDP_GRO,
            &1_400i32.to_ne_bytes(),
        ));
        let expected = [
            ControlMessage::Vlan {
                tci: 0x8005,
                tpid: 0x8100,
            },
            ControlMessage::Stamped {
                software_ns: None,
                hardware_ns: Some(7_000_000_000),
            },
            ControlMessage::Segments(1_400),
        ];
        assert_eq!(messages(&area).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_torn_control_area_ends_the_walk() {
        assert_eq!(raw_messages(&[0; 16]).count(), 0);
        assert_eq!(raw_messages(&[0xff; 24]).count(), 0);
    }
}
