//! Switching a station's offloads off.
//!
//! By default a veth hands over TCP segments of up to 64 KiB with their
//! checksums left blank, on the assumption that hardware further down cuts and
//! sums them. Here no hardware follows: captures would show frames that no wire
//! carries, with checksums that no receiver accepts, and a raw-socket device
//! model would be fed them. Without checksum offload the kernel also segments
//! everything itself, because it must sum each frame.

use rustix::io::Errno;
use timeloom_sys::interface::{Interface, Offload};

use crate::KernelError;

/// Turns transmit checksums and segmentation offload of `interface` off, which is
/// called `name`.
pub(crate) fn offloads_off(interface: &Interface, name: &str) -> Result<(), KernelError> {
    for (offload, feature) in [
        (Offload::TransmitChecksum, "checksum offload"),
        (Offload::TcpSegmentation, "TCP segmentation offload"),
        (Offload::GenericSegmentation, "generic segmentation offload"),
    ] {
        interface.switch_off(offload).map_err(|error| {
            KernelError::new(format!("switch off {feature} of {name}"), error).missing_if(
                &[Errno::OPNOTSUPP],
                "veth interfaces with changeable offloads",
            )
        })?;
    }
    Ok(())
}
