//! A TAP device: an Ethernet card whose wire is this process.
//!
//! The default portal. Reading and writing cost the least of all ways (the
//! measurements are in docs/network.md), and with `IFF_VNET_HDR` the kernel
//! hands over TCP trains of 64 KiB whole and takes them so.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, writev};
use timeloom_fabric::Namespace;
use timeloom_net::{Frame, Offload};
use timeloom_sys::tap;

use crate::interface::{self, Address};
use crate::{Port, PortalError, Received, TxStatus, segments, vnet};

/// A TAP device in a namespace.
#[derive(Debug)]
pub struct Tap {
    file: File,
    drops: Drops,
    /// Bytes before each frame: a header about offloads, or nothing.
    header: usize,
}

/// Where the kernel counts what it dropped for want of a reader.
#[derive(Debug)]
struct Drops {
    /// `/proc/…/net/dev` of the thread that made the device is that of its
    /// namespace; the socket keeps the namespace alive and tells its number.
    namespace: Option<Namespace>,
    interface: String,
}

impl Tap {
    /// Makes `interface` in `namespace`, with these addresses, and brings it up. Its cable
    /// is out when this value is dropped, and it is gone with the namespace.
    ///
    /// # Errors
    /// When there is no `/dev/net/tun`, no right to use it, or an interface of
    /// that name.
    pub fn create(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, true)
    }

    /// Creates an interface without offloads: the kernel cuts and sums every frame itself.
    /// For comparison, and for others than [`crate::Emulation`] that get the
    /// descriptor.
    ///
    /// # Errors
    /// As for [`Tap::create`].
    pub fn create_plain(
        namespace: &Namespace,
        interface: &str,
        address: &Address,
    ) -> Result<Self, PortalError> {
        Self::create_as(namespace, interface, address, false)
    }

    /// One that another process has made by [`Tap::create`], by its descriptor. Its cable is
    /// out when both have dropped it; what its kernel dropped is known there.
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

    /// Sets the longest IP packet that its kernel sends through it; 1500 bytes
    /// before.
    ///
    /// # Errors
    /// When the kernel refuses the size, or the namespace is gone.
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
    /// Sends a train or an open checksum as the frames that a wire carries.
    fn send_cut(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        let mut outcome = Ok(TxStatus::Done);
        segments(frame, &mut Vec::new(), |bytes| {
            let whole = Frame {
                at: frame.at,
                head: bytes,
                rest: &[],
                offload: Offload::default(),
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

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        vnet::receive(&self.file, self.header, buffer)
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        if self.header == 0 && frame.offload != Offload::default() {
            return self.send_cut(frame);
        }
        let header = vnet::write(frame.offload, frame.head);
        let parts = [&header[..self.header], frame.head, frame.rest].map(IoSlice::new);
        match writev(&self.file, &parts) {
            Ok(_) => Ok(TxStatus::Done),
            // EIO: the interface is down; EINVAL: no frame for its kernel.
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
