//! Level of a wired line, derived from the edges and the readings of its two inputs.
//!
//! This is a state machine without pins and threads. The first edge of a change counts at once,
//! with its kernel timestamp. Edges within the debounce time after it are bounce; a reading after
//! that time, or the next edge, determines the resulting level. The kernel's own software
//! debouncing is not used: it rounds 20 µs up to a tick of its timer, and timestamps the end of the
//! debounce time.
//!
//! Edges and readings check each other: the kernel numbers the edges, rising and falling edges
//! alternate, and a reading must equal the level after the last edge.

use std::collections::VecDeque;
use std::fmt;

use timeloom_time::{Duration, Instant, Wall};

/// Tolerances with which a line is checked.
#[derive(Clone, Copy, Debug)]
pub struct LineSettings {
    /// Time after an edge during which further edges are bounce.
    pub debounce: Duration,
    /// Time for which the level may differ from the reports of the machines that drive the line. It
    /// may differ from the edges for a tenth of that time.
    pub stuck: Duration,
}

impl LineSettings {
    /// Returns the time after which a reading that differs from the edges counts. Threads of the
    /// kernel deliver the edges, and may have to wait for a processor.
    const fn certain(&self) -> Duration {
        Duration::from_ns(self.stuck.as_ns() / 10)
    }
}

impl Default for LineSettings {
    /// Returns the paper's 20 µs of debouncing, and 1 s.
    fn default() -> Self {
        Self {
            debounce: Duration::from_us(20),
            stuck: Duration::from_s(1),
        }
    }
}

/// Edge of an input, with the kernel's timestamp and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// True for an edge of the input for rising edges, false for one of the input for falling
    /// edges.
    pub rising: bool,
    /// Kernel's timestamp of the edge.
    pub at: Instant<Wall>,
    /// Kernel's number of the edge on this input.
    pub number: u32,
}

/// Readings of the two inputs. Both inputs are on the same line, so the readings should be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// Reading of the input for rising edges.
    pub rising: bool,
    /// Reading of the input for falling edges.
    pub falling: bool,
}

/// Event that a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEvent {
    /// The line is high since this instant.
    Rose(Instant<Wall>),
    /// The line is low since this instant.
    Fell(Instant<Wall>),
    /// The line has a fault.
    Fault(LineFault),
    /// A [lasting](LineFault::lasts) fault is over.
    Sound,
}

/// Fault of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineFault {
    /// The line has changed to this level, but no edge was delivered.
    Missed {
        /// True if the new level is high.
        high: bool,
    },
    /// An edge was delivered to the level that the line already had. Either it was delivered twice,
    /// or the edge before it was missed.
    Doubled {
        /// True if the edge is a rising one.
        rising: bool,
    },
    /// This many edges were dropped before they were read, according to their numbers.
    Dropped(u32),
    /// The line was driven for a pause, but no edge was delivered here.
    Unheard,
    /// The two inputs have different readings.
    Differ(Levels),
    /// The line is high, but no machine reports that it drives the line.
    StuckHigh,
    /// The line is low, but a machine reports that it drives the line.
    StuckLow,
}

impl LineFault {
    /// Returns true if the level of the line is meaningless until [`LineEvent::Sound`] is reported.
    pub const fn lasts(self) -> bool {
        matches!(self, Self::Differ(_) | Self::StuckHigh | Self::StuckLow)
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |high: bool| if high { "high" } else { "low" };
        match *self {
            Self::Missed { high } => {
                write!(f, "the line is {}, but no edge was reported", level(high))
            }
            Self::Doubled { rising } => {
                let (this, other) = match rising {
                    true => ("rising", "falling"),
                    false => ("falling", "rising"),
                };
                write!(f, "two {this} edges without a {other} one between")
            }
            Self::Dropped(edges) => write!(f, "{edges} edges came faster than they were read"),
            Self::Unheard => f.write_str("it was driven for a pause, but no edge arrived"),
            Self::Differ(levels) => write!(
                f,
                "the input for rising edges reads {}, that for falling edges {}",
                level(levels.rising),
                level(levels.falling)
            ),
            Self::StuckHigh => f.write_str("the line is high, and no machine drives it"),
            Self::StuckLow => f.write_str("the line is driven, and stays low"),
        }
    }
}

/// State of a wired line as seen by one machine.
#[derive(Clone, Debug)]
pub struct LineState {
    settings: LineSettings,
    high: bool,
    /// End of the present debounce time.
    quiet_until: Instant<Wall>,
    /// Last edge that was ignored as bounce. If a later reading or the next edge shows that the
    /// level did change, this edge gives the time of the change.
    bounced: Option<Edge>,
    /// Kernel's number of the last falling and of the last rising edge.
    numbers: [Option<u32>; 2],
    /// Reading that no edge explains, with the time of the first such reading.
    doubt: Option<(Levels, Instant<Wall>)>,
    /// True while this machine drives the line.
    drives: bool,
    /// True if another machine reports that it drives the line; `None` without a network.
    others: Option<bool>,
    /// Time since which the measured level has differed from the driven level.
    odd_since: Option<Instant<Wall>>,
    /// Lasting fault at present, if there is one.
    fault: Option<LineFault>,
    /// Number of rising edges that were not yet matched with a pause.
    edges: u32,
    rose: Instant<Wall>,
    /// True if a pause has ended and was not checked yet.
    ended: bool,
    /// Number of pauses for which the line was driven.
    owed: u32,
    next_look: Instant<Wall>,
    events: VecDeque<LineEvent>,
}

impl LineState {
    /// Creates a line with these readings of its inputs, before any edge.
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

    /// Returns the next event to report; `None` if there is none.
    pub fn poll_event(&mut self) -> Option<LineEvent> {
        self.events.pop_front()
    }

    /// Returns the time at which the next [reading](Self::look) is due.
    pub fn next_wake(&self) -> Instant<Wall> {
        self.next_look
    }

    /// Returns true if the line is high according to the edges and readings until now.
    pub fn is_high(&self) -> bool {
        self.high
    }

    /// Records that this machine drives the line from now on, or does so no longer.
    pub fn drive(&mut self, high: bool, now: Instant<Wall>) {
        self.drives = high;
        self.odd_since = None;
        self.next_look = self.next_look.min(now + LOOK_EVERY);
    }

    /// Records whether any other machine reports that it drives the line.
    pub fn others_drive(&mut self, drive: bool) {
        self.others = Some(drive);
    }

    /// Records the end of a pause. If the line was driven for that pause, this machine should have
    /// seen it rise.
    pub fn pause_ended(&mut self, was_driven: bool) {
        self.ended = true;
        self.owed += u32::from(was_driven);
    }

    /// Processes an edge. Edges must be passed in the order in which the kernel delivers them.
    pub fn edge(&mut self, edge: Edge) {
        let last = &mut self.numbers[usize::from(edge.rising)];
        let expected = last.map_or(edge.number, |last| last.wrapping_add(1));
        let dropped = edge.number.wrapping_sub(expected);
        *last = Some(edge.number);
        if dropped > 0 {
            self.events
                .push_back(LineEvent::Fault(LineFault::Dropped(dropped)));
        }
        self.doubt = None;
        if edge.at < self.quiet_until {
            self.bounced = Some(edge);
            // An edge may be delivered after the debounce time, and after the reading at its end.
            self.next_look = self.next_look.min(self.quiet_until);
            return;
        }
        // The line was not read since the end of the debounce time. Its level then is that of the
        // last edge.
        if let Some(last) = self.bounced.take()
            && last.rising != self.high
        {
            self.becomes(last.rising, last.at);
        }
        if edge.rising == self.high {
            let rising = edge.rising;
            self.events
                .push_back(LineEvent::Fault(LineFault::Doubled { rising }));
            return;
        }
        self.becomes(edge.rising, edge.at);
        self.quiet_until = edge.at + self.settings.debounce;
        self.next_look = self.next_look.min(self.quiet_until);
    }

    /// Processes a reading of the inputs. All edges that were delivered before the reading must
    /// have been processed.
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
                self.events.push_back(LineEvent::Fault(LineFault::Unheard));
            }
            // The remaining rises may belong to pauses that have begun since: the next one, and the
            // one after it, whose requester learned of the end earlier. Other rises mean nothing,
            // since holds that overlap make a single pause of several rises.
            let left = self.edges.saturating_sub(owed).min(2);
            self.edges = if now - self.rose < RECENT { left } else { 0 };
        }
        self.check(levels, now);
    }

    /// Adopts a reading as the level when it is certain that no edge will explain it.
    fn explain(&mut self, levels: Levels, now: Instant<Wall>) {
        let agree = levels.rising == levels.falling;
        if agree && levels.rising == self.high {
            self.doubt = None;
            self.bounced = None;
            return;
        }
        if agree && let Some(last) = self.bounced.take() {
            // This was a short pulse: the level changed and changed back within the debounce time.
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
            .push_back(LineEvent::Fault(LineFault::Missed { high }));
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

    /// Detects the beginning and the end of lasting faults.
    fn check(&mut self, levels: Levels, now: Instant<Wall>) {
        let driven = match (self.drives, self.others) {
            (true, _) => Some(true),
            (false, others) => others,
        };
        let odd = if levels.rising != levels.falling {
            let differ_since = self.doubt.map_or(now, |(_, since)| since);
            (now - differ_since >= self.settings.certain())
                .then_some((LineFault::Differ(levels), true))
        } else {
            match (driven, levels.rising) {
                (Some(false), true) => Some((LineFault::StuckHigh, false)),
                (Some(true), false) => Some((LineFault::StuckLow, false)),
                _ => None,
            }
        };
        let Some((fault, at_once)) = odd else {
            self.odd_since = None;
            // If a machine drives the line now, it still cannot release a line that is stuck.
            if self.fault == Some(LineFault::StuckHigh) && levels.rising {
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

/// Interval between readings when there are no edges.
const LOOK_EVERY: Duration = Duration::from_ms(10);

/// Age up to which a rise may belong to a pause whose end was not reported yet. A busy machine
/// learns late of the end of a pause.
const RECENT: Duration = Duration::from_s(2);
