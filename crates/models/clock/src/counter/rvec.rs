//! The RVEC structure: a counter value with the time counted up to it.

use timeloom_time::Rate;

use super::Age;

/// The fields `base_count` and `age_time` of the paper (section 3 and Figure 5): a value of the
/// counter, and the time counted up to that value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rvec {
    base_count: u64,
    age_time: Age,
}

impl Rvec {
    /// Returns the structure with base `count` and an age of zero.
    pub const fn new(count: u64) -> Self {
        Self {
            base_count: count,
            age_time: Age::ZERO,
        }
    }

    /// Returns the age at counter value `count`, if each cycle since `base_count` took `period`
    /// (the paper's Figure 3). A count before `base_count` gives the age at `base_count`, so that
    /// time does not go back.
    pub fn read(&self, count: u64, period: Rate) -> Age {
        self.age_time + Age::of_cycles(count.saturating_sub(self.base_count), period)
    }

    /// Moves the base to `count`, and adds the time of the cycles up to there at `period`. Later
    /// cycles may then have another period (the paper's Figure 1).
    pub fn consolidate(&mut self, count: u64, period: Rate) {
        self.age_time = self.read(count, period);
        self.base_count = self.base_count.max(count);
    }

    /// Adds time during which the counter was stopped.
    pub fn add_uncounted(&mut self, time: Age) {
        self.age_time = self.age_time + time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Frequency;
    use timeloom_time::Duration;

    #[test]
    fn the_example_of_figures_2_and_3() {
        // 4 cycles at 800 MHz take 5 ns; with 4 more cycles at 400 MHz the sum is 15 ns.
        let (fast, slow) = (
            Frequency::from_mhz(800).period(),
            Frequency::from_mhz(400).period(),
        );
        let mut rvec = Rvec::new(0);
        rvec.consolidate(4, fast);
        assert_eq!(rvec.read(4, slow).as_duration(), Duration::from_ns(5));
        assert_eq!(rvec.read(8, slow).as_duration(), Duration::from_ns(15));
    }
}
