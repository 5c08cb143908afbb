//! TAP device: a virtual Ethernet card whose frames this process sends and receives.
//!
//! This is the default portal. Its reads and writes are the cheapest of all kinds of portals
//! (docs/network.md has the measurements). With `IFF_VNET_HDR` the kernel passes and accepts whole
//! TCP trains of 64 KiB.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, writev};
use timeloom_fabric::Namespace;
use timeloom_net::{Frame, OffloadedWork};
use timeloom_sys::tap;

use crate::interface::{self, Address};
use crate::{Port, PortalError, ReceiveResult, TxStatus, segments, vnet};

/// TAP device in a namespace.
#[derive(Debug)]
pub struct Tap {
    file: File,
    drops: Drops,
    /// Length of the offload header before each frame in bytes; 0 without offloads.
    header: usize,
}

/// Source of the kernel's counter of frames that were dropped because they were not read in time.
#[derive(Debug)]
struct Drops {
    /// Namespace of the device; `None` if another process has created it. The thread that created
    /// the device sees the namespace's `/proc/…/net/dev`, and this value keeps the namespace alive.
    namespace: Option<Namespace>,
    interface: String,
}

impl Tap {
    /// Creates `interface` in `namespace`, sets its addresses and brings it up. The interface loses
    /// its carrier when this value is dropped, and is removed together with the namespace.
    ///
    /// # Errors
    /// Fails if `/dev/net/tun` is missing or not permitted, or if the interface exists already.
    pub fn create(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, true)
    }

    /// Creates an interface without offloads, so that the kernel segments and checksums every frame
    /// itself. This is for comparisons, and for users of the descriptor other than
    /// [`crate::Emulation`].
    ///
    /// # Errors
    /// Fails as [`Tap::create`] does.
    pub fn create_plain(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, false)
    }

    /// Creates a port from the descriptor of a device that another process has created with
    /// [`Tap::create`]. The interface loses its carrier when both processes have closed the
    /// descriptor. Only the creating process can determine the number of frames that the kernel
    /// dropped.
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self {
            file: descriptor.into(),
            drops: Drops {
                namespace: None,
                interface: String::new(),
            },
            header: vnet::LENGTH,
        }
    }

    /// Sets the MTU of the interface in the namespace, in bytes; the default is 1500.
    ///
    /// # Errors
    /// Fails if the kernel refuses the size, or if the namespace cannot be entered.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), PortalError> {
        let interface = &self.drops.interface;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let namespace = self.drops.namespace.as_ref();
        let namespace = namespace.ok_or_else(gone);
        let namespace =
            namespace.map_err(|error| PortalError::kernel("enter a namespace", error))?;
        namespace.run(|| interface::set_mtu(interface, mtu))?
    }

    fn create_as(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
        offloads: bool,
    ) -> Result<Self, PortalError> {
        let failed = |error| {
            PortalError::kernel(format!("make the TAP device {interface}"), error).missing_if(
                &[Errno::NOENT, Errno::NODEV, Errno::NXIO],
                "/dev/net/tun (CONFIG_TUN)",
            )
        };
        let file = namespace.run(|| {
            let file = tap::create_lasting(interface, offloads).map_err(failed)?;
            interface::settle(interface, address)?;
            Ok::<_, PortalError>(file)
        })??;
        Ok(Self {
            file,
            drops: Drops {
                namespace: namespace.try_clone().ok(),
                interface: interface.to_owned(),
            },
            header: if offloads { vnet::LENGTH } else { 0 },
        })
    }
}

impl Tap {
    /// Sends a train or a frame with an open checksum as frames in wire format.
    fn send_cut(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        let mut outcome = Ok(TxStatus::Done);
        segments(frame, &mut Vec::new(), |bytes| {
            let whole = Frame {
                at: frame.at,
                first_bit: frame.first_bit,
                head: bytes,
                rest: &[],
                offload: OffloadedWork::default(),
            };
            let sent = self.send(&whole);
            if matches!(outcome, Ok(TxStatus::Done)) {
                outcome = sent;
            }
        });
        outcome
    }
}

impl Port for Tap {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<ReceiveResult> {
        vnet::receive(&self.file, self.header, buffer)
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        if self.header == 0 && frame.offload != OffloadedWork::default() {
            return self.send_cut(frame);
        }
        let header = vnet::write(frame.offload, frame.head);
        let parts = [&header[..self.header], frame.head, frame.rest].map(IoSlice::new);
        match writev(&self.file, &parts) {
            Ok(_) => Ok(TxStatus::Done),
            // EIO means that the interface is down, and EINVAL that its kernel rejects the frame.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::IO | Errno::INVAL) => {
                Ok(TxStatus::Refused)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn takes_trains(&self) -> bool {
        self.header > 0
    }

    fn dropped_before(&self) -> u64 {
        let Drops {
            namespace,
            interface,
        } = &self.drops;
        let count = namespace
            .as_ref()
            .and_then(|namespace| namespace.run(|| interface::transmit_drops(interface)).ok());
        count.flatten().unwrap_or(0)
    }
}
