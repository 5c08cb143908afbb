//! What a clock's own past says about a delay that nobody signed for.

use timeloom_wire::TimeInterval;

/// Watches a quantity that ought to stay where it is: the delay of a link, or
/// arrival minus origin and correction of Syncs. A wire that is made longer on
/// purpose is seen as a jump; one that always was longer is not.
#[derive(Clone, Debug)]
pub struct DelayWatch {
    recent: Vec<TimeInterval>,
    next: usize,
    bound: TimeInterval,
}

const LENGTH: usize = 15;

impl DelayWatch {
    /// Alarm when a value differs from the median of the last fifteen by more
    /// than `bound`.
    pub const fn new(bound: TimeInterval) -> Self {
        Self {
            recent: Vec::new(),
            next: 0,
            bound,
        }
    }

    /// Takes a value. `Some(jump)` when it is out of bounds; then it does not
    /// enter the history, so that an attacker cannot lead the median away
    /// faster than `bound` per fifteen values.
    pub fn sample(&mut self, value: TimeInterval) -> Option<TimeInterval> {
        if self.recent.len() == LENGTH {
            let mut sorted = self.recent.clone();
            sorted.sort_unstable();
            let jump = value - sorted[LENGTH / 2];
            if jump.0.unsigned_abs() > self.bound.0.unsigned_abs() {
                return Some(jump);
            }
            self.recent[self.next] = value;
        } else {
            self.recent.push(value);
        }
        self.next = (self.next + 1) % LENGTH;
        None
    }
}
