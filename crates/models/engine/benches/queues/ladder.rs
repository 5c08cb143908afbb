//! Ladder queue, for comparison with the queue in use.

use timeloom_engine::Event;
use timeloom_engine::queue::{EventQueue, Heap4};
use timeloom_time::{Instant, Virtual};

/// Ladder queue by Tang, Goh and Thng, "Ladder queue: an O(1) priority queue structure for
/// large-scale discrete event simulation", ACM TOMACS 15(3), 2005.
///
/// Distant events stay unsorted in the top. When the ladder is empty, the events of the top are
/// distributed into the buckets of a new rung. A bucket with too many events is distributed into a
/// finer rung below; a bucket with few events is sorted into the bottom, from which events are
/// taken.
#[derive(Debug, Default)]
pub(crate) struct Ladder {
    top: Vec<Event>,
    /// Events at this instant (in ns) or later are put into the top.
    top_from: i64,
    /// Rungs, the coarsest first. All events of a rung are earlier than those of the rung before
    /// it.
    rungs: Vec<Rung>,
    /// Unused rungs, kept so that their vectors can be reused.
    spare: Vec<Rung>,
    /// The earliest events, in descending order.
    bottom: Vec<Event>,
    /// Events that were pushed since the bottom was sorted and are earlier than all rungs.
    fresh: Heap4,
    len: usize,
}

#[derive(Debug, Default)]
struct Rung {
    start: i64,
    width: i64,
    /// Index of the bucket to empty next.
    next: usize,
    used: usize,
    buckets: Vec<Vec<Event>>,
}

impl Rung {
    fn from(&self) -> i64 {
        self.start + self.width * self.next as i64
    }
}

/// Maximum number of events in a bucket that is sorted (THRES in the paper).
const SORT_AT_MOST: usize = 50;
/// Maximum number of rungs (section 3.1 of the paper).
const RUNGS: usize = 8;

impl Ladder {
    /// Distributes `events`, all within `start..end`, into a new rung below the existing rungs.
    fn deal(&mut self, events: &mut Vec<Event>, start: i64, end: i64) {
        let mut rung = self.spare.pop().unwrap_or_default();
        let span = (end - start).max(1);
        rung.start = start;
        rung.width = (span / events.len().max(1) as i64).max(1);
        rung.next = 0;
        rung.used = (span / rung.width + 1) as usize;
        if rung.buckets.len() < rung.used {
            rung.buckets.resize(rung.used, Vec::new());
        }
        for event in events.drain(..) {
            let index = (event.at.as_ns() - start) / rung.width;
            rung.buckets[index as usize].push(event);
        }
        self.rungs.push(rung);
    }

    /// Fills the bottom from the lowest rung; if there is no rung, fills a rung from the top first.
    fn refill(&mut self) -> bool {
        loop {
            let full = self.rungs.len() >= RUNGS;
            let Some(rung) = self.rungs.last_mut() else {
                if self.top.is_empty() {
                    return false;
                }
                let instants = || self.top.iter().map(|event| event.at.as_ns());
                let (least, most) = (instants().min(), instants().max());
                let (start, end) = (least.unwrap_or(0), most.unwrap_or(0));
                let mut top = core::mem::take(&mut self.top);
                self.deal(&mut top, start, end);
                self.top = top;
                self.top_from = end + 1;
                continue;
            };
            while rung.next < rung.used && rung.buckets[rung.next].is_empty() {
                rung.next += 1;
            }
            if rung.next == rung.used {
                self.spare.extend(self.rungs.pop());
                continue;
            }
            let start = rung.from();
            let width = rung.width;
            let place = rung.next;
            rung.next += 1;
            let mut bucket = core::mem::take(&mut rung.buckets[place]);
            if bucket.len() > SORT_AT_MOST && width > 1 && !full {
                let level = self.rungs.len() - 1;
                self.deal(&mut bucket, start, start + width - 1);
                self.rungs[level].buckets[place] = bucket;
                continue;
            }
            self.bottom.append(&mut bucket);
            rung.buckets[place] = bucket;
            self.bottom.sort_unstable_by(|a, b| b.cmp(a));
            return true;
        }
    }
}

impl EventQueue for Ladder {
    fn push(&mut self, event: Event) {
        self.len += 1;
        let ns = event.at.as_ns();
        if ns >= self.top_from {
            self.top.push(event);
            return;
        }
        for rung in &mut self.rungs {
            if ns >= rung.from() {
                let index = ((ns - rung.start) / rung.width) as usize;
                if index < rung.used {
                    rung.buckets[index].push(event);
                    return;
                }
            }
        }
        self.fresh.push(event);
    }

    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event> {
        if self.bottom.is_empty() && self.fresh.is_empty() && !self.refill() {
            return None;
        }
        let event = match (self.bottom.last(), self.fresh.peek()) {
            (Some(sorted), fresh) if fresh.is_none_or(|fresh| sorted < fresh) => {
                if sorted.at > limit {
                    return None;
                }
                self.bottom.pop()?
            }
            _ => self.fresh.pop_due(limit)?,
        };
        self.len -= 1;
        Some(event)
    }

    /// Returns the instant of the first event; searches all events if the bottom is empty.
    fn first_at(&self) -> Option<Instant<Virtual>> {
        let sorted = self.bottom.last().map(|event| event.at);
        let here = sorted.into_iter().chain(self.fresh.first_at()).min();
        here.or_else(|| {
            let dealt = self.rungs.iter().flat_map(|rung| rung.buckets.iter());
            let events = dealt.flatten().chain(&self.top);
            events.map(|event| event.at).min()
        })
    }

    fn len(&self) -> usize {
        self.len
    }
}
