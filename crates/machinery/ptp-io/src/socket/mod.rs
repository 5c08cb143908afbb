//! Sockets of one port: they carry messages in both directions, and deliver timestamps.
//!
//! A port has two descriptors. Event messages are sent on the first one, on which the kernel
//! timestamps every departure. General messages are sent on the second one, so that no unneeded
//! timestamp is taken. Over layer 2 all messages are received on the first descriptor, and over UDP
//! on the descriptor of the message's port number.
//!
//! The kernel returns the timestamp of a departure on the error queue, together with a copy of the
//! frame. This copy identifies the message. The alternative is the kernel's running number, but
//! after a send that fails half-way it is off by one for ever.

mod control;
pub(crate) mod hardware;
mod layer2;
mod udp;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;
use timeloom_ptp::Transport;
use timeloom_ptp::{Packet, Stamp};
use timeloom_sys::stamps::{self, StampSource};
use timeloom_wire::VlanTag;

use crate::{Interface, PtpError};
use control::Envelope;

/// Clock that takes the timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamping {
    /// The kernel, with the system clock, when it passes frames to the driver.
    Software,
    /// The network card, with its hardware clock.
    Hardware,
}

/// Message that was received, with its timestamp.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) packet: Packet,
    pub(crate) stamp: Option<Stamp>,
}

/// Sockets of one port.
#[derive(Debug)]
pub(crate) struct PortSocket {
    interface: Interface,
    transport: Transport,
    stamping: Stamping,
    event: OwnedFd,
    general: OwnedFd,
    /// True if general messages are timestamped too.
    stamps_general: bool,
    buffer: Vec<u8>,
}

/// Size of the receive buffer in bytes; larger than any frame of the supported interfaces.
const BUFFER: usize = 9216;
/// Maximum number of messages read in one batch, so that a flood on one port does not starve the
/// others.
const BURST: usize = 64;

impl PortSocket {
    pub(crate) fn open(
        interface: &Interface,
        transport: Transport,
        stamping: Stamping,
    ) -> Result<Self, PtpError> {
        if stamping == Stamping::Hardware {
            hardware::enable(interface)?;
        }
        let opened = match transport {
            Transport::Layer2 => layer2::open(interface, stamping),
            Transport::Udp4 => udp::open(interface, stamping),
        };
        let (event, general) = opened.map_err(PtpError::doing(format!(
            "open PTP sockets on {}",
            interface.name
        )))?;
        Ok(Self {
            interface: interface.clone(),
            transport,
            stamping,
            event,
            general,
            stamps_general: false,
            buffer: vec![0; BUFFER],
        })
    }

    /// Enables timestamps of general messages. A clock does not need them, but a measurement of a
    /// clock does.
    pub(crate) fn stamp_general(&mut self) -> Result<(), PtpError> {
        stamps::both_ways(&self.general, self.stamping.by()).map_err(PtpError::doing(format!(
            "have all messages on {} stamped",
            self.interface.name
        )))?;
        self.stamps_general = true;
        Ok(())
    }

    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.event.as_fd(), self.general.as_fd()]
    }

    /// Sends `packet`. If it is an event message, its timestamp arrives later
    /// ([`Self::departures`]).
    pub(crate) fn send(&self, packet: &Packet) -> io::Result<()> {
        let socket = if is_event(&packet.bytes) {
            &self.event
        } else {
            &self.general
        };
        match self.transport {
            Transport::Layer2 => layer2::send(socket, &self.interface, packet),
            Transport::Udp4 => udp::send(socket, packet),
        }
    }

    /// Passes received messages to `sink`. Fails only if the interface is gone or down.
    pub(crate) fn receive(&mut self, mut sink: impl FnMut(Arrival)) -> io::Result<()> {
        for socket in [&self.event, &self.general] {
            for _ in 0..BURST {
                let Some(envelope) =
                    control::receive(socket, RecvFlags::empty(), &mut self.buffer)?
                else {
                    break;
                };
                let stamp = self.stamping.pick(&envelope).map(Stamp::from_ns);
                let taken = match self.transport {
                    Transport::Layer2 => layer2::open_frame(&envelope, self.interface.mac),
                    Transport::Udp4 => Some((envelope.bytes, None)),
                };
                let Some((bytes, vlan)) = taken else { continue };
                let stamp = stamp.filter(|_| self.stamps_general || is_event(bytes));
                sink(arrival(bytes, vlan, stamp));
            }
        }
        Ok(())
    }

    /// Passes the timestamped departures to `sink`: for each one the copy of the frame and its
    /// timestamp.
    pub(crate) fn departures(&mut self, mut sink: impl FnMut(&[u8], Stamp)) {
        let stamped = if self.stamps_general { 2 } else { 1 };
        for socket in &[&self.event, &self.general][..stamped] {
            for _ in 0..BURST {
                match control::receive(socket, RecvFlags::ERRQUEUE, &mut self.buffer) {
                    Ok(Some(envelope)) => {
                        if let Some(ns) = self.stamping.pick(&envelope) {
                            sink(envelope.bytes, Stamp::from_ns(ns));
                        }
                    }
                    // The next send or receive reports the failure.
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }
}

impl Stamping {
    const fn by(self) -> StampSource {
        match self {
            Self::Software => StampSource::Kernel,
            Self::Hardware => StampSource::Card,
        }
    }

    const fn pick(self, envelope: &Envelope<'_>) -> Option<i64> {
        match self {
            Self::Software => envelope.software_ns,
            Self::Hardware => envelope.hardware_ns,
        }
    }
}

pub(crate) fn is_event(message: &[u8]) -> bool {
    message.first().is_some_and(|first| first & 0x0f < 8)
}

fn arrival(bytes: &[u8], vlan: Option<VlanTag>, stamp: Option<Stamp>) -> Arrival {
    let packet = Packet::received(bytes, vlan);
    Arrival { packet, stamp }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_cut_and_nonsense_is_left_for_the_parser() {
        let mut frame = vec![0u8; 60];
        (frame[1], frame[3]) = (2, 44);
        assert_eq!(arrival(&frame, None, None).packet.bytes.len(), 44);
        frame[2] = 0xff;
        assert_eq!(arrival(&frame, None, None).packet.bytes.len(), 60);
        assert!(arrival(&[], None, None).packet.bytes.is_empty());
        assert!(!is_event(&[0x8, 2, 0, 4]), "general messages have no stamp");
        assert!(is_event(&[0x3, 2, 0, 4]));
    }
}
