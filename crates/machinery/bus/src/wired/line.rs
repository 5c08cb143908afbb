//! Level of a wired line, derived from its two inputs: edges and readings.
//!
//! A state machine without pins and threads. The first edge of a change counts at once and with its
//! kernel timestamp; edges within the debounce time are bounce, and a reading afterwards, or the
//! next edge, determines the resulting level. The kernel's own debouncing in software rounds 20 µs
//! up to a tick of its timer, and timestamps the end of it.
//!
//! Edges and readings check each other: edges have the kernel's numbers, rising and falling ones
//! alternate, and a reading must equal the level after the last edge.

use std::collections::VecDeque;
use std::fmt;

use timeloom_time::{Duration, Instant, Wall};

/// Tolerances of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineSettings {
    /// Time after an edge during which further ones are bounce.
    pub debounce: Duration,
    /// Time for which the line may differ from the reports of those that drive it. It may differ
    /// from its edges for a tenth of that.
    pub stuck: Duration,
}

impl LineSettings {
    /// Returns the time after which a reading counts against the edges: edges come by threads of
    /// the kernel, which wait for a processor too.
    const fn certain(&self) -> Duration {
        Duration::from_ns(self.stuck.as_ns() / 10)
    }
}

impl Default for LineSettings {
    /// The paper's 20 µs, and 1 s.
    fn default() -> Self {
        Self {
            debounce: Duration::from_us(20),
            stuck: Duration::from_s(1),
        }
    }
}

/// Edge, as timestamped and counted by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// True for the input for rising edges, false for that for falling ones.
    pub rising: bool,
    /// Time of the edge.
    pub at: Instant<Wall>,
    /// Number of the edge on this input.
    pub number: u32,
}

/// Readings of the two inputs. They are on one line, so they should agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// Reading of the input for rising edges.
    pub rising: bool,
    /// Reading of the input for falling edges.
    pub falling: bool,
}

/// Event of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEvent {
    /// The line is high from this instant on.
    Rose(Instant<Wall>),
    /// The line is low from this instant on.
    Fell(Instant<Wall>),
    /// The line has a fault.
    Fault(Fault),
    /// A [lasting](Fault::lasts) fault is over.
    Sound,
}

/// Fault of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The line has this level without an edge to it.
    Missed {
        /// The level.
        high: bool,
    },
    /// An edge to the level that the line had: it is doubled, or the one before it was missed.
    Doubled {
        /// Direction of the edge.
        rising: bool,
    },
    /// This many edges were dropped before they were read, by their numbers.
    Dropped(u32),
    /// The line was driven for a pause, and no edge came here.
    Unheard,
    /// The two inputs read differently.
    Differ(Levels),
    /// The line is high, and no machine reports that it drives it.
    StuckHigh,
    /// The line is low, and a machine reports that it drives it.
    StuckLow,
}

impl Fault {
    /// Returns true if the level of the line is meaningless until it is [`LineEvent::Sound`] again.
    pub const fn lasts(self) -> bool {
        matches!(self, Self::Differ(_) | Self::StuckHigh | Self::StuckLow)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |high: bool| if high { "high" } else { "low" };
        match *self {
            Self::Missed { high } => {
                write!(f, "the line is {}, and no edge told so", level(high))
            }
            Self::Doubled { rising } => {
                let (this, other) = match rising {
                    true => ("rising", "falling"),
                    false => ("falling", "rising"),
                };
                write!(f, "two {this} edges without a {other} one between")
            }
            Self::Dropped(edges) => write!(f, "{edges} edges came faster than they were read"),
            Self::Unheard => f.write_str("it was driven for a pause, and no edge came here"),
            Self::Differ(levels) => write!(
                f,
                "the input for rising edges reads {}, that for falling edges {}",
                level(levels.rising),
                level(levels.falling)
            ),
            Self::StuckHigh => f.write_str("the line is high, and nobody drives it"),
            Self::StuckLow => f.write_str("the line is driven, and stays low"),
        }
    }
}

/// Wired line as seen by one machine.
#[derive(Clone, Debug)]
pub struct Line {
    settings: LineSettings,
    high: bool,
    /// End of the debounce time.
    quiet_until: Instant<Wall>,
    /// Last edge that was ignored as bounce. If a later reading or the next edge shows that the
    /// level did change, this edge gives the time of the change.
    bounced: Option<Edge>,
    /// The kernel's numbers of the last rising and falling edge.
    numbers: [Option<u32>; 2],
    /// Reading that no edge explains, and the time since when.
    doubt: Option<(Levels, Instant<Wall>)>,
    /// This machine drives it.
    drives: bool,
    /// True if another machine reports that it drives the line; unknown without a network.
    others: Option<bool>,
    /// Time since when the level differs from the driven one.
    odd_since: Option<Instant<Wall>>,
    /// Present lasting fault.
    fault: Option<Fault>,
    /// Number of rises that were not yet matched with a pause.
    edges: u32,
    rose: Instant<Wall>,
    /// Set if a pause has ended and was not yet examined, with the number of pauses for which the
    /// line was driven.
    ended: bool,
    owed: u32,
    next_look: Instant<Wall>,
    events: VecDeque<LineEvent>,
}

impl Line {
    /// Creates a line with these readings before any edge.
    pub fn new(settings: LineSettings, levels: Levels, now: Instant<Wall>) -> Self {
        let high = levels.rising;
        let mut line = Self {
            settings,
            high,
            quiet_until: now,
            bounced: None,
            numbers: [None; 2],
            doubt: None,
            drives: false,
            others: None,
            odd_since: None,
            fault: None,
            edges: 0,
            rose: now,
            ended: false,
            owed: 0,
            next_look: now + LOOK_EVERY,
            events: VecDeque::new(),
        };
        if high {
            line.events.push_back(LineEvent::Rose(now));
        }
        line
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<LineEvent> {
        self.events.pop_front()
    }

    /// Returns the time of the next [reading](Self::look).
    pub fn next_wake(&self) -> Instant<Wall> {
        self.next_look
    }

    /// Returns true if the line is high, as far as known.
    pub fn is_high(&self) -> bool {
        self.high
    }

    /// Records that this machine drives the line from now on, or no longer.
    pub fn drive(&mut self, high: bool, now: Instant<Wall>) {
        self.drives = high;
        self.odd_since = None;
        self.next_look = self.next_look.min(now + LOOK_EVERY);
    }

    /// Records whether any other machine reports that it drives the line.
    pub fn others_drive(&mut self, drive: bool) {
        self.others = Some(drive);
    }

    /// Records the end of a pause. If the line was driven for it, it rose here.
    pub fn pause_ended(&mut self, was_driven: bool) {
        self.ended = true;
        self.owed += u32::from(was_driven);
    }

    /// Processes an edge, in the order of the kernel.
    pub fn edge(&mut self, edge: Edge) {
        let last = &mut self.numbers[usize::from(edge.rising)];
        let expected = last.map_or(edge.number, |last| last.wrapping_add(1));
        let dropped = edge.number.wrapping_sub(expected);
        *last = Some(edge.number);
        if dropped > 0 {
            self.events
                .push_back(LineEvent::Fault(Fault::Dropped(dropped)));
        }
        self.doubt = None;
        if edge.at < self.quiet_until {
            self.bounced = Some(edge);
            // It may be delivered after that time, and after the reading at its end.
            self.next_look = self.next_look.min(self.quiet_until);
            return;
        }
        // The line was not read since the debounce time. Its level is that of the last edge.
        if let Some(last) = self.bounced.take()
            && last.rising != self.high
        {
            self.becomes(last.rising, last.at);
        }
        if edge.rising == self.high {
            let rising = edge.rising;
            self.events
                .push_back(LineEvent::Fault(Fault::Doubled { rising }));
            return;
        }
        self.becomes(edge.rising, edge.at);
        self.quiet_until = edge.at + self.settings.debounce;
        self.next_look = self.next_look.min(self.quiet_until);
    }

    /// Processes a reading of the inputs, taken after all edges delivered until then.
    pub fn look(&mut self, levels: Levels, now: Instant<Wall>) {
        self.next_look = now + LOOK_EVERY;
        if now < self.quiet_until {
            self.next_look = self.quiet_until;
            return;
        }
        self.explain(levels, now);
        if std::mem::take(&mut self.ended) {
            let owed = std::mem::take(&mut self.owed);
            if self.edges < owed && self.fault.is_none() {
                self.events.push_back(LineEvent::Fault(Fault::Unheard));
            }
            // The remaining rises may belong to pauses that have begun since: the next one, and the
            // one after it, whose holder learned of the end earlier. Otherwise they mean nothing,
            // since holds that overlap make one pause of several pulls.
            let left = self.edges.saturating_sub(owed).min(2);
            self.edges = if now - self.rose < RECENT { left } else { 0 };
        }
        self.check(levels, now);
    }

    /// Adopts a reading as the level once it is certain that no edge will explain it.
    fn explain(&mut self, levels: Levels, now: Instant<Wall>) {
        let agree = levels.rising == levels.falling;
        if agree && levels.rising == self.high {
            self.doubt = None;
            self.bounced = None;
            return;
        }
        if agree && let Some(last) = self.bounced.take() {
            // A short pulse: there and back within the debounce time.
            return self.becomes(levels.rising, last.at);
        }
        // An edge may have come between the last delivery and the reading.
        let since = match self.doubt {
            Some((before, since)) if before == levels => since,
            _ => now,
        };
        self.doubt = Some((levels, since));
        if now - since < self.settings.certain() || !agree {
            return;
        }
        self.doubt = None;
        let high = levels.rising;
        self.events
            .push_back(LineEvent::Fault(Fault::Missed { high }));
        self.becomes(high, now);
    }

    fn becomes(&mut self, high: bool, at: Instant<Wall>) {
        self.high = high;
        self.bounced = None;
        if high {
            self.edges += 1;
            self.rose = at;
        }
        self.events.push_back(match high {
            true => LineEvent::Rose(at),
            false => LineEvent::Fell(at),
        });
    }

    /// Detects lasting faults, and their end.
    fn check(&mut self, levels: Levels, now: Instant<Wall>) {
        let driven = match (self.drives, self.others) {
            (true, _) => Some(true),
            (false, others) => others,
        };
        let odd = if levels.rising != levels.falling {
            let differ_since = self.doubt.map_or(now, |(_, since)| since);
            (now - differ_since >= self.settings.certain()).then_some((Fault::Differ(levels), true))
        } else {
            match (driven, levels.rising) {
                (Some(false), true) => Some((Fault::StuckHigh, false)),
                (Some(true), false) => Some((Fault::StuckLow, false)),
                _ => None,
            }
        };
        let Some((fault, at_once)) = odd else {
            self.odd_since = None;
            // A machine that drives it now does not release it.
            if self.fault == Some(Fault::StuckHigh) && levels.rising {
                return;
            }
            if levels.rising == levels.falling && self.fault.take().is_some() {
                self.events.push_back(LineEvent::Sound);
            }
            return;
        };
        let since = *self.odd_since.get_or_insert(now);
        if (at_once || now - since >= self.settings.stuck) && self.fault != Some(fault) {
            self.fault = Some(fault);
            self.events.push_back(LineEvent::Fault(fault));
        }
    }
}

/// Interval of readings without an edge.
const LOOK_EVERY: Duration = Duration::from_ms(10);

/// A rise within this span of a reading may belong to a pause whose end was not reported yet: a
/// busy machine learns of it late.
const RECENT: Duration = Duration::from_s(2);
