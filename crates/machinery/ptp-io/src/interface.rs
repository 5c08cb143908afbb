//! Properties of an interface: index, address, and state.

use std::io::ErrorKind::InvalidInput;

use timeloom_sys::interface;
use timeloom_wire::{ClockIdentity, MacAddress};

use crate::PtpError;

/// An Ethernet interface of the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index assigned by the kernel.
    pub index: u32,
    /// MAC address.
    pub mac: MacAddress,
}

impl Interface {
    /// Finds `name`, by ioctl, because `/sys/class/net` may show another namespace.
    ///
    /// # Errors
    /// Returns [`PtpError::Usage`] if there is no such interface, or if it is not Ethernet.
    pub fn find(name: &str) -> Result<Self, PtpError> {
        let asked = interface::Interface::named(name).map_err(|error| match error.kind() {
            InvalidInput => PtpError::usage(format!("`{name}` is no interface name")),
            _ => PtpError::doing("open a socket")(error),
        })?;
        let unknown = |_| {
            PtpError::usage(format!(
                "there is no interface `{name}` here (`ip link` lists them)"
            ))
        };
        let index = asked.index().map_err(unknown)?;
        let mac = asked.mac().map_err(unknown)?;
        let mac =
            mac.ok_or_else(|| PtpError::usage(format!("`{name}` is not an Ethernet interface")))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: MacAddress(mac),
        })
    }

    /// Returns the identity of a clock with this interface (7.5.2.2.2).
    pub fn clock_identity(&self) -> ClockIdentity {
        ClockIdentity::from_mac(self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_interface_is_said() {
        assert!(
            matches!(Interface::find("nosuch0"), Err(PtpError::Usage(text)) if text.contains("nosuch0"))
        );
        assert!(matches!(
            Interface::find("a-name-longer-than-any"),
            Err(PtpError::Usage(_))
        ));
        assert!(
            matches!(Interface::find("lo"), Err(PtpError::Usage(text)) if text.contains("not an Ethernet"))
        );
    }
}
