//! What the hosts' clocks showed when the kernel dated a file, and which dates are not its.
//!
//! The kernel dates files by the machine's CLOCK_REALTIME, as of its last tick. So each host
//! keeps a line from that to its own CLOCK_REALTIME for every change of its clock since the
//! session began. A date is put onto the line that was in force then: it stays what it is,
//! however often the clock changes afterwards.
//!
//! A date that a program has set is kept with its inode and never changed.

use std::collections::HashMap;

use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{Duration, Instant, Rate, Wall};

use super::{Clock, Host};

/// The machine's clock as its kernel dates files by it, and the dates set by programs.
pub(super) struct FileDates {
    /// When the session began, by the kernel's last tick then.
    pub(super) from_ns: i64,
    /// The machine's CLOCK_REALTIME less its CLOCK_MONOTONIC.
    ahead_ns: i64,
    /// When that was looked at.
    looked: Instant<Wall>,
    /// The tick of the kernel's at which time is about to skip.
    pub(super) tick_ns: Option<i64>,
    /// By device and number of the inode: access, modification.
    set: HashMap<[u64; 2], [Option<i64>; 2]>,
}

impl FileDates {
    pub(super) fn new(wall: Instant<Wall>) -> Self {
        Self {
            from_ns: coarse_realtime_ns(),
            ahead_ns: realtime_ahead_ns(),
            looked: wall,
            tick_ns: None,
            set: HashMap::new(),
        }
    }

    /// The onset of a line that comes into force now.
    pub(super) fn onset(&self, wall: Instant<Wall>) -> Onset {
        let at_ns = self.realtime_ns(wall);
        Onset {
            from_ns: self.tick_ns.unwrap_or(at_ns).min(at_ns),
            at_ns,
        }
    }

    /// The machine's CLOCK_REALTIME at an instant that is now or was a moment ago.
    pub(super) fn realtime_ns(&self, wall: Instant<Wall>) -> i64 {
        wall.as_ns() + self.ahead_ns
    }

    /// Returns true if the machine's CLOCK_REALTIME was set since it was looked at.
    fn notice_step(&mut self, wall: Instant<Wall>) -> bool {
        if wall - self.looked <= LOOK_EVERY {
            return false;
        }
        self.looked = wall;
        let ahead_ns = realtime_ahead_ns();
        // Readings differ by a little, and a step of the clock by more.
        let is_step = (ahead_ns - self.ahead_ns).abs() > STEP_NS;
        if is_step {
            self.ahead_ns = ahead_ns;
        }
        is_step
    }
}

/// From the machine's CLOCK_REALTIME to a host's, line by line.
#[derive(Default)]
pub(super) struct DateLines {
    lines: Vec<DateLine>,
    /// Whether lines were left out.
    is_thinned: bool,
}

/// When a line came into force, by the machine's CLOCK_REALTIME.
#[derive(Clone, Copy)]
pub(super) struct Onset {
    /// The first date that it is for: where time skips, the kernel's last tick before.
    pub(super) from_ns: i64,
    pub(super) at_ns: i64,
}

#[derive(Clone, Copy)]
struct DateLine {
    /// The first of the machine's dates that it is for.
    from_ns: i64,
    /// The machine's CLOCK_REALTIME at its start.
    machine_ns: i64,
    /// The host's at its start.
    shown_ns: i64,
    /// Where the host's stops by itself.
    most_ns: i64,
    /// Shown per machine.
    rate: Rate,
}

impl DateLine {
    fn at(&self, machine_ns: i64) -> i64 {
        let elapsed_ns = (machine_ns - self.machine_ns).max(0) as u64;
        let passed_ns = i64::try_from(self.rate.apply(elapsed_ns)).unwrap_or(i64::MAX);
        self.shown_ns.saturating_add(passed_ns).min(self.most_ns)
    }
}

impl DateLines {
    /// A line comes into force.
    pub(super) fn push(&mut self, onset: Onset, shown_ns: i64, most_ns: i64, rate: Rate) {
        // Where the machine's clock was set back, dates mean the later of two instants.
        let is_ahead = |last: &DateLine| last.from_ns > onset.from_ns + SET_BACK_NS;
        while self.lines.last().is_some_and(is_ahead) {
            self.lines.pop();
        }
        // The tick at which time skips may lie before a change that did not matter.
        let last_ns = self.lines.last().map_or(onset.from_ns, |last| last.from_ns);
        let machine_ns = onset.at_ns;
        let line = DateLine {
            from_ns: onset.from_ns.max(last_ns),
            machine_ns,
            shown_ns,
            most_ns,
            rate,
        };
        let goes_on = |last: &DateLine| {
            let same = last.rate == rate && last.most_ns == most_ns;
            same && (last.at(machine_ns) - shown_ns).abs() <= ROUNDING_NS
        };
        if self.lines.last().is_some_and(goes_on) {
            return;
        }
        if self.lines.len() == MOST_LINES {
            self.thin();
        }
        self.lines.push(line);
    }

    /// What the host's clock showed when the machine's showed this.
    pub(super) fn at(&self, machine_ns: i64) -> Option<i64> {
        let index = self
            .lines
            .partition_point(|line| line.from_ns <= machine_ns);
        Some(self.lines.get(index.saturating_sub(1))?.at(machine_ns))
    }

    /// Leaves out every second of the older lines.
    fn thin(&mut self) {
        let half = self.lines.len() / 2;
        let mut index = 0;
        self.lines.retain(|_| {
            index += 1;
            index > half || index % 2 == 1
        });
        self.is_thinned = true;
    }
}

impl Clock {
    /// Whether programs see virtual dates of files.
    pub(crate) fn dates_files(&self) -> bool {
        self.lock().file_dates.is_some()
    }

    /// What programs of `host` are to see instead of a date of a file.
    pub(crate) fn file_date(&self, host: &Host, file: [u64; 2], date_ns: i64) -> i64 {
        let mut state = self.lock();
        let wall = self.wall();
        let Some(dates) = &mut state.file_dates else {
            return date_ns;
        };
        if dates.notice_step(wall) {
            let moment = state.moment(Instant::from_ticks(self.counter.ticks()));
            state
                .hosts
                .iter_mut()
                .for_each(|host| host.note_dates(&moment));
        }
        let Some(dates) = &state.file_dates else {
            return date_ns;
        };
        let set = dates.set.get(&file);
        let is_set = set.is_some_and(|set| set.contains(&Some(date_ns)));
        // The kernel dates nothing in the future.
        let now_ns = dates.realtime_ns(wall) + SLACK_NS;
        if is_set || date_ns < dates.from_ns || date_ns > now_ns {
            return date_ns;
        }
        let shown = state.hosts[host.index()].date_lines.at(date_ns);
        shown.unwrap_or(date_ns)
    }

    /// A program has set this date of a file.
    pub(crate) fn keep_date(&self, file: [u64; 2], date_ns: i64, is_access: bool) {
        let mut state = self.lock();
        let Some(dates) = &mut state.file_dates else {
            return;
        };
        if dates.set.len() < MOST_FILES || dates.set.contains_key(&file) {
            dates.set.entry(file).or_default()[usize::from(!is_access)] = Some(date_ns);
        }
    }

    /// Waits for the kernel's next tick where dates of files are virtual: what is written after
    /// a skip that follows has a later date than all that was written before. The caller makes
    /// sure that nothing was written meanwhile.
    pub(crate) fn await_tick(&self) {
        let (before_ns, begun) = (coarse_realtime_ns(), self.wall());
        while self.wall() - begun < LONGEST_TICK {
            let tick_ns = coarse_realtime_ns();
            if tick_ns != before_ns {
                if let Some(dates) = &mut self.lock().file_dates {
                    dates.tick_ns = Some(tick_ns);
                }
                return;
            }
            std::thread::sleep(LOOK_FOR_TICK);
        }
    }

    /// Time has skipped, or does not.
    pub(crate) fn forget_tick(&self) {
        if let Some(dates) = &mut self.lock().file_dates {
            dates.tick_ns = None;
        }
    }

    /// In a sentence, why dates of files may be wrong, if they may.
    pub fn doubt_of_file_dates(&self) -> Option<&'static str> {
        let state = self.lock();
        let dates = state.file_dates.as_ref()?;
        let is_thinned = state.hosts.iter().any(|host| host.date_lines.is_thinned);
        (is_thinned || dates.set.len() >= MOST_FILES).then_some(
            "Dates of older files may be wrong: the clock changed, or dates were set, more often \
             than is kept.",
        )
    }
}

/// The machine's CLOCK_REALTIME less its CLOCK_MONOTONIC, by readings that were not interrupted.
fn realtime_ahead_ns() -> i64 {
    let reading = || {
        let before = read_ns(ClockId::Monotonic);
        let realtime = read_ns(ClockId::Realtime);
        let after = read_ns(ClockId::Monotonic);
        (after - before, realtime - before - (after - before) / 2)
    };
    let readings = (0..TRIES).map(|_| reading());
    readings
        .min_by_key(|(apart, _)| *apart)
        .map_or(0, |(_, ahead)| ahead)
}

/// By what the kernel dates files.
fn coarse_realtime_ns() -> i64 {
    read_ns(ClockId::RealtimeCoarse)
}

const TRIES: u32 = 3;
/// Of a kernel with 100 ticks a second, with room.
const LONGEST_TICK: Duration = Duration::from_ms(50);
const LOOK_FOR_TICK: std::time::Duration = std::time::Duration::from_micros(100);
/// A line may begin earlier than the one before by a tick.
const SET_BACK_NS: i64 = 50_000_000;
const LOOK_EVERY: Duration = Duration::from_ms(100);
const STEP_NS: i64 = 1_000_000;
/// As much may the machine's CLOCK_REALTIME be misjudged.
const SLACK_NS: i64 = 1_000_000;
/// As much as two lines through one point may differ.
const ROUNDING_NS: i64 = 100;
/// Of one host: 96 MiB.
const MOST_LINES: usize = 1 << 21;
/// Some 80 MiB.
const MOST_FILES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: i64 = i64::MAX;

    fn at(ns: i64) -> Onset {
        Onset {
            from_ns: ns,
            at_ns: ns,
        }
    }

    #[test]
    fn a_date_stays_what_it_is_however_often_the_clock_changes() {
        let mut lines = DateLines::default();
        let half = Rate::from_ratio(1, 2).expect("a rate");
        lines.push(at(1_000), 50_000, OPEN, Rate::ONE);
        lines.push(at(2_000), 51_000, OPEN, Rate::STOPPED);
        lines.push(at(3_000), 51_000, OPEN, half);
        // It skips.
        lines.push(at(4_000), 90_000, OPEN, half);
        let dates = [500, 1_000, 1_999, 2_500, 3_500, 4_002];
        let expected = [50_000, 50_000, 50_999, 51_000, 51_250, 90_001];
        assert_eq!(dates.map(|date| lines.at(date)), expected.map(Some));
        for change in 5..10_000 {
            let rate = if change % 2 == 0 { half } else { Rate::ONE };
            lines.push(at(change * 1_000), change * 90_000, OPEN, rate);
        }
        assert_eq!(dates.map(|date| lines.at(date)), expected.map(Some));
    }

    #[test]
    fn a_clock_that_stopped_by_itself_showed_no_more() {
        let mut lines = DateLines::default();
        lines.push(at(0), 0, 500, Rate::ONE);
        assert_eq!(lines.at(400), Some(400));
        assert_eq!(lines.at(900), Some(500));
    }

    /// Time skipped a little after a tick, since when nothing was written: what is dated by that
    /// tick was written after the skip.
    #[test]
    fn a_skip_counts_from_its_tick_on() {
        let mut lines = DateLines::default();
        lines.push(at(0), 0, OPEN, Rate::ONE);
        let tick = 4_000_000;
        // A change in between that does not matter.
        lines.push(at(tick + 10), tick + 10, OPEN, Rate::STOPPED);
        let skip = Onset {
            from_ns: tick,
            at_ns: tick + 500,
        };
        lines.push(skip, 1_000_000_000, OPEN, Rate::ONE);
        assert_eq!(lines.at(tick - 1), Some(tick - 1));
        for date in [tick + 10, tick + 500] {
            assert_eq!(lines.at(date), Some(1_000_000_000));
        }
        // Not as early as the tick was.
        assert_eq!(lines.at(tick + 700), Some(1_000_000_200));
    }

    /// A line that goes on as the one before takes no room.
    #[test]
    fn what_changes_nothing_is_not_kept() {
        let mut lines = DateLines::default();
        for s in 0..1_000 {
            lines.push(at(s * 1_000_000), s * 1_000_000 + 7, OPEN, Rate::ONE);
        }
        assert_eq!(lines.lines.len(), 1);
    }

    #[test]
    fn lines_do_not_grow_without_end() {
        let mut lines = DateLines::default();
        for step in 0..(MOST_LINES as i64 + 10) {
            lines.push(at(step * 10), step * 1_000, OPEN, Rate::STOPPED);
        }
        assert!(lines.lines.len() <= MOST_LINES && lines.is_thinned);
    }
}
