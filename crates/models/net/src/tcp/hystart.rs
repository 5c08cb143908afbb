//! HyStart++ (RFC 9406): slow start ends when round trips become longer, before the queue
//! overflows. Names and numbers are those of the RFC.

use timeloom_time::Duration;

/// Growth of the window that an acknowledgement causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// The full growth of slow start.
    Whole,
    /// Conservative slow start: growth divided by [`CSS_GROWTH_DIVISOR`].
    Part,
    /// No growth: slow start has ended.
    Over,
}

/// State of HyStart++ (RFC 9406, section 4.2).
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    window_end: u64,
    current_round_min: Duration,
    last_round_min: Duration,
    samples: u32,
    /// During conservative slow start: the round-trip time at its start, and the remaining rounds.
    conservative: Option<(Duration, u32)>,
}

const MIN_RTT_THRESH: Duration = Duration::from_ms(4);
const MAX_RTT_THRESH: Duration = Duration::from_ms(16);
const MIN_RTT_DIVISOR: i64 = 8;
const N_RTT_SAMPLE: u32 = 8;
pub(crate) const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

impl Default for HyStart {
    fn default() -> Self {
        Self {
            window_end: 0,
            current_round_min: Duration::MAX,
            last_round_min: Duration::MAX,
            samples: 0,
            conservative: None,
        }
    }
}

impl HyStart {
    /// Processes an acknowledgement up to `una` with this round-trip time; segments up to `nxt` had
    /// been sent.
    pub(crate) fn handle_ack(&mut self, una: u64, nxt: u64, round_trip: Duration) -> Growth {
        if una >= self.window_end {
            self.window_end = nxt;
            self.last_round_min = self.current_round_min;
            self.current_round_min = Duration::MAX;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds -= 1;
                if *rounds == 0 {
                    return Growth::Over;
                }
            }
        }
        self.current_round_min = self.current_round_min.min(round_trip);
        self.samples += 1;
        let enough = self.samples >= N_RTT_SAMPLE;
        match self.conservative {
            // The delay was temporary, so slow start continues.
            Some((baseline, _)) if enough && self.current_round_min < baseline => {
                self.conservative = None;
            }
            None if enough && self.last_round_min < Duration::MAX => {
                let share = Duration::from_ns(self.last_round_min.as_ns() / MIN_RTT_DIVISOR);
                let threshold = share.max(MIN_RTT_THRESH).min(MAX_RTT_THRESH);
                if self.current_round_min >= self.last_round_min + threshold {
                    self.conservative = Some((self.current_round_min, CSS_ROUNDS));
                }
            }
            _ => {}
        }
        match self.conservative {
            Some(_) => Growth::Part,
            None => Growth::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a round of 20 segments with this round-trip time in ms.
    fn round(hystart: &mut HyStart, number: u64, ms: i64) -> Growth {
        let (from, to) = (number * 20, number * 20 + 20);
        let acks = (from..to).map(|una| hystart.handle_ack(una, to, Duration::from_ms(ms)));
        acks.last().unwrap()
    }

    #[test]
    fn growing_round_trips_end_slow_start_in_five_rounds() {
        let mut hystart = HyStart::default();
        for number in 0..3 {
            assert_eq!(round(&mut hystart, number, 40), Growth::Whole);
        }
        // An increase by an eighth of 40 ms, 5 ms, would end slow start.
        assert_eq!(round(&mut hystart, 3, 44), Growth::Whole);
        assert_eq!(round(&mut hystart, 4, 50), Growth::Part);
        for number in 5..9 {
            assert_eq!(round(&mut hystart, number, 50), Growth::Part);
        }
        let una = 9 * 20;
        let over = hystart.handle_ack(una, una + 20, Duration::from_ms(50));
        assert_eq!(over, Growth::Over);
    }

    #[test]
    fn a_passing_delay_does_not() {
        let mut hystart = HyStart::default();
        for (number, ms) in [40, 40, 60, 60, 41].into_iter().enumerate() {
            round(&mut hystart, number as u64, ms);
        }
        assert_eq!(round(&mut hystart, 5, 41), Growth::Whole);
    }
}
