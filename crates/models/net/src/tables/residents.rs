//! Residents of nodes, and their pending events.

use core::any::Any;
use core::fmt;

use timeloom_time::convert::number_of;
use timeloom_time::{Instant, Virtual};

use crate::ids::Token;
use crate::packet::{NIL, PortId};

/// State machine at a node. Ports are counted from 0, in the order of the node's cables.
pub trait Resident: Any + fmt::Debug + Send {
    /// Returns true if the resident takes this frame. It is called for every frame of a real
    /// program that passes the node, so it should be cheap.
    fn wants(&self, frame: &FrameView<'_>) -> bool;

    /// Handles a frame that the resident has taken. The node does not forward the frame.
    fn handle_frame(
        &mut self,
        now: Instant<Virtual>,
        frame: &ReceivedFrame<'_>,
        out: &mut Outgoing,
    );

    /// Reports that the first bit of the frame with this `tag` left at `at`; `None` if the frame
    /// was dropped. The default implementation ignores the report.
    fn handle_departure(
        &mut self,
        _now: Instant<Virtual>,
        _port: usize,
        _tag: u64,
        _at: Option<Instant<Virtual>>,
        _out: &mut Outgoing,
    ) {
    }

    /// Handles the expiry of the resident's timer.
    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing);

    /// Returns the instant of the resident's next timer; `None` if no timer is set.
    fn next_wake(&self) -> Option<Instant<Virtual>>;
}

/// Fields of a frame by which a resident decides whether it takes the frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Destination MAC address on the present Ethernet segment.
    pub destination: [u8; 6],
    /// Ethertype; 0x8100 if a tag follows.
    pub ethertype: u16,
    /// Bytes after the Ethertype. Checksums may be incomplete.
    pub inner: &'a [u8],
}

/// Frame that a resident has received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame<'a> {
    /// Port at which the frame arrived.
    pub port: usize,
    /// Instant at which the first bit arrived; the last bit arrives now.
    pub first_bit: Instant<Virtual>,
    /// Source MAC address on the present Ethernet segment.
    pub source: [u8; 6],
    /// Ethertype; 0x8100 if a tag follows.
    pub ethertype: u16,
    /// Bytes after the Ethertype, with complete checksums.
    pub inner: &'a [u8],
}

/// Frames and packets that a resident sends, in order.
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

    /// Sends an Ethernet frame (without its check sequence) out of a port. If there is a tag,
    /// [`Resident::handle_departure`] reports the departure. An invalid frame or port is dropped
    /// and counted.
    pub fn send(&mut self, port: usize, frame: Vec<u8>, tag: Option<u64>) {
        self.0.push(Request::Frame(port, frame, tag));
    }

    /// Sends an IP packet from a host. The host routes the packet and resolves the MAC address, as
    /// for its own packets. An invalid packet, and a packet at a switch, is dropped and counted.
    pub fn send_packet(&mut self, packet: Vec<u8>) {
        self.0.push(Request::Packet(packet));
    }
}

/// All residents of a world.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    list: Vec<Residence>,
    /// Index into the list by node; [`NIL`] for nodes without a resident. Empty if there is none.
    by_node: Vec<u32>,
    /// Departures that must be reported; the index is the departure's number modulo the length.
    departures: Vec<Option<Departure>>,
    next_departure: u32,
}

/// A resident with its node and ports.
#[derive(Debug)]
struct Residence {
    node: u32,
    ports: Vec<PortId>,
    /// The resident; `None` while it runs.
    resident: Option<Box<dyn Resident>>,
    /// Earliest scheduled wake-up. A later one is scheduled when it occurs.
    appointment: Instant<Virtual>,
}

/// Departure of a frame that must be reported to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    number: u32,
    pub(crate) sender: Sender,
    pub(crate) tag: u64,
}

/// Sender of a frame whose departure must be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Resident with this number, by its port with this index.
    Resident(u32, usize),
    /// Real program behind the host that is the node with this number.
    Outside(u32),
}

/// Maximum number of departures that wait to be reported, in the whole world. If a frame has not
/// departed by the time as many later frames were sent, its departure is reported as lost, since
/// some queues drop frames without a report.
const MOST_DEPARTURES: usize = 1 << 14;

impl Residents {
    /// Places a resident at `node` and replaces its resident, if any; `nodes` is the number of
    /// nodes.
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
                self.by_node[node as usize] = number_of(self.list.len());
                self.list.push(residence);
            }
            there => self.list[there as usize] = residence,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        number_of(self.list.len())
    }

    /// Returns the number of the resident at a node; `None` without one.
    #[inline]
    pub(crate) fn at(&self, node: u32) -> Option<u32> {
        let number = *self.by_node.get(node as usize)?;
        (number != NIL).then_some(number)
    }

    pub(crate) fn node_of(&self, number: u32) -> u32 {
        self.list[number as usize].node
    }

    /// Returns the ports of a resident's node.
    #[inline]
    pub(crate) fn ports_of(&self, number: u32) -> &[PortId] {
        &self.list[number as usize].ports
    }

    /// Returns a resident; `None` while it runs.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&dyn Resident> {
        self.list[number as usize].resident.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut dyn Resident> {
        self.list[number as usize].resident.as_deref_mut()
    }

    /// Takes a resident out so that it can run; `None` if it is already running.
    pub(crate) fn take(&mut self, number: u32) -> Option<Box<dyn Resident>> {
        self.list[number as usize].resident.take()
    }

    /// Puts a resident back after it has run.
    pub(crate) fn put_back(&mut self, number: u32, resident: Box<dyn Resident>) {
        self.list[number as usize].resident = Some(resident);
    }

    /// Returns the instant for which the caller must schedule a wake-up of a resident; `None` if an
    /// early enough one is already scheduled.
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

    /// Returns true if the wake-up at `now` is the one that was scheduled last, and clears it.
    pub(crate) fn keep_appointment(&mut self, number: u32, now: Instant<Virtual>) -> bool {
        let residence = self.list.get_mut(number as usize);
        let Some(residence) = residence.filter(|residence| residence.appointment == now) else {
            return false;
        };
        residence.appointment = Instant::FAR_FUTURE;
        true
    }

    /// Assigns a number to a departure that must be reported. Also returns the departure that it
    /// replaces, which has waited for too long.
    pub(crate) fn expect_departure(
        &mut self,
        sender: Sender,
        tag: u64,
    ) -> (u32, Option<Departure>) {
        let number = self.next_departure;
        self.next_departure = (number + 1) & Token::INDEX;
        self.departures.resize(MOST_DEPARTURES, None);
        let old = self.departures[number as usize % MOST_DEPARTURES].replace(Departure {
            number,
            sender,
            tag,
        });
        (number, old)
    }

    /// Removes and returns the departure with this number; `None` if it was replaced.
    pub(crate) fn take_departure(&mut self, number: u32) -> Option<Departure> {
        let index = number as usize % MOST_DEPARTURES;
        let departure = self.departures.get_mut(index)?;
        departure.take_if(|departure| departure.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident that takes no frames and whose timer is at the given instant.
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
        let (number, old) = residents.expect_departure(Sender::Resident(0, 1), 77);
        assert_eq!(old, None);
        let departure = residents.take_departure(number).unwrap();
        assert_eq!(
            (departure.sender, departure.tag),
            (Sender::Resident(0, 1), 77)
        );
        assert_eq!(residents.take_departure(number), None);

        let (first, _) = residents.expect_departure(Sender::Resident(0, 1), 78);
        let forgotten = (0..MOST_DEPARTURES as u64)
            .filter_map(|tag| residents.expect_departure(Sender::Outside(2), tag).1)
            .map(|departure| departure.tag);
        assert!(forgotten.eq([78]));
        assert_eq!(residents.take_departure(first), None);
    }
}
