//! Receiving one message with its control data (ancillary data) from the kernel.

use std::io;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use timeloom_sys::control::{self, ControlBuffer, ControlMessage};
use timeloom_wire::VlanTag;

/// Datagram or frame that was received.
pub(super) struct Envelope<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) software_ns: Option<i64>,
    pub(super) hardware_ns: Option<i64>,
    /// VLAN tag that the kernel has removed from the frame.
    pub(super) vlan: Option<VlanTag>,
}

/// Returns the next message without blocking, or `None` if there is none. A message that is longer
/// than the buffer is truncated; the parser detects this.
pub(super) fn receive<'a>(
    socket: &OwnedFd,
    flags: RecvFlags,
    buffer: &'a mut [u8],
) -> io::Result<Option<Envelope<'a>>> {
    let mut control = ControlBuffer::default();
    let flags = flags | RecvFlags::DONTWAIT;
    let length = match control::receive(socket, buffer, &mut control, flags) {
        Ok(length) => length,
        Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut envelope = Envelope {
        bytes: &buffer[..length.min(buffer.len())],
        software_ns: None,
        hardware_ns: None,
        vlan: None,
    };
    for message in control.messages() {
        match message {
            ControlMessage::Stamped {
                software_ns,
                hardware_ns,
            } => {
                envelope.software_ns = software_ns;
                envelope.hardware_ns = hardware_ns;
            }
            ControlMessage::Vlan { tci, .. } => envelope.vlan = Some(VlanTag::from_tci(tci)),
            _ => {}
        }
    }
    Ok(Some(envelope))
}
