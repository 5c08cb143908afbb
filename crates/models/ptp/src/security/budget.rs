//! Limits on the cryptographic work that received messages may cause.
//!
//! A forged signature costs the forger nothing and the verifier up to milliseconds. Every signature
//! that is checked or computed because of a received message is therefore charged to a budget.
//! Messages that are *due*, because their number follows the last verified one, have a few attempts
//! of their own. A flood of other numbers thus does not displace authentic messages. A flood of
//! exactly the due numbers can displace them, as jamming could.

use std::collections::HashMap;
use std::hash::Hash;

use timeloom_time::{Duration, Instant};

use crate::Local;

/// Budget that is renewed every second. `K` is the type of keys of due items.
#[derive(Clone, Debug)]
pub(crate) struct Budget<K> {
    per_s: u32,
    left: u32,
    since: Instant<Local>,
    tries: HashMap<K, u8>,
    alarmed: bool,
}

/// Decision on a request for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The caller may do the work.
    Granted,
    /// The caller must not do the work, and must report it: the first refusal in this second.
    Alarm,
    /// The caller must not do the work, and only counts it.
    Refused,
}

/// Number of attempts for each due item per second.
const TRIES: u8 = 4;
/// Greatest number of distinct due items per second; others use the common budget.
const MAX_DUE: usize = 4096;

impl<K: Copy + Eq + Hash> Budget<K> {
    /// Returns a budget with `per_s` pieces of work per second for messages that are not due.
    pub(crate) fn new(per_s: u32) -> Self {
        Self {
            per_s,
            left: per_s,
            since: Instant::ZERO,
            tries: HashMap::new(),
            alarmed: false,
        }
    }

    /// Requests one piece of work at `now`: for the due item `due`, or for a message that is not
    /// due.
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
    fn a_flood_is_bounded_and_does_not_displace_expected_messages() {
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
