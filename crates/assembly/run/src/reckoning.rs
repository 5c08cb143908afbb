//! What a run amounts to, reckoned from the history of its clock.

use timeloom_guest::{Change, ChangeKind};
use timeloom_time::{Duration, Instant, Rate, Virtual, Wall};

/// Times of one run that fit each other: all are taken at the same instant.
pub(crate) struct Reckoning {
    pub(crate) virtual_time: Duration,
    pub(crate) wall: Duration,
    pub(crate) paused: Duration,
    pub(crate) pauses: u64,
}

/// Reckons from the instant at which the clock was let go to the one at which
/// `planned` was reached, or to `now` when it was not. What happens to the
/// clock later, the stop for good included, is not the run's.
pub(crate) fn reckon(
    history: &[Change],
    now: Instant<Wall>,
    planned: Instant<Virtual>,
) -> Reckoning {
    let until = |index: usize| {
        history
            .get(index + 1)
            .map_or(now, |next| next.map.in0.min(now))
    };
    // Where computing takes no time it does not run when it is let go.
    let begins = |(index, change): &(usize, &Change)| {
        change.map.rate != Rate::STOPPED || (*index > 0 && change.kind == ChangeKind::Resume)
    };
    let first_run = history.iter().enumerate().find(begins);
    let began = first_run.map_or(now, |(_, change)| change.map.in0);
    let mut end = now;
    let mut virtual_end = planned;
    for (index, change) in history.iter().enumerate() {
        let reached = change.map.first_reaching(planned);
        if let Some(reached) = reached.filter(|reached| *reached <= until(index)) {
            (end, virtual_end) = (reached, planned);
            break;
        }
        if change.map.in0 <= now {
            virtual_end = change.map.at(until(index));
        }
    }
    let mut reckoning = Reckoning {
        virtual_time: virtual_end - Instant::ZERO,
        wall: end - began,
        paused: Duration::ZERO,
        pauses: 0,
    };
    let mut paused = false;
    for (index, change) in history.iter().enumerate() {
        let (from, to) = (change.map.in0.max(began), until(index).min(end));
        // A clock that is not paused stands as well where computing takes no time.
        match change.kind {
            ChangeKind::Pause => paused = true,
            ChangeKind::Resume => paused = false,
            ChangeKind::Dilate | ChangeKind::Skip => {}
        }
        if paused && from < to {
            reckoning.paused += to - from;
            reckoning.pauses += u64::from(change.kind == ChangeKind::Pause);
        }
    }
    reckoning
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_time::ClockMap;

    /// Stands until 100, runs, stands from 110 to 140, runs; by now it is 200.
    fn history() -> Vec<Change> {
        let wall = |ns| Instant::<Wall>::from_ns(ns);
        let mut map = ClockMap::new(wall(0), Instant::ZERO, Rate::STOPPED);
        let mut history = vec![Change {
            kind: ChangeKind::Pause,
            map,
        }];
        for (at, kind, rate) in [
            (100, ChangeKind::Resume, Rate::ONE),
            (110, ChangeKind::Pause, Rate::STOPPED),
            (140, ChangeKind::Resume, Rate::ONE),
            (160, ChangeKind::Pause, Rate::STOPPED),
        ] {
            map = map.continued(wall(at), rate);
            history.push(Change { kind, map });
        }
        history
    }

    fn figures(now: i64, planned: i64) -> [i64; 4] {
        let it = reckon(&history(), Instant::from_ns(now), Instant::from_ns(planned));
        [
            it.virtual_time.as_ns(),
            it.wall.as_ns(),
            it.paused.as_ns(),
            it.pauses as i64,
        ]
    }

    #[test]
    fn a_run_that_got_there_ends_at_the_very_instant() {
        assert_eq!(figures(200, 20), [20, 50, 30, 1]);
        assert_eq!(figures(200, 5), [5, 5, 0, 0]);
    }

    #[test]
    fn a_run_that_was_cut_short_ends_when_it_was() {
        assert_eq!(figures(150, 1000), [20, 50, 30, 1]);
        assert_eq!(figures(130, 1000), [10, 30, 20, 1]);
        assert_eq!(figures(200, 1000), [30, 100, 70, 2]);
    }
}
