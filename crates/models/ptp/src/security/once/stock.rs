//! Stock of tickets, each of which holds the prepared data for one signature. For a key and a
//! number, a ticket is prepared at most once.
//!
//! The thread that handles event messages announces the last number seen ([`Stock::expect`]), which
//! is a verified one or a grandmaster's own, and takes a ticket when it signs. An idle-priority
//! thread prepares the tickets for the following numbers. Neither thread waits for the other.
//!
//! # One signature per key and moment, also after a restart
//!
//! - A ticket leaves the stock when it is used, under a lock. It cannot be copied.
//! - Numbers are claimed in ascending order, each once, and only from a block that the [`Ledger`]
//!   has reserved. The ledger never reserves a number again. A program that ended in the middle of
//!   a block continues after the block, and signs with its ordinary key until the grandmaster's
//!   numbers have passed the block.
//! - Blocks are reserved only after verified numbers, so that a forger cannot use them up.
//! - A process that did not make the stock (after a fork) has neither stock nor ledger.
//!
//! Two cases are not detected: a key directory that was copied and is used in two places, and one
//! that was restored from a backup. Do not prepare signatures where these are possible.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use blst::min_sig::SecretKey;

use super::ticket::Spent;
use super::{Moment, Stream, Ticket};

/// Record of the reserved numbers, which must last as long as the keys.
pub trait Ledger: Send {
    /// Reserves `count` numbers of `stream` and returns the first of them: `from`, or the lowest
    /// number after it that was never reserved. Returns `None` if that number is beyond `limit`, or
    /// if the reservation cannot be recorded. The record must be permanent before the call returns.
    fn reserve(&mut self, stream: &Stream, from: u64, limit: u64, count: u64) -> Option<u64>;
}

/// Size of a reserved block. At eight Syncs per second, there is one write in eight seconds, and at
/// most eight seconds with ordinary signatures after a restart.
pub(super) const BLOCK: u64 = 64;

/// Ledger in memory, for keys that do not outlive the program.
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

/// Stock of one clock's tickets.
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
    grandmasters: Vec<GrandmasterNumbers>,
    heard: u64,
}

/// State of the numbers of one grandmaster.
struct GrandmasterNumbers {
    stream: Stream,
    ports: Vec<u8>,
    /// Greatest number seen.
    newest: u64,
    /// Next number to prepare.
    next: u64,
    /// End of the reserved block of numbers.
    end: u64,
    tickets: Vec<Ticket>,
    heard: u64,
}

/// Greatest number of grandmasters followed at once: the current one, and those of other domains.
const GRANDMASTERS: usize = 4;
/// Number of other grandmasters' messages after which a silent grandmaster counts as gone.
const GONE: u64 = 64;
/// Count of numbers prepared in advance: twice the number of Syncs between two verifications (a
/// clock verifies one Sync in sixteen).
const AHEAD: usize = 32;
/// Maximum number of tickets in a stock; reached by a clock with many ports.
const TICKETS: usize = 256;
/// Distance behind the greatest number within which an overtaken message may still need its ticket.
const LATE: u64 = 32;
/// Greatest 48-bit number.
const LAST_NUMBER: u64 = (1 << 48) - 1;

impl GrandmasterNumbers {
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

    /// Sets the ledger and so enables tickets. A stock without a ledger stays empty.
    pub(in crate::security) fn keep(&self, ledger: Box<dyn Ledger>) {
        if let (Ok(mut place), Ok(mut plan)) = (self.ledger.lock(), self.plan.lock()) {
            plan.belong_to(std::process::id());
            *place = Some(ledger);
        }
    }

    pub(in crate::security) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Announces that the Sync `moment` was seen and verified, and that the Syncs after it will
    /// leave on `ports`. Never blocks.
    pub(in crate::security) fn expect(&self, moment: &Moment, ports: impl Iterator<Item = u8>) {
        let Ok(mut plan) = self.plan.try_lock() else {
            return;
        };
        plan.belong_to(std::process::id());
        plan.heard += 1;
        let heard = plan.heard;
        let Some(numbers) = plan.numbers(&moment.stream) else {
            return;
        };
        numbers.heard = heard;
        numbers.newest = numbers.newest.max(moment.sequence48);
        numbers.ports.clear();
        numbers.ports.extend(ports);
        let newest = numbers.newest;
        numbers
            .tickets
            .retain(|ticket| ticket.moment.sequence48 + LATE >= newest);
        if numbers.is_due() && !numbers.ports.is_empty() {
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if [`Stock::take`] would find a ticket. Never blocks.
    pub(in crate::security) fn has(&self, moment: &Moment, port: u8) -> bool {
        let plan = self.plan.try_lock();
        plan.is_ok_and(|plan| {
            let mut all = plan
                .grandmasters
                .iter()
                .flat_map(|numbers| &numbers.tickets);
            all.any(|ticket| ticket.is_for(moment, port))
        })
    }

    /// Removes and returns the ticket for this Sync and port; `None` if there is none. Never
    /// blocks.
    pub(in crate::security) fn take(&self, moment: &Moment, port: u8) -> Option<Ticket> {
        let mut plan = self.plan.try_lock().ok()?;
        plan.belong_to(std::process::id());
        let mut grandmasters = plan.grandmasters.iter_mut();
        let numbers = grandmasters.find(|numbers| numbers.stream == moment.stream)?;
        let mut tickets = numbers.tickets.iter();
        let at = tickets.position(|ticket| ticket.is_for(moment, port))?;
        Some(numbers.tickets.swap_remove(at))
    }

    /// Prepares the tickets for the following numbers. `keys` are those of the ports 1, 2, …
    pub(in crate::security) fn prepare(&self, keys: &[SecretKey]) {
        // Only one thread prepares; if it holds the lock, a second call does nothing.
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
        for numbers in &mut plan.grandmasters {
            numbers.next = numbers.next.max(numbers.newest + 1);
            if numbers.next > numbers.limit() || numbers.ports.is_empty() {
                continue;
            }
            if numbers.next < numbers.end {
                return Claim::Number(numbers.claim(), numbers.ports.clone());
            }
            wanted.push(numbers.stream);
        }
        for stream in wanted {
            let Some(numbers) = plan
                .grandmasters
                .iter()
                .find(|numbers| numbers.stream == stream)
            else {
                continue;
            };
            let (from, limit) = (numbers.next, numbers.limit());
            drop(plan);
            let first = ledger.reserve(&stream, from, limit, BLOCK);
            match self.plan.lock() {
                Ok(locked) => plan = locked,
                Err(_) => return Claim::Nothing,
            }
            let Some(first) = first else { continue };
            // If the grandmaster is gone meanwhile, or already ahead, the block is wasted.
            let mut grandmasters = plan.grandmasters.iter_mut();
            let Some(numbers) = grandmasters.find(|numbers| numbers.stream == stream) else {
                continue;
            };
            (numbers.next, numbers.end) = (first, first + BLOCK);
            return Claim::Number(numbers.claim(), numbers.ports.clone());
        }
        Claim::Nothing
    }

    fn put(&self, ticket: Ticket) {
        let Ok(mut plan) = self.plan.lock() else {
            return;
        };
        let mut grandmasters = plan.grandmasters.iter_mut();
        if let Some(numbers) = grandmasters.find(|numbers| numbers.stream == ticket.moment.stream) {
            numbers.tickets.push(ticket);
        }
    }

    #[cfg(test)]
    pub(super) fn ready(&self) -> Vec<(u64, u8)> {
        let plan = self.plan.lock().unwrap();
        let all = plan
            .grandmasters
            .iter()
            .flat_map(|numbers| &numbers.tickets);
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
    /// Another process prepared this stock.
    Foreign,
}

impl GrandmasterNumbers {
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
    /// Discards the stock if another process made it, because both processes would use it. Returns
    /// true in that case.
    fn belong_to(&mut self, process: u32) -> bool {
        let foreign = self.process != 0 && self.process != process;
        if foreign {
            self.grandmasters.clear();
            // The process stays without a ledger for good.
        } else {
            self.process = process;
        }
        foreign
    }

    /// Returns the state of `stream`, and creates it if needed; `None` if all places are in use.
    fn numbers(&mut self, stream: &Stream) -> Option<&mut GrandmasterNumbers> {
        let at = self.grandmasters.iter().position(|c| c.stream == *stream);
        if let Some(at) = at {
            return self.grandmasters.get_mut(at);
        }
        if self.grandmasters.len() == GRANDMASTERS {
            let (at, oldest) = self
                .grandmasters
                .iter()
                .enumerate()
                .min_by_key(|(_, numbers)| numbers.heard)?;
            if self.heard - oldest.heard < GONE {
                return None;
            }
            self.grandmasters.swap_remove(at);
        }
        self.grandmasters.push(GrandmasterNumbers {
            stream: *stream,
            ports: Vec::new(),
            newest: 0,
            next: 0,
            end: 0,
            tickets: Vec::new(),
            heard: self.heard,
        });
        self.grandmasters.last_mut()
    }
}

impl Ticket {
    fn is_for(&self, moment: &Moment, port: u8) -> bool {
        self.moment == *moment && self.port == port
    }
}
