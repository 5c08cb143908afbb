//! Stock of prepared tickets. No ticket is prepared twice for a number.
//!
//! The event path announces the last number seen ([`Stock::expect`]: a verified one, or a
//! grandmaster's own), and takes a ticket when it signs. An idle-priority thread makes the tickets
//! of the following numbers. Neither waits for the other.
//!
//! # One signature per key and moment, also after a restart
//!
//! - A ticket leaves the stock by being used, under a lock. It cannot be copied.
//! - Numbers are claimed in ascending order, each once, and only from a block that the [`Ledger`]
//!   has reserved. The ledger never reserves a number again: a program that was ended in the middle
//!   of a block continues after the block, and signs with its ordinary key until the grandmaster's
//!   numbers get there.
//! - Blocks follow verified numbers only, so that a forger cannot use them up.
//! - A process that did not make the stock (a fork) has neither stock nor ledger.
//!
//! Not detected: a key directory that was copied and is used in two places, or restored from a
//! backup. Where that is possible, do not use preparation.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use blst::min_sig::SecretKey;

use super::ticket::Spent;
use super::{Moment, Stream, Ticket};

/// Record of the reserved numbers, for the lifetime of the keys.
pub trait Ledger: Send {
    /// Reserves `count` numbers of `stream` and returns the first: `from`, or the lowest after it
    /// that was never reserved. Returns `None` if that is beyond `limit`, or if it cannot be
    /// recorded. The reservation is recorded before this returns.
    fn reserve(&mut self, stream: &Stream, from: u64, limit: u64, count: u64) -> Option<u64>;
}

/// Size of a reserved block: at eight Syncs a second, one write in eight seconds, and at most as
/// long with ordinary signatures after a restart.
pub(super) const BLOCK: u64 = 64;

/// Ledger in memory, for keys that live no longer than the program.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedger(HashMap<Stream, u64>);

impl Ledger for MemoryLedger {
    fn reserve(&mut self, stream: &Stream, from: u64, limit: u64, count: u64) -> Option<u64> {
        let free = self.0.entry(*stream).or_default();
        let first = from.max(*free);
        (first <= limit).then(|| *free = first + count)?;
        Some(first)
    }
}

/// Stock of one clock.
pub(in crate::security) struct Stock {
    ledger: Mutex<Option<Box<dyn Ledger>>>,
    plan: Mutex<Plan>,
    spent: Spent,
    /// True if there is enough work to justify waking the thread.
    due: AtomicBool,
}

#[derive(Default)]
struct Plan {
    process: u32,
    courses: Vec<Course>,
    heard: u64,
}

/// State of one grandmaster's numbers.
struct Course {
    stream: Stream,
    ports: Vec<u8>,
    /// Last number seen.
    newest: u64,
    /// Next number to prepare, and the end of the reserved block.
    next: u64,
    end: u64,
    tickets: Vec<Ticket>,
    heard: u64,
}

/// Number of grandmasters followed at once: the current one, and those of other domains.
const COURSES: usize = 4;
/// A grandmaster counts as gone after this many messages of others without one of its own.
const GONE: u64 = 64;
/// Numbers prepared ahead: twice the interval between two verifications of a clock that verifies
/// one in sixteen; and the total number of tickets, for clocks with many ports.
const AHEAD: usize = 32;
const TICKETS: usize = 256;
/// Distance behind the newest number within which an overtaken number may still need its ticket.
const LATE: u64 = 32;
/// Largest number of 48 bits.
const LAST_NUMBER: u64 = (1 << 48) - 1;

impl Course {
    fn limit(&self) -> u64 {
        let ahead = (TICKETS / self.ports.len().max(1)).clamp(4, AHEAD);
        self.newest.saturating_add(ahead as u64).min(LAST_NUMBER)
    }

    fn is_due(&self) -> bool {
        self.next <= self.limit().saturating_sub((AHEAD / 4) as u64)
    }
}

impl Stock {
    pub(in crate::security) fn new() -> Self {
        Self {
            ledger: Mutex::new(None),
            plan: Mutex::new(Plan::default()),
            spent: Spent::default(),
            due: AtomicBool::new(false),
        }
    }

    /// Enables tickets. A stock without a ledger stays empty.
    pub(in crate::security) fn keep(&self, ledger: Box<dyn Ledger>) {
        if let (Ok(mut place), Ok(mut plan)) = (self.ledger.lock(), self.plan.lock()) {
            plan.belong_to(std::process::id());
            *place = Some(ledger);
        }
    }

    pub(in crate::security) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Announces that `moment` was seen and verified; the next ones will leave on `ports`. Never
    /// blocks.
    pub(in crate::security) fn expect(&self, moment: &Moment, ports: impl Iterator<Item = u8>) {
        let Ok(mut plan) = self.plan.try_lock() else {
            return;
        };
        plan.belong_to(std::process::id());
        plan.heard += 1;
        let heard = plan.heard;
        let Some(course) = plan.course(&moment.stream) else {
            return;
        };
        course.heard = heard;
        course.newest = course.newest.max(moment.sequence48);
        course.ports.clear();
        course.ports.extend(ports);
        let newest = course.newest;
        course
            .tickets
            .retain(|ticket| ticket.moment.sequence48 + LATE >= newest);
        if course.is_due() && !course.ports.is_empty() {
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if [`Stock::take`] would find a ticket. Never blocks.
    pub(in crate::security) fn has(&self, moment: &Moment, port: u8) -> bool {
        let plan = self.plan.try_lock();
        plan.is_ok_and(|plan| {
            let mut all = plan.courses.iter().flat_map(|course| &course.tickets);
            all.any(|ticket| ticket.is_for(moment, port))
        })
    }

    /// Removes and returns the ticket of this moment and port. Never blocks.
    pub(in crate::security) fn take(&self, moment: &Moment, port: u8) -> Option<Ticket> {
        let mut plan = self.plan.try_lock().ok()?;
        plan.belong_to(std::process::id());
        let mut courses = plan.courses.iter_mut();
        let course = courses.find(|course| course.stream == moment.stream)?;
        let mut tickets = course.tickets.iter();
        let at = tickets.position(|ticket| ticket.is_for(moment, port))?;
        Some(course.tickets.swap_remove(at))
    }

    /// Makes the tickets of the following numbers. `keys` are those of ports 1, 2, …
    pub(in crate::security) fn prepare(&self, keys: &[SecretKey]) {
        // Held by the preparing thread: there is never a second.
        let Ok(mut place) = self.ledger.try_lock() else {
            return;
        };
        self.due.store(false, Ordering::Relaxed);
        loop {
            let spent = self
                .spent
                .lock()
                .map(|mut spent| std::mem::take(&mut *spent));
            drop(spent);
            match self.claim(place.as_mut()) {
                Claim::Nothing => return,
                Claim::Foreign => return *place = None,
                Claim::Number(moment, ports) => {
                    for port in ports {
                        if let Some(key) = keys.get(usize::from(port).wrapping_sub(1)) {
                            self.put(Ticket::new(key, moment, port, &self.spent));
                        }
                    }
                }
            }
        }
    }

    /// Claims the next number to prepare. The lock is not held while the ledger writes.
    fn claim(&self, ledger: Option<&mut Box<dyn Ledger>>) -> Claim {
        let Some(ledger) = ledger else {
            return Claim::Nothing;
        };
        let Ok(mut plan) = self.plan.lock() else {
            return Claim::Nothing;
        };
        if plan.belong_to(std::process::id()) {
            return Claim::Foreign;
        }
        let mut wanted: Vec<Stream> = Vec::new();
        for course in &mut plan.courses {
            course.next = course.next.max(course.newest + 1);
            if course.next > course.limit() || course.ports.is_empty() {
                continue;
            }
            if course.next < course.end {
                return Claim::Number(course.claim(), course.ports.clone());
            }
            wanted.push(course.stream);
        }
        for stream in wanted {
            let Some(course) = plan.courses.iter().find(|course| course.stream == stream) else {
                continue;
            };
            let (from, limit) = (course.next, course.limit());
            drop(plan);
            let first = ledger.reserve(&stream, from, limit, BLOCK);
            match self.plan.lock() {
                Ok(locked) => plan = locked,
                Err(_) => return Claim::Nothing,
            }
            let Some(first) = first else { continue };
            // Gone meanwhile, or ahead already: then the block is wasted.
            let mut courses = plan.courses.iter_mut();
            let Some(course) = courses.find(|course| course.stream == stream) else {
                continue;
            };
            (course.next, course.end) = (first, first + BLOCK);
            return Claim::Number(course.claim(), course.ports.clone());
        }
        Claim::Nothing
    }

    fn put(&self, ticket: Ticket) {
        let Ok(mut plan) = self.plan.lock() else {
            return;
        };
        let mut courses = plan.courses.iter_mut();
        if let Some(course) = courses.find(|course| course.stream == ticket.moment.stream) {
            course.tickets.push(ticket);
        }
    }

    #[cfg(test)]
    pub(super) fn ready(&self) -> Vec<(u64, u8)> {
        let plan = self.plan.lock().unwrap();
        let all = plan.courses.iter().flat_map(|course| &course.tickets);
        all.map(|ticket| (ticket.moment.sequence48, ticket.port))
            .collect()
    }

    #[cfg(test)]
    pub(super) fn pretend_to_be_forked(&self) {
        self.plan.lock().unwrap().process ^= 1;
    }
}

enum Claim {
    Number(Moment, Vec<u8>),
    Nothing,
    /// Another process prepared before.
    Foreign,
}

impl Course {
    fn claim(&mut self) -> Moment {
        let sequence48 = self.next;
        self.next += 1;
        Moment {
            stream: self.stream,
            sequence48,
        }
    }
}

impl Plan {
    /// Discards the stock of another process: both would use it. Returns true if there was such a
    /// process.
    fn belong_to(&mut self, process: u32) -> bool {
        let foreign = self.process != 0 && self.process != process;
        if foreign {
            self.courses.clear();
            // Stays foreign: its ledger is gone for good.
        } else {
            self.process = process;
        }
        foreign
    }

    /// Returns the state of `stream`, created if necessary; `None` if all places are in use.
    fn course(&mut self, stream: &Stream) -> Option<&mut Course> {
        let at = self.courses.iter().position(|c| c.stream == *stream);
        if let Some(at) = at {
            return self.courses.get_mut(at);
        }
        if self.courses.len() == COURSES {
            let (at, oldest) = self
                .courses
                .iter()
                .enumerate()
                .min_by_key(|(_, course)| course.heard)?;
            if self.heard - oldest.heard < GONE {
                return None;
            }
            self.courses.swap_remove(at);
        }
        self.courses.push(Course {
            stream: *stream,
            ports: Vec::new(),
            newest: 0,
            next: 0,
            end: 0,
            tickets: Vec::new(),
            heard: self.heard,
        });
        self.courses.last_mut()
    }
}

impl Ticket {
    fn is_for(&self, moment: &Moment, port: u8) -> bool {
        self.moment == *moment && self.port == port
    }
}
