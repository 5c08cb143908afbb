//! Machines that live at nodes, and what they wait for.

use core::any::Any;
use core::fmt;

use timeloom_time::{Instant, Virtual};

use crate::ids::Token;
use crate::packet::{NIL, PortId};

/// A machine at a node. Ports are counted from 0, in the order of the node's
/// cables.
pub trait Resident: Any + fmt::Debug + Send {
    /// Whether a frame is for it. Asked of every frame of a real program that
    /// comes by, so it should look at little.
    fn wants(&self, frame: &FrameView<'_>) -> bool;

    /// A frame that it wanted has come; it goes no further.
    fn handle_frame(
        &mut self,
        now: Instant<Virtual>,
        frame: &ReceivedFrame<'_>,
        out: &mut Outgoing,
    );

    /// The first bit of the frame that was sent with `tag` went out at `at`;
    /// `None` when it was dropped and never will. Most do not ask.
    fn handle_departure(
        &mut self,
        _now: Instant<Virtual>,
        _port: usize,
        _tag: u64,
        _at: Option<Instant<Virtual>>,
        _out: &mut Outgoing,
    ) {
    }

    /// It is due.
    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing);

    /// When it is due next.
    fn next_wake(&self) -> Option<Instant<Virtual>>;
}

/// What a resident is asked about a frame by.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Who it is for on this Ethernet segment.
    pub destination: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype. Checksums may be incomplete.
    pub inner: &'a [u8],
}

/// A frame that a resident has received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame<'a> {
    /// By which port.
    pub port: usize,
    /// When its first bit came; its last one has come now.
    pub first_bit: Instant<Virtual>,
    /// Who sent it on this Ethernet segment.
    pub source: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype, complete.
    pub inner: &'a [u8],
}

/// What a resident wants sent, in order.
#[derive(Debug, Default)]
pub struct Outgoing(Vec<Request>);

#[derive(Debug)]
pub(crate) enum Request {
    Frame(usize, Vec<u8>, Option<u64>),
    Packet(Vec<u8>),
}

impl Outgoing {
    pub(crate) fn into_requests(self) -> Vec<Request> {
        self.0
    }

    /// Sends an Ethernet frame (without check sequence) out of a port. With a
    /// tag, [`Resident::handle_departure`] tells when it left. What is no frame
    /// or no port is dropped and counted.
    pub fn send(&mut self, port: usize, frame: Vec<u8>, tag: Option<u64>) {
        self.0.push(Request::Frame(port, frame, tag));
    }

    /// Sends an IP packet from a host, which finds the way and asks for the
    /// next MAC address as it does for its own packets. What is no packet, or
    /// comes from a switch, is dropped and counted.
    pub fn send_packet(&mut self, packet: Vec<u8>) {
        self.0.push(Request::Packet(packet));
    }
}

/// All residents of a world.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    list: Vec<Residence>,
    /// Index into the list by node, [`NIL`] without one; empty while there is none.
    by_node: Vec<u32>,
    /// Departures that somebody waits for, by their number modulo the length.
    departures: Vec<Option<Departure>>,
    next_departure: u32,
}

/// A resident and where it lives.
#[derive(Debug)]
struct Residence {
    node: u32,
    ports: Vec<PortId>,
    /// Absent while it acts.
    resident: Option<Box<dyn Resident>>,
    /// The earliest appointment made; later ones are made when it is kept.
    appointment: Instant<Virtual>,
}

/// The departure of a frame that a resident wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    number: u32,
    /// The number of the resident.
    pub(crate) resident: u32,
    pub(crate) port: usize,
    pub(crate) tag: u64,
}

/// Frames whose departure is waited for at once, in the whole world. Who waits
/// longer than it takes to send as many more is told that the frame was lost:
/// some queues drop without a word.
const MOST_DEPARTURES: usize = 1 << 14;

impl Residents {
    /// Lets a resident live at one of so many nodes, in the place of another if there is one.
    pub(crate) fn attach(
        &mut self,
        node: u32,
        nodes: usize,
        ports: Vec<PortId>,
        resident: Box<dyn Resident>,
    ) {
        self.by_node.resize(nodes, NIL);
        let residence = Residence {
            node,
            ports,
            resident: Some(resident),
            appointment: Instant::FAR_FUTURE,
        };
        match self.by_node[node as usize] {
            NIL => {
                self.by_node[node as usize] = self.list.len() as u32;
                self.list.push(residence);
            }
            there => self.list[there as usize] = residence,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.list.len() as u32
    }

    /// The number of the resident at a node.
    #[inline]
    pub(crate) fn at(&self, node: u32) -> Option<u32> {
        let number = *self.by_node.get(node as usize)?;
        (number != NIL).then_some(number)
    }

    pub(crate) fn node_of(&self, number: u32) -> u32 {
        self.list[number as usize].node
    }

    /// The ports at which a resident hears and speaks.
    #[inline]
    pub(crate) fn ports_of(&self, number: u32) -> &[PortId] {
        &self.list[number as usize].ports
    }

    /// A resident; `None` while it acts.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&dyn Resident> {
        self.list[number as usize].resident.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut dyn Resident> {
        self.list[number as usize].resident.as_deref_mut()
    }

    /// Takes a resident out, to let it act; `None` when it acts already.
    pub(crate) fn take(&mut self, number: u32) -> Option<Box<dyn Resident>> {
        self.list[number as usize].resident.take()
    }

    /// A resident has acted.
    pub(crate) fn put_back(&mut self, number: u32, resident: Box<dyn Resident>) {
        self.list[number as usize].resident = Some(resident);
    }

    /// When a resident has to be woken for which no appointment has been made yet; the caller makes
    /// it.
    pub(crate) fn appoint(
        &mut self,
        number: u32,
        now: Instant<Virtual>,
    ) -> Option<Instant<Virtual>> {
        let residence = &mut self.list[number as usize];
        let due = residence.resident.as_ref()?.next_wake()?.max(now);
        let earlier = due < residence.appointment;
        if earlier {
            residence.appointment = due;
        }
        earlier.then_some(due)
    }

    /// Whether the appointment at `now` still holds; there is none after this.
    pub(crate) fn keep_appointment(&mut self, number: u32, now: Instant<Virtual>) -> bool {
        let residence = self.list.get_mut(number as usize);
        let Some(residence) = residence.filter(|residence| residence.appointment == now) else {
            return false;
        };
        residence.appointment = Instant::FAR_FUTURE;
        true
    }

    /// Numbers a departure that a resident waits for; gives back as well one that has been waited for
    /// too long, and is forgotten.
    pub(crate) fn expect_departure(
        &mut self,
        resident: u32,
        port: usize,
        tag: u64,
    ) -> (u32, Option<Departure>) {
        let number = self.next_departure;
        self.next_departure = (number + 1) & Token::INDEX;
        self.departures.resize(MOST_DEPARTURES, None);
        let old = self.departures[number as usize % MOST_DEPARTURES].replace(Departure {
            number,
            resident,
            port,
            tag,
        });
        (number, old)
    }

    /// The departure with this number, which is waited for no longer; `None` when it was forgotten.
    pub(crate) fn take_departure(&mut self, number: u32) -> Option<Departure> {
        let index = number as usize % MOST_DEPARTURES;
        let departure = self.departures.get_mut(index)?;
        departure.take_if(|departure| departure.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants nothing, and is due when it was made to be.
    #[derive(Debug)]
    struct Sleeper(Option<Instant<Virtual>>);

    impl Resident for Sleeper {
        fn wants(&self, _: &FrameView<'_>) -> bool {
            false
        }
        fn handle_frame(&mut self, _: Instant<Virtual>, _: &ReceivedFrame<'_>, _: &mut Outgoing) {}
        fn handle_wake(&mut self, _: Instant<Virtual>, _: &mut Outgoing) {
            self.0 = None;
        }
        fn next_wake(&self) -> Option<Instant<Virtual>> {
            self.0
        }
    }

    fn with_one(due_ns: i64) -> Residents {
        let mut residents = Residents::default();
        let sleeper = Sleeper(Some(Instant::from_ns(due_ns)));
        residents.attach(2, 4, vec![PortId(6)], Box::new(sleeper));
        residents
    }

    #[test]
    fn one_resident_lives_at_a_node() {
        let mut residents = with_one(5);
        assert_eq!(
            (residents.at(2), residents.at(1), residents.at(9)),
            (Some(0), None, None)
        );
        residents.attach(2, 4, vec![PortId(8)], Box::new(Sleeper(None)));
        assert_eq!(
            (residents.len(), residents.ports_of(0)),
            (1, &[PortId(8)][..])
        );
        let taken = residents.take(0).unwrap();
        assert!(residents.get(0).is_none() && residents.take(0).is_none());
        residents.put_back(0, taken);
        assert!(residents.get(0).is_some());
    }

    #[test]
    fn an_appointment_is_made_once_and_kept_once() {
        let mut residents = with_one(5);
        let [now, due] = [3, 5].map(Instant::from_ns);
        assert_eq!(residents.appoint(0, now), Some(due));
        assert_eq!(residents.appoint(0, now), None, "it has been made");
        assert!(!residents.keep_appointment(0, now));
        assert!(residents.keep_appointment(0, due));
        assert!(!residents.keep_appointment(0, due));
        assert_eq!(
            residents.appoint(0, Instant::from_ns(9)),
            Some(Instant::from_ns(9)),
            "overdue"
        );
    }

    #[test]
    fn a_departure_is_told_once_and_forgotten_when_too_many_wait() {
        let mut residents = with_one(5);
        let (number, old) = residents.expect_departure(0, 1, 77);
        assert_eq!(old, None);
        let departure = residents.take_departure(number).unwrap();
        assert_eq!(
            (departure.resident, departure.port, departure.tag),
            (0, 1, 77)
        );
        assert_eq!(residents.take_departure(number), None);

        let (first, _) = residents.expect_departure(0, 1, 78);
        let forgotten = (0..MOST_DEPARTURES as u64)
            .filter_map(|tag| residents.expect_departure(0, 1, tag).1)
            .map(|departure| departure.tag);
        assert!(forgotten.eq([78]));
        assert_eq!(residents.take_departure(first), None);
    }
}
