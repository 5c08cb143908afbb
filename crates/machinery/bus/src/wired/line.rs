//! The level of a wired line, out of what its two inputs tell: edges and readings.
//!
//! A state machine without pins and threads. The first edge of a change counts at once and
//! with its kernel stamp; what follows within the debounce time is bounce, and a reading
//! afterwards, or the next edge, says where the line came to rest. The kernel's own debouncing in
//! software rounds 20 µs up to a tick of its timer, and stamps the end of it.
//!
//! Edges and readings check each other: edges have the kernel's numbers, rising and falling
//! ones take turns, and what is read must be what the last edge left behind.

use std::collections::VecDeque;
use std::fmt;

use timeloom_time::{Duration, Instant, Wall};

/// How patient a line is.
#[derive(Clone, Copy, Debug)]
pub struct LineSettings {
    /// For how long after an edge further ones are bounce.
    pub debounce: Duration,
    /// For how long the line may be other than those who drive it say. A tenth of it, other
    /// than its edges say.
    pub stuck: Duration,
}

impl LineSettings {
    /// For how long a reading must stand against the edges, to be right: edges come by
    /// threads of the kernel, which wait for a processor too.
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

/// One edge, as the kernel stamped and counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// Of the input for rising edges, or of that for falling ones.
    pub rising: bool,
    /// When.
    pub at: Instant<Wall>,
    /// Counts the edges of this input.
    pub number: u32,
}

/// What the two inputs read. They are on one line, so they should agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// The input for rising edges.
    pub rising: bool,
    /// The input for falling edges.
    pub falling: bool,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEvent {
    /// It is high from this instant on.
    Rose(Instant<Wall>),
    /// It is low from this instant on.
    Fell(Instant<Wall>),
    /// Something is wrong with it.
    Fault(Fault),
    /// A [lasting](Fault::lasts) fault is over.
    Sound,
}

/// What may be wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The line is at this level, and no edge told so.
    Missed {
        /// The level.
        high: bool,
    },
    /// An edge to the level that the line had: it is doubled, or the one before it was missed.
    Doubled {
        /// Its direction.
        rising: bool,
    },
    /// So many edges were dropped before they were read, by their numbers.
    Dropped(u32),
    /// Somebody drove the line for a pause, and no edge came here.
    Unheard,
    /// The two inputs read differently.
    Differ(Levels),
    /// It is high, and nobody says that it drives it.
    StuckHigh,
    /// It is low, and somebody says that it drives it.
    StuckLow,
}

impl Fault {
    /// Whether the level of the line says nothing until it is [`LineEvent::Sound`] again.
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

/// A wired line as one machine sees it.
#[derive(Clone, Debug)]
pub struct Line {
    settings: LineSettings,
    high: bool,
    /// Edges until then are bounce.
    quiet_until: Instant<Wall>,
    /// The last of them, which may turn out to have counted: by a reading, or by the next edge.
    bounced: Option<Edge>,
    /// The kernel's numbers of the last rising and falling edge.
    numbers: [Option<u32>; 2],
    /// A reading that no edge explains, and since when.
    doubt: Option<(Levels, Instant<Wall>)>,
    /// This machine drives it.
    drives: bool,
    /// Whether another says so; unknown without a network.
    others: Option<bool>,
    /// Since when it is other than driven.
    odd_since: Option<Instant<Wall>>,
    /// The lasting fault that it has.
    fault: Option<Fault>,
    /// Times that it rose and that no pause has been set against.
    edges: u32,
    rose: Instant<Wall>,
    /// A pause has ended that was not looked into yet; and so many that somebody drove.
    ended: bool,
    owed: u32,
    next_look: Instant<Wall>,
    events: VecDeque<LineEvent>,
}

impl Line {
    /// A line that reads like this before any edge was told.
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

    /// What it has to tell; `None` when nothing.
    pub fn poll_event(&mut self) -> Option<LineEvent> {
        self.events.pop_front()
    }

    /// When the inputs are to be [read](Self::look) next.
    pub fn next_wake(&self) -> Instant<Wall> {
        self.next_look
    }

    /// Whether it is high, as far as was told.
    pub fn is_high(&self) -> bool {
        self.high
    }

    /// This machine drives it from now on, or no longer.
    pub fn drive(&mut self, high: bool, now: Instant<Wall>) {
        self.drives = high;
        self.odd_since = None;
        self.next_look = self.next_look.min(now + LOOK_EVERY);
    }

    /// Whether any other machine says that it drives it.
    pub fn others_drive(&mut self, drive: bool) {
        self.others = Some(drive);
    }

    /// A pause has ended. If somebody drove the line for it, it rose here.
    pub fn pause_ended(&mut self, was_driven: bool) {
        self.ended = true;
        self.owed += u32::from(was_driven);
    }

    /// An edge, in the order of the kernel.
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
            // It may be told after that time, and after the reading at its end.
            self.next_look = self.next_look.min(self.quiet_until);
            return;
        }
        // Nobody has read the line since the debounce time. It rested where the last edge put it.
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

    /// What the inputs read, after all edges that had been told by then.
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
            // What is left may be of pauses that have begun since: the next one's, and that of the
            // one after it, whose holder knew sooner that the other was over. Else it says nothing,
            // since holds that meet make one pause of several pulls.
            let left = self.edges.saturating_sub(owed).min(2);
            self.edges = if now - self.rose < RECENT { left } else { 0 };
        }
        self.check(levels, now);
    }

    /// Takes a reading for the level once it is certain that no edge will explain it.
    fn explain(&mut self, levels: Levels, now: Instant<Wall>) {
        let agree = levels.rising == levels.falling;
        if agree && levels.rising == self.high {
            self.doubt = None;
            self.bounced = None;
            return;
        }
        if agree && let Some(last) = self.bounced.take() {
            // It was quick: there and back within the debounce time.
            return self.becomes(levels.rising, last.at);
        }
        // An edge may have come between what was told and what was read.
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

    /// Finds faults that last, and their end.
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
            // That somebody drives it now does not let it go.
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

/// How often the inputs are read although no edge was told.
const LOOK_EVERY: Duration = Duration::from_ms(10);

/// A rise within this span of a look may be of a pause whose end was not heard yet: who is busy
/// hears late.
const RECENT: Duration = Duration::from_s(2);
