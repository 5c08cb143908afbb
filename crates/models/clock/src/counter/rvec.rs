//! The RVEC structure.

use timeloom_time::Rate;

use super::Age;

/// `base_count` and `age_time`: a value of the counter, and the time counted up to it (paper,
/// section 3 and Figure 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rvec {
    base_count: u64,
    age_time: Age,
}

impl Rvec {
    /// Creates the structure at the counter value `count`, with an age of zero.
    pub const fn new(count: u64) -> Self {
        Self {
            base_count: count,
            age_time: Age::ZERO,
        }
    }

    /// Returns the age at the counter value `count`, if each cycle since `base_count` took `period`
    /// (the paper's Figure 3). A count before the base gives the age at the base: time does not go
    /// back.
    pub fn read(&self, count: u64, period: Rate) -> Age {
        self.age_time + Age::of_cycles(count.saturating_sub(self.base_count), period)
    }

    /// Adds the time up to `count` at `period`, so that later cycles may have another period (the
    /// paper's Figure 1).
    pub fn consolidate(&mut self, count: u64, period: Rate) {
        self.age_time = self.read(count, period);
        self.base_count = self.base_count.max(count);
    }

    /// Adds time during which the counter did not count.
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
        // 4 cycles at 800 MHz are 5 ns; 4 more at 400 MHz make 15 ns.
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
