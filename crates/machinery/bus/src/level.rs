//! Level of the line as a state machine: its inputs are claims, its outputs are edges.
//!
//! The state machine has no lock, reads no clock and commands nothing, so that tests can check the
//! paper's two criteria for every order of events. A *claim* is the paper's `S(p) = 1`. It counts
//! from the moment of the request, not from the moment of the grant. A request that arrives while
//! the testbed is being paused therefore keeps the testbed paused, even if the first requester
//! releases its hold long before the thread of the second one has been woken (Figure 4).

use timeloom_time::{Instant, Virtual};

/// Phase of the line: one of its two levels, or a change between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no hold, and the testbed runs.
    Low,
    /// A requester is stopping the testbed.
    Rising,
    /// The testbed is paused at this virtual instant.
    High(Instant<Virtual>),
    /// A requester is resuming the testbed.
    Falling,
    /// An edge has failed. The testbed may run or may be paused.
    Broken,
}

/// Next action of a claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The claim is granted: the testbed is paused at this virtual instant.
    Granted(Instant<Virtual>),
    /// Pause the testbed, and report the result by `rose` or `rise_failed`.
    Raise,
    /// An edge is under way. Wait until the phase changes, and ask again.
    Wait,
    /// The line is broken, so no claim will ever be granted.
    Refused,
}

/// Level of the line, with the number of claims on it.
#[derive(Debug)]
pub(crate) struct Level {
    phase: Phase,
    claims: u64,
}

impl Level {
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Low,
            claims: 0,
        }
    }

    #[cfg(test)]
    const fn phase(&self) -> Phase {
        self.phase
    }

    /// Records a request. The claimant must call `next` until the claim is granted or withdrawn.
    pub(crate) fn claim(&mut self) {
        self.claims += 1;
    }

    /// Returns the next step of a claimant that has no grant yet.
    pub(crate) fn next(&mut self) -> Next {
        debug_assert!(self.claims > 0, "asked without a claim");
        match self.phase {
            Phase::High(frozen) => Next::Granted(frozen),
            Phase::Low => {
                self.phase = Phase::Rising;
                Next::Raise
            }
            Phase::Rising | Phase::Falling => Next::Wait,
            Phase::Broken => Next::Refused,
        }
    }

    /// Records that the testbed is paused. The claim of the requester that paused it is thereby
    /// granted.
    pub(crate) fn rose(&mut self, frozen: Instant<Virtual>) {
        debug_assert_eq!(self.phase, Phase::Rising);
        self.phase = Phase::High(frozen);
    }

    /// Records that the testbed could not be paused. The claim of the requester that tried is
    /// removed. Other claimants call `next` again, and one of them will try.
    pub(crate) fn rise_failed(&mut self) {
        debug_assert_eq!(self.phase, Phase::Rising);
        self.phase = Phase::Low;
        self.withdraw();
    }

    /// Removes a claim that was not granted.
    pub(crate) fn withdraw(&mut self) {
        self.claims -= 1;
    }

    /// Removes a granted claim. Returns `true` if it was the last claim; the caller must then
    /// resume the testbed, and report the result by `fell` or `broke`.
    pub(crate) fn release(&mut self) -> bool {
        debug_assert!(self.claims > 0, "released more than was held");
        self.claims -= 1;
        let last = self.claims == 0 && matches!(self.phase, Phase::High(_));
        if last {
            self.phase = Phase::Falling;
        }
        last
    }

    /// Records that the testbed runs again.
    pub(crate) fn fell(&mut self) {
        debug_assert_eq!(self.phase, Phase::Falling);
        self.phase = Phase::Low;
    }

    /// Records that an edge has ended in an unknown state.
    pub(crate) fn broke(&mut self) {
        self.phase = Phase::Broken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Progress of one requester in the way in which the bus would call the level.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Requester {
        Away,
        /// The claim was made while this pause (by number) was beginning or in force; `None` if
        /// there was no pause.
        Waiting(Option<i64>),
        Raising,
        Holding(Instant<Virtual>),
        Lowering,
    }

    proptest! {
        /// Property for any interleaving of five requesters, with pauses that may fail. The testbed
        /// is paused while there is a hold, and overlapping holds see the same instant. A request
        /// that was made in time is never overtaken by a resume, and in the end the testbed runs.
        #[test]
        fn criteria_one_and_two_hold_in_every_order(
            steps in prop::collection::vec((0usize..5, any::<bool>()), 1..300)
        ) {
            use Requester::*;
            let mut level = Level::new();
            let mut requesters = [Away; 5];
            let mut running = true;
            let mut stand = 0i64;
            let mut failed = Vec::new();
            let drain = (0..5).cycle().take(40).map(|i| (i, true));
            for (step, (i, good)) in steps.iter().copied().chain(drain).enumerate() {
                requesters[i] = match requesters[i] {
                    Away if step >= steps.len() => Away,
                    Away => {
                        level.claim();
                        let joins = matches!(level.phase(), Phase::Rising | Phase::High(_));
                        Waiting(joins.then_some(stand))
                    }
                    Waiting(joined) => match level.next() {
                        Next::Granted(frozen) => {
                            if let Some(joined) = joined.filter(|it| !failed.contains(it)) {
                                prop_assert_eq!(joined, stand, "a resume came between");
                            }
                            Holding(frozen)
                        }
                        Next::Raise => {
                            prop_assert!(running);
                            stand += 1;
                            Raising
                        }
                        Next::Wait => Waiting(joined),
                        Next::Refused => unreachable!(),
                    },
                    Raising if good => {
                        running = false;
                        level.rose(Instant::from_ns(stand));
                        Holding(Instant::from_ns(stand))
                    }
                    Raising => {
                        failed.push(stand);
                        level.rise_failed();
                        Away
                    }
                    Holding(_) => if level.release() { Lowering } else { Away },
                    Lowering => {
                        prop_assert!(!running);
                        running = true;
                        level.fell();
                        Away
                    }
                };
                for one in requesters {
                    if let Holding(frozen) = one {
                        prop_assert!(!running);
                        prop_assert_eq!(frozen, Instant::from_ns(stand));
                        prop_assert_eq!(level.phase(), Phase::High(frozen));
                    }
                }
                let edges = requesters.iter().filter(|it| matches!(it, Raising | Lowering)).count();
                prop_assert!(edges <= 1, "one edge at a time: {requesters:?}");
            }
            prop_assert!(requesters.iter().all(|it| *it == Away), "{requesters:?}");
            prop_assert_eq!(level.phase(), Phase::Low);
            prop_assert!(running);
        }
    }

    #[test]
    fn a_request_during_the_pause_keeps_it_paused() {
        // Figure 4 of the paper: T1 is on device 1, and T1' on device n before T2.
        let mut level = Level::new();
        level.claim();
        assert_eq!(level.next(), Next::Raise);
        level.claim();
        assert_eq!(level.next(), Next::Wait);
        let t2 = Instant::from_ns(7);
        level.rose(t2);
        assert!(!level.release(), "the second is not done: no resume at T3");
        assert_eq!(level.next(), Next::Granted(t2));
        assert!(level.release(), "resume at T3'");
    }
}
