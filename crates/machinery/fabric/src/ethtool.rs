//! Disabling of the offloads of a station's interface.
//!
//! By default a veth passes on TCP segments of up to 64 KiB with blank checksums, on the assumption
//! that hardware will segment them and add the checksums. A fabric has no such hardware. Captures
//! would show frames that no wire carries, with checksums that no receiver accepts, and a device
//! model with a raw socket would receive such frames. Without checksum offload the kernel also
//! segments everything itself, because it must compute the checksum of each frame.

use rustix::io::Errno;
use timeloom_sys::interface::{Interface, Offload};

use crate::KernelError;

/// Disables transmit checksum and segmentation offload of `interface`, whose name is `name`.
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
