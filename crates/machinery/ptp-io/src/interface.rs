//! Properties of an interface: index, address, and state.

use std::io::ErrorKind::InvalidInput;

use timeloom_sys::interface;
use timeloom_wire::{ClockIdentity, MacAddress};

use crate::PtpError;

/// Ethernet interface in the network namespace of the calling thread.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Index assigned by the kernel.
    pub index: u32,
    /// MAC address of the interface.
    pub mac: MacAddress,
}

impl Interface {
    /// Finds the interface called `name`. It uses an ioctl, because `/sys/class/net` may show
    /// another namespace.
    ///
    /// # Errors
    /// Fails with [`PtpError::Usage`] if there is no such interface, or if it is not Ethernet.
    pub fn find(name: &str) -> Result<Self, PtpError> {
        let asked = interface::Interface::named(name).map_err(|error| match error.kind() {
            InvalidInput => PtpError::usage(format!("`{name}` is not a name of an interface")),
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

    /// Returns the clock identity derived from the interface's MAC address (IEEE 1588-2008,
    /// 7.5.2.2.2).
    pub fn clock_identity(&self) -> ClockIdentity {
        ClockIdentity::from_mac(self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_interfaces_are_refused_with_the_reason() {
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
