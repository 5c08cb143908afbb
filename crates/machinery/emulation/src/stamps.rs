//! Stamps of a network card: the instants of the model at which frames passed a portal's host.
//!
//! A program receives a frame, or a copy of a frame that it has sent, from the kernel, and asks for
//! the instant at which the frame passed the card. [`StampLog`] finds it by two marks of the frame:
//!
//! - The kernel stamps an arriving frame by the machine's clock while the portal writes the frame.
//!   The log has the beginning and the end of each write, and these do not overlap, so the kernel's
//!   stamp names the frame. Its bytes are compared, too: a frame of another interface may have been
//!   stamped meanwhile.
//! - The copy of a sent frame has the same bytes as the frame that the portal reads soon after.
//!   Frames with equal bytes are assigned in order.
//!
//! Neither the machine's load nor the machine's clock affects the answer, which is an instant of
//! the model.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_sys::stamps::of_arrivals;
use timeloom_time::{Instant, Virtual};

/// Log of the frames that passed the network card of one host.
#[derive(Debug)]
pub struct StampLog {
    /// True while a program wants stamps.
    stamps: AtomicBool,
    frames: Mutex<Frames>,
    /// Socket that makes the kernel stamp all arriving frames. The kernel begins to do so some time
    /// after the first request.
    _stamped: UdpSocket,
}

#[derive(Debug, Default)]
struct Frames {
    received: VecDeque<Received>,
    sent: VecDeque<Sent>,
    next_tag: u64,
    /// The machine's CLOCK_REALTIME, in nanoseconds, when no frame was left to be read.
    drained_ns: i64,
    /// True if the network has ended.
    ended: bool,
}

impl Frames {
    /// Returns true if a frame that the kernel stamped with `kernel_ns` was dropped: all frames were
    /// read since, and it was not among them.
    fn have_lost(&self, kernel_ns: i64) -> bool {
        let deadline_ns = kernel_ns.saturating_add(LOST_NS);
        self.drained_ns > kernel_ns && read_ns(ClockId::Realtime) > deadline_ns
    }
}

/// Frame that was delivered to the host.
#[derive(Debug)]
struct Received {
    /// The machine's CLOCK_REALTIME, in nanoseconds, before and after the delivery.
    while_ns: [i64; 2],
    at: Instant<Virtual>,
    head: Head,
}

/// Frame that was read from the host.
#[derive(Debug)]
struct Sent {
    tag: u64,
    /// The machine's CLOCK_REALTIME, in nanoseconds, after the frame was read.
    read_ns: i64,
    departure: FrameDeparture,
    head: Head,
}

/// State of a sent frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDeparture {
    /// The frame waits in the host, or was not read from it yet.
    Pending,
    /// The first bit of the frame left at this instant.
    At(Instant<Virtual>),
    /// The frame was dropped, or has no stamp.
    None,
}

/// First bytes of a frame.
#[derive(Debug)]
struct Head {
    bytes: [u8; HEAD_BYTES],
    length: usize,
}

impl Head {
    fn of(head: &[u8], rest: &[u8]) -> Self {
        let mut bytes = [0; HEAD_BYTES];
        let mut length = 0;
        for (into, byte) in bytes.iter_mut().zip(head.iter().chain(rest)) {
            *into = *byte;
            length += 1;
        }
        Self { bytes, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns true if `data`, which may be longer, begins like this frame. Shorter data must be
    /// long enough: a few bytes could be of another frame.
    fn begins(&self, data: &[u8]) -> bool {
        let common = self.length.min(data.len());
        let is_enough = common == self.length || common >= LEAST_BYTES;
        is_enough && self.bytes()[..common] == data[..common]
    }

    /// Returns true if the frame contains the beginning of `data`, after any headers.
    fn contains(&self, data: &[u8]) -> bool {
        let bytes = self.bytes();
        (0..=bytes.len()).any(|from| {
            let common = (bytes.len() - from).min(data.len());
            (common == data.len() || common >= ENOUGH_BYTES)
                && bytes[from..from + common] == data[..common]
        })
    }
}

impl StampLog {
    /// Creates the log of a card that does not stamp yet.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub fn new() -> io::Result<Self> {
        let stamped = UdpSocket::bind("127.0.0.1:0")?;
        of_arrivals(&stamped)?;
        Ok(Self {
            stamps: AtomicBool::new(false),
            frames: Mutex::default(),
            _stamped: stamped,
        })
    }

    /// Starts or ends the stamping of frames.
    pub fn set_stamping(&self, on: bool) {
        self.stamps.store(on, Ordering::SeqCst);
    }

    /// Delivers a frame that arrived at `at` by `deliver`.
    pub(crate) fn deliver<T>(
        &self,
        at: Instant<Virtual>,
        [head, rest]: [&[u8]; 2],
        deliver: impl FnOnce() -> T,
    ) -> T {
        if !self.stamps.load(Ordering::SeqCst) {
            return deliver();
        }
        // A program that receives the frame asks only once it is in the log.
        let mut frames = self.frames.lock();
        let before_ns = read_ns(ClockId::Realtime);
        let delivered = deliver();
        let while_ns = [before_ns, read_ns(ClockId::Realtime)];
        push(
            &mut frames.received,
            Received {
                while_ns,
                at,
                head: Head::of(head, rest),
            },
        );
        delivered
    }

    /// Records a frame that was read from the host. Returns the tag under which its departure is
    /// to be reported; `None` if the card does not stamp.
    pub(crate) fn note_read(&self, frame: &[u8]) -> Option<u64> {
        if !self.stamps.load(Ordering::SeqCst) {
            return None;
        }
        let mut frames = self.frames.lock();
        let tag = frames.next_tag;
        frames.next_tag += 1;
        let sent = Sent {
            tag,
            read_ns: read_ns(ClockId::Realtime),
            departure: FrameDeparture::Pending,
            head: Head::of(frame, &[]),
        };
        push(&mut frames.sent, sent);
        Some(tag)
    }

    /// Records that the first bit of the frame with this tag has left at `at`; `None` if the frame
    /// was dropped.
    pub(crate) fn note_departure(&self, tag: u64, at: Option<Instant<Virtual>>) {
        let mut frames = self.frames.lock();
        if let Some(sent) = frames.sent.iter_mut().rev().find(|sent| sent.tag == tag) {
            sent.departure = at.map_or(FrameDeparture::None, FrameDeparture::At);
        }
    }

    /// Records that all frames which the host has sent were read.
    pub(crate) fn note_drained(&self) {
        if self.stamps.load(Ordering::SeqCst) {
            let now_ns = read_ns(ClockId::Realtime);
            self.frames.lock().drained_ns = now_ns;
        }
    }

    /// Records that the network has ended, so that no further frame departs.
    pub(crate) fn end(&self) {
        self.frames.lock().ended = true;
    }

    /// Returns true if no further frame is recorded.
    fn has_ended(&self, frames: &Frames) -> bool {
        frames.ended || !self.stamps.load(Ordering::SeqCst)
    }

    /// Returns the instant at which a frame arrived that the kernel stamped with `kernel_ns` of the
    /// machine's CLOCK_REALTIME, and of which a program received `data`. Returns `None` if the card
    /// did not stamp it.
    pub fn arrival(&self, kernel_ns: i64, data: &[u8]) -> Option<Instant<Virtual>> {
        let frames = self.frames.lock();
        let around = |received: &&Received| {
            let [before_ns, after_ns] = received.while_ns;
            (before_ns..=after_ns).contains(&kernel_ns) && received.head.contains(data)
        };
        frames.received.iter().rev().find(around).map(|it| it.at)
    }

    /// Returns the instant at which the first bit of a frame left the host. `data` is the beginning
    /// of the frame, and `kernel_ns` the kernel's stamp of its transmission. The result is
    /// [`FrameDeparture::Pending`] while the frame has not left. Does not wait.
    pub fn departure(&self, kernel_ns: i64, data: &[u8]) -> FrameDeparture {
        if data.is_empty() {
            return FrameDeparture::None;
        }
        let mut frames = self.frames.lock();
        let is_it = |sent: &Sent| sent.read_ns >= kernel_ns && sent.head.begins(data);
        let Some(place) = frames.sent.iter().position(is_it) else {
            let is_gone = frames.have_lost(kernel_ns) || self.has_ended(&frames);
            return match is_gone {
                true => FrameDeparture::None,
                false => FrameDeparture::Pending,
            };
        };
        let departure = frames.sent[place].departure;
        match departure {
            FrameDeparture::Pending if self.has_ended(&frames) => FrameDeparture::None,
            FrameDeparture::Pending => FrameDeparture::Pending,
            _ => {
                frames.sent.remove(place);
                departure
            }
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, frame: T) {
    if list.len() == MOST_FRAMES {
        list.pop_front();
    }
    list.push_back(frame);
}

/// Number of bytes by which frames are told apart. The messages of PTP and NTP are shorter, with
/// all headers.
const HEAD_BYTES: usize = 160;
/// Number of bytes that must agree if the log has only the beginning of the data.
const ENOUGH_BYTES: usize = 32;
/// Number of bytes by which a sent frame is found at least, unless it is shorter. ptp4l reads as many
/// bytes of the frame as its message has, and the shortest has 44.
const LEAST_BYTES: usize = 44;
/// Number of frames that are kept in each direction. Programs read stamps soon after the frames.
const MOST_FRAMES: usize = 4_096;
/// Time by which the kernel may queue a frame later than it stamps it, in nanoseconds. Undisturbed,
/// it does so at once.
const LOST_NS: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> StampLog {
        let log = StampLog::new().expect("a socket");
        log.set_stamping(true);
        log
    }

    fn at(ns: i64) -> Option<Instant<Virtual>> {
        Some(Instant::from_ns(ns))
    }

    #[test]
    fn an_arrival_is_found_by_the_kernels_stamp_and_the_bytes() {
        let log = log();
        let deliver = |ns: i64, frame: &[u8]| {
            log.deliver(Instant::from_ns(ns), [frame, &[]], || {
                read_ns(ClockId::Realtime)
            })
        };
        let first_ns = deliver(5, b"headers, then equal data");
        let second_ns = deliver(9, b"headers, then equal data");
        assert!(second_ns > first_ns);
        assert_eq!(log.arrival(first_ns, b"equal data"), at(5));
        assert_eq!(log.arrival(second_ns, b"equal data"), at(9));
        assert_eq!(
            log.arrival(second_ns, b"other data"),
            None,
            "of another interface"
        );
        assert_eq!(log.arrival(first_ns - 1_000_000_000, b"equal data"), None);
    }

    #[test]
    fn frames_with_equal_bytes_depart_in_order_and_dropped_ones_have_no_stamp() {
        let log = log();
        let before_ns = read_ns(ClockId::Realtime);
        let tags = [0; 3].map(|_| log.note_read(b"the same").expect("it stamps"));
        log.note_departure(tags[1], at(20));
        log.note_departure(tags[0], at(10));
        log.note_departure(tags[2], None);
        let departure = || log.departure(before_ns, b"the same and more");
        let left_at = |ns: i64| FrameDeparture::At(Instant::from_ns(ns));
        assert_eq!(log.departure(before_ns, b"the sa"), FrameDeparture::Pending);
        assert_eq!(
            [departure(), departure(), departure()],
            [left_at(10), left_at(20), FrameDeparture::None]
        );
    }

    #[test]
    fn a_departure_is_pending_until_the_frame_has_left_or_is_lost() {
        let log = log();
        let now_ns = read_ns(ClockId::Realtime);
        let tag = log.note_read(b"slow").expect("it stamps");
        assert_eq!(log.departure(now_ns, b"slow"), FrameDeparture::Pending);
        log.note_departure(tag, at(7));
        let left_at = FrameDeparture::At(Instant::from_ns(7));
        assert_eq!(log.departure(now_ns, b"slow"), left_at);
        assert_eq!(log.departure(now_ns, b"slow"), FrameDeparture::Pending);
        log.note_drained();
        let long_ago_ns = now_ns - 2 * LOST_NS;
        assert_eq!(log.departure(long_ago_ns, b"lost"), FrameDeparture::None);
        log.note_read(b"waits").expect("it stamps");
        log.end();
        assert_eq!(log.departure(now_ns, b"waits"), FrameDeparture::None);
        assert_eq!(log.departure(now_ns, b"never sent"), FrameDeparture::None);
    }

    #[test]
    fn a_card_that_does_not_stamp_keeps_no_frames() {
        let log = log();
        log.set_stamping(false);
        assert_eq!(log.note_read(b"frame"), None);
        log.deliver(Instant::ZERO, [b"frame", b""], || ());
        assert!(log.frames.lock().received.is_empty());
    }
}
