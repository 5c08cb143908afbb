//! What an interface is: its number, its address, whether it is up.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use timeloom_wire::{ClockIdentity, MacAddress};

use crate::PtpError;

/// An Ethernet interface of the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: i32,
    /// Its address.
    pub mac: MacAddress,
}

impl Interface {
    /// Finds `name`. By ioctl: `/sys/class/net` may show another namespace's.
    ///
    /// # Errors
    /// [`PtpError::Usage`] when there is none of that name, or it is not Ethernet.
    pub fn find(name: &str) -> Result<Self, PtpError> {
        let socket = any_socket().map_err(PtpError::doing("open a socket"))?;
        let unknown = |_| {
            PtpError::usage(format!(
                "there is no interface `{name}` here (`ip link` lists them)"
            ))
        };
        let mut request = request_for(name)
            .ok_or_else(|| PtpError::usage(format!("`{name}` is no interface name")))?;
        ioctl(&socket, libc::SIOCGIFINDEX, &mut request).map_err(unknown)?;
        // SAFETY: SIOCGIFINDEX has filled this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        ioctl(&socket, libc::SIOCGIFHWADDR, &mut request).map_err(unknown)?;
        // SAFETY: SIOCGIFHWADDR has filled this member.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(PtpError::usage(format!(
                "`{name}` is not an Ethernet interface"
            )));
        }
        let mac = std::array::from_fn(|at| address.sa_data[at] as u8);
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: MacAddress(mac),
        })
    }

    /// The identity of a clock that has this interface (7.5.2.2.2).
    pub fn clock_identity(&self) -> ClockIdentity {
        ClockIdentity::from_mac(self.mac)
    }
}

pub(crate) fn any_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A request about the interface `name`; `None` when the name cannot be one.
pub(crate) fn request_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: plain old data; zero is a valid value of every field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

pub(crate) fn ioctl(
    socket: &impl AsRawFd,
    request: libc::Ioctl,
    argument: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: all requests of this crate take an ifreq, which lives through the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
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
