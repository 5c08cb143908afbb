//! One `recvmsg`, and what the kernel says beside the bytes.
//! Layouts: recvmsg(2), timestamping.rst, linux/if_packet.h.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use timeloom_fabric::ancillary::{control_messages, timespec_ns};
use timeloom_wire::VlanTag;

/// A received datagram or frame.
pub(super) struct Envelope<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) software_ns: Option<i64>,
    pub(super) hardware_ns: Option<i64>,
    pub(super) vlan: Option<VlanTag>,
}

/// Control messages start at multiples of 8.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// Three stamps take 64 bytes, auxiliary data 40, an error report 48.
const CONTROL_LEN: usize = 256;

/// The next message, without waiting; `None` when there is none. What does not
/// fit the buffer is cut, which the parser then notices.
pub(super) fn receive<'a>(
    socket: &OwnedFd,
    flags: libc::c_int,
    buffer: &'a mut [u8],
) -> io::Result<Option<Envelope<'a>>> {
    let mut control = Control([0; CONTROL_LEN]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: plain old data; null pointers and zero lengths are valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LEN as _;
    // SAFETY: the header points to one buffer and a control area of the stated
    // sizes, alive and otherwise untouched until the call returns.
    let got = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut header,
            flags | libc::MSG_DONTWAIT,
        )
    };
    let Ok(length) = usize::try_from(got) else {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        };
    };
    let mut envelope = Envelope {
        bytes: &buffer[..length.min(buffer.len())],
        software_ns: None,
        hardware_ns: None,
        vlan: None,
    };
    for (level, kind, data) in
        control_messages(&control.0[..header.msg_controllen.min(CONTROL_LEN)])
    {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // struct scm_timestamping: software, unused, hardware.
                envelope.software_ns = timespec_ns(data);
                envelope.hardware_ns = data.get(32..).and_then(timespec_ns);
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => envelope.vlan = vlan_tag(data),
            _ => {}
        }
    }
    Ok(Some(envelope))
}

/// The tag in `struct tpacket_auxdata`: status, len, snaplen `u32`, mac, net,
/// vlan_tci, vlan_tpid `u16`. The kernel takes tags out of the frame.
fn vlan_tag(data: &[u8]) -> Option<VlanTag> {
    let status = u32::from_ne_bytes(*data.first_chunk()?);
    let tci = u16::from_ne_bytes(*data.get(16..)?.first_chunk()?);
    (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| VlanTag::from_tci(tci))
}

/// The control messages are taken apart as a 64-bit kernel writes them.
const _: () = assert!(size_of::<usize>() == 8 && size_of::<libc::cmsghdr>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_stamps_are_read_as_the_kernel_writes_them() {
        let mut aux = [0u8; 20];
        aux[..4].copy_from_slice(&libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
        aux[16..18].copy_from_slice(&0x8005u16.to_ne_bytes());
        let tag = vlan_tag(&aux).expect("a tag");
        assert_eq!((tag.priority, tag.vid), (4, 5));
        aux[..4].fill(0);
        assert_eq!(vlan_tag(&aux), None);
        let mut stamps = [0u8; 48];
        assert_eq!(timespec_ns(&stamps), None);
        stamps[32..40].copy_from_slice(&7i64.to_ne_bytes());
        assert_eq!(timespec_ns(&stamps[32..]), Some(7_000_000_000));
    }

    #[test]
    fn a_torn_control_area_ends_the_walk() {
        assert_eq!(control_messages(&[0; 16]).count(), 0);
        assert_eq!(control_messages(&[0xff; 24]).count(), 0);
    }
}
