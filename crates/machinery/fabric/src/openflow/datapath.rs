//! Selection of the Open vSwitch datapath: the kernel's if the machine has it, and otherwise the
//! one in user space.
//!
//! The kernel's datapath forwards a frame of a known flow in the sender's context, without another
//! program. It is detected by the generic netlink family for which Open vSwitch's own library looks
//! (`ovs_datapath`, linux/openvswitch.h). If the kernel has the datapath as a module, this request
//! loads the module.

use core::fmt;
use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use crate::{KernelError, Namespace};

/// Part of Open vSwitch that forwards frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datapath {
    /// The kernel's module `openvswitch`.
    Kernel,
    /// The daemon `ovs-vswitchd` itself. It needs nothing but veth pairs from the kernel.
    UserSpace,
}

impl Datapath {
    /// Returns the datapath to use in `namespace`, which is the kernel's if it is available.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered, or if the kernel does not answer.
    pub fn choose(namespace: &Namespace) -> Result<Self, KernelError> {
        let is_there = namespace.run(has_family)?;
        match is_there {
            Ok(true) => Ok(Self::Kernel),
            Ok(false) => Ok(Self::UserSpace),
            Err(error) => {
                let action = "query the kernel's datapath of Open vSwitch";
                Err(KernelError::new(action, error))
            }
        }
    }

    /// Returns the value for `datapath_type` of a bridge (ovs-vswitchd.conf.db(5)).
    ///
    /// In user space the value is `dummy`. That type has the code of `netdev`, but not the TAP
    /// devices that a `netdev` bridge uses for its own traffic; bridges in a fabric have no such
    /// traffic. In addition, each `netdev` datapath has a device called `ovs-netdev`, so two
    /// daemons could not share a namespace.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Kernel => "system",
            Self::UserSpace => "dummy",
        }
    }

    /// Returns additional arguments for the daemon.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => &[],
            Self::UserSpace => &["--disable-system", "--enable-dummy"],
        }
    }

    /// Returns the maximum number of bridges of one daemon. A daemon scans all of its bridges and
    /// ports for each frame that it forwards itself, so it is slow with many of them. With two
    /// trees of 63 bridges, a ping across 12 bridges took 160 ms with one daemon and 5 ms with
    /// sixteen. Forwarding by the kernel does not depend on the number, and the kernel's datapath
    /// belongs to one daemon.
    pub(super) fn bridges_of_a_daemon(self) -> usize {
        match self {
            Self::Kernel => usize::MAX,
            Self::UserSpace => 8,
        }
    }
}

impl fmt::Display for Datapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel's datapath (module openvswitch)",
            Self::UserSpace => {
                "the datapath in user space, since this kernel has none (CONFIG_OPENVSWITCH)"
            }
        })
    }
}

/// Returns true if the kernel of the calling thread's namespace has [`FAMILY`].
fn has_family() -> io::Result<bool> {
    let socket = Socket::new(NETLINK_GENERIC)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&question(), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    is_known(&answer).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "a truncated \
        answer",
        )
    })
}

/// Returns a CTRL_CMD_GETFAMILY request by name (linux/netlink.h, linux/genetlink.h).
fn question() -> Vec<u8> {
    let (header, command) = (16, 4);
    let attribute = 4 + FAMILY.len() + 1;
    let length = header + command + attribute.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(GENL_ID_CTRL.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number, port
    bytes.extend([CTRL_CMD_GETFAMILY, 1, 0, 0]); // command, version, reserved
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(CTRL_ATTR_FAMILY_NAME.to_ne_bytes());
    bytes.extend(FAMILY.as_bytes());
    bytes.resize(length, 0);
    bytes
}

/// Parses the kernel's answer. An error message in it means that there is no such family.
fn is_known(answer: &[u8]) -> Option<bool> {
    let kind = answer.get(4..6)?;
    Some(u16::from_ne_bytes([kind[0], kind[1]]) != NLMSG_ERROR)
}

const FAMILY: &str = "ovs_datapath";
const GENL_ID_CTRL: u16 = 0x10;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_padded_and_says_its_length() {
        let asked = question();
        assert_eq!(asked.len(), 40);
        assert_eq!(u32::from_ne_bytes(asked[..4].try_into().unwrap()), 40);
        assert_eq!(&asked[24..36], FAMILY.as_bytes());
        assert_eq!(u16::from_ne_bytes([asked[20], asked[21]]), 17);
    }

    #[test]
    fn an_error_is_a_no() {
        let mut answer = question();
        assert_eq!(
            is_known(&answer),
            Some(true),
            "as an answer it has the family"
        );
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(is_known(&answer), Some(false));
        assert_eq!(is_known(&answer[..5]), None);
    }
}
