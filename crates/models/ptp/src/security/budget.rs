//! How much cryptography strangers may cause.
//!
//! A signature costs the forger nothing and the verifier up to milliseconds, so
//! every one that is checked or made because of a message from outside is paid
//! for from a budget. What is *due* (the numbers right after the last verified
//! one) has a few tries of its own, so that a flood of other numbers does not
//! displace good time; a flood of just those numbers can, as jamming could.

use std::collections::HashMap;
use std::hash::Hash;

use timeloom_time::{Duration, Instant};

use crate::Local;

/// Shared out anew every second. `K` names what is due.
#[derive(Clone, Debug)]
pub(crate) struct Budget<K> {
    per_s: u32,
    left: u32,
    since: Instant<Local>,
    tries: HashMap<K, u8>,
    alarmed: bool,
}

/// The answer to a request for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Do it.
    Granted,
    /// Do not, and say so: the first refusal of this second.
    Alarm,
    /// Do not, and only count it.
    Refused,
}

/// How often one due thing is looked into per second.
const TRIES: u8 = 4;
/// Due things that are told apart; those beyond share the common budget.
const MAX_DUE: usize = 4096;

impl<K: Copy + Eq + Hash> Budget<K> {
    /// `per_s` pieces of work a second for what is not due.
    pub(crate) fn new(per_s: u32) -> Self {
        Self {
            per_s,
            left: per_s,
            since: Instant::ZERO,
            tries: HashMap::new(),
            alarmed: false,
        }
    }

    /// Asks for one piece of work at `now`, for something that is `due` or not.
    pub(crate) fn admit(&mut self, now: Instant<Local>, due: Option<K>) -> Admission {
        if now - self.since >= Duration::from_s(1) {
            self.since = now;
            self.left = self.per_s;
            self.tries.clear();
            self.alarmed = false;
        }
        let granted = match due {
            Some(key) if self.tries.len() < MAX_DUE || self.tries.contains_key(&key) => {
                let tries = self.tries.entry(key).or_default();
                *tries = tries.saturating_add(1);
                *tries <= TRIES
            }
            _ => {
                let granted = self.left > 0;
                self.left = self.left.saturating_sub(1);
                granted
            }
        };
        if granted {
            Admission::Granted
        } else if std::mem::replace(&mut self.alarmed, true) {
            Admission::Refused
        } else {
            Admission::Alarm
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(budget: &mut Budget<u16>, now_ms: i64, due: Option<u16>, times: usize) -> usize {
        let now = Instant::from_ns(10_000_000_000 + now_ms * 1_000_000);
        (0..times)
            .filter(|_| budget.admit(now, due) == Admission::Granted)
            .count()
    }

    #[test]
    fn a_flood_is_bounded_and_does_not_displace_what_is_due() {
        let mut budget = Budget::new(50);
        assert_eq!(granted(&mut budget, 0, None, 10_000), 50);
        assert_eq!(granted(&mut budget, 1, Some(7), 1), 1);
        assert_eq!(granted(&mut budget, 2, Some(8), 100), 4);
        assert_eq!(granted(&mut budget, 999, None, 10), 0);
        assert_eq!(granted(&mut budget, 1_000, None, 10), 10);
    }

    #[test]
    fn one_alarm_a_second() {
        let mut budget: Budget<u16> = Budget::new(0);
        let mut ask =
            |ms: i64| budget.admit(Instant::from_ns(10_000_000_000 + ms * 1_000_000), None);
        assert_eq!(ask(0), Admission::Alarm);
        assert_eq!(ask(1), Admission::Refused);
        assert_eq!(ask(1_001), Admission::Alarm);
    }

    #[test]
    fn memory_is_bounded() {
        let mut budget = Budget::new(1);
        let now = Instant::from_ns(10_000_000_000);
        for key in 0..100_000u32 {
            budget.admit(now, Some(key));
        }
        assert_eq!(budget.tries.len(), MAX_DUE);
    }
}
