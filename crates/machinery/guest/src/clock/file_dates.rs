//! Conversion of the kernel's dates of files to the hosts' clocks, and a record of dates set by
//! programs.
//!
//! The kernel dates files by the machine's CLOCK_REALTIME as of its last tick. For every change of
//! a host's clock since the session began, the host therefore keeps a line: a linear map from the
//! machine's CLOCK_REALTIME to its own. A date is converted by the line that was in force at that
//! date, so its virtual value never changes later.
//!
//! A date set by a program is stored with its inode and never converted.

use std::collections::HashMap;

use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{Duration, Instant, Rate, Wall};

use super::{Clock, Host};

/// Readings of the machine's clock by which the kernel dates files, and the dates set by programs.
pub(super) struct FileDates {
    /// Start of the session by the machine's CLOCK_REALTIME, as of the kernel's last tick before
    /// it, in nanoseconds since 1970.
    pub(super) from_ns: i64,
    /// The machine's CLOCK_REALTIME minus its CLOCK_MONOTONIC, in nanoseconds.
    ahead_ns: i64,
    /// Wall instant at which `ahead_ns` was measured.
    looked: Instant<Wall>,
    /// Date of the kernel tick at which time is about to skip, in nanoseconds since 1970.
    pub(super) tick_ns: Option<i64>,
    /// Dates of access and modification set by programs, by device and inode number.
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

    /// Returns the onset, in the machine's dates, of a line that comes into force now, at `wall`.
    pub(super) fn onset(&self, wall: Instant<Wall>) -> Onset {
        let at_ns = self.realtime_ns(wall);
        Onset {
            from_ns: self.tick_ns.unwrap_or(at_ns).min(at_ns),
            at_ns,
        }
    }

    /// Returns the machine's CLOCK_REALTIME at `wall`, in nanoseconds. `wall` must be now, or a
    /// moment ago.
    pub(super) fn realtime_ns(&self, wall: Instant<Wall>) -> i64 {
        wall.as_ns() + self.ahead_ns
    }

    /// Measures the difference of the machine's clocks again. Returns true if its CLOCK_REALTIME
    /// was set since the last measurement.
    fn notice_step(&mut self, wall: Instant<Wall>) -> bool {
        if wall - self.looked <= LOOK_EVERY {
            return false;
        }
        self.looked = wall;
        let ahead_ns = realtime_ahead_ns();
        // Two measurements differ by a little; a step of the clock is larger.
        let is_step = (ahead_ns - self.ahead_ns).abs() > STEP_NS;
        if is_step {
            self.ahead_ns = ahead_ns;
        }
        is_step
    }
}

/// Linear maps from the machine's CLOCK_REALTIME to a host's, in the order of their onsets.
#[derive(Default)]
pub(super) struct DateLines {
    lines: Vec<DateLine>,
    /// True if some lines were dropped, so that dates may be wrong.
    is_thinned: bool,
}

/// Onset of a line by the machine's CLOCK_REALTIME, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Onset {
    /// First date that the line converts. Where time skips, this is the kernel's last tick before
    /// the skip.
    pub(super) from_ns: i64,
    pub(super) at_ns: i64,
}

#[derive(Clone, Copy)]
struct DateLine {
    /// First of the machine's dates that the line converts, in nanoseconds since 1970.
    from_ns: i64,
    /// The machine's CLOCK_REALTIME at the start of the line, in nanoseconds.
    machine_ns: i64,
    /// The host's CLOCK_REALTIME at the start of the line, in nanoseconds.
    shown_ns: i64,
    /// The host's CLOCK_REALTIME, in nanoseconds, at which the host's clock stops by itself.
    most_ns: i64,
    /// Time of the host per time of the machine.
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
    /// Adds a line that comes into force at `onset`.
    pub(super) fn push(&mut self, onset: Onset, shown_ns: i64, most_ns: i64, rate: Rate) {
        // If the machine's clock was set back, one date may mean two instants. It is then taken for
        // the later one.
        let is_ahead = |last: &DateLine| last.from_ns > onset.from_ns + SET_BACK_NS;
        while self.lines.last().is_some_and(is_ahead) {
            self.lines.pop();
        }
        // The tick of a skip may be earlier than the onset of the last line, which then had no
        // effect.
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

    /// Returns the host's CLOCK_REALTIME, in nanoseconds, when the machine's was `machine_ns`.
    /// Returns `None` if there is no line for that date.
    pub(super) fn at(&self, machine_ns: i64) -> Option<i64> {
        let index = self
            .lines
            .partition_point(|line| line.from_ns <= machine_ns);
        Some(self.lines.get(index.saturating_sub(1))?.at(machine_ns))
    }

    /// Drops every second line of the older ones.
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
    /// Returns true if programs see virtual dates of files.
    pub(crate) fn dates_files(&self) -> bool {
        self.lock().file_dates.is_some()
    }

    /// Returns the date that programs of `host` see in place of a file's date; both are in
    /// nanoseconds since 1970. `file` is the device and inode number.
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
        // The kernel sets no dates in the future, so a program has set this one.
        let now_ns = dates.realtime_ns(wall) + SLACK_NS;
        if is_set || date_ns < dates.from_ns || date_ns > now_ns {
            return date_ns;
        }
        let shown = state.hosts[host.index()].date_lines.at(date_ns);
        shown.unwrap_or(date_ns)
    }

    /// Records that a program has set a date of a file: of the last access if `is_access`,
    /// otherwise of the last modification.
    pub(crate) fn keep_date(&self, file: [u64; 2], date_ns: i64, is_access: bool) {
        let mut state = self.lock();
        let Some(dates) = &mut state.file_dates else {
            return;
        };
        if dates.set.len() < MOST_FILES || dates.set.contains_key(&file) {
            dates.set.entry(file).or_default()[usize::from(!is_access)] = Some(date_ns);
        }
    }

    /// If dates of files are virtual, waits for the kernel's next tick before a skip of time. Files
    /// written after the skip then have later dates than all files written before it. The caller
    /// ensures that no file is written during the wait.
    pub(crate) fn await_tick(&self) {
        let begun = self.wall();
        let tick_ns = next_reading(coarse_realtime_ns, || {
            std::thread::sleep(LOOK_FOR_TICK);
            self.wall() - begun < LONGEST_TICK
        });
        if let Some(dates) = &mut self.lock().file_dates {
            dates.tick_ns = tick_ns;
        }
    }

    /// Discards the tick that [`Self::await_tick`] has waited for. Called after the skip, or if
    /// there was none.
    pub(crate) fn forget_tick(&self) {
        if let Some(dates) = &mut self.lock().file_dates {
            dates.tick_ns = None;
        }
    }

    /// Returns a sentence with the reason why dates of files may be wrong, or `None` if they are
    /// right.
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

/// Returns the machine's CLOCK_REALTIME minus its CLOCK_MONOTONIC, in nanoseconds, from readings
/// that were not interrupted.
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

/// Returns the first reading that differs from the present one; `None` if there is none in time.
/// Between two readings, `wait` waits and returns false when the time is over.
fn next_reading(mut read: impl FnMut() -> i64, mut wait: impl FnMut() -> bool) -> Option<i64> {
    let present = read();
    loop {
        // On a busy machine, a short wait may take longer than all the time. A reading follows it.
        let is_over = !wait();
        let reading = read();
        if reading != present {
            return Some(reading);
        }
        if is_over {
            return None;
        }
    }
}

/// Returns CLOCK_REALTIME_COARSE in nanoseconds, by which the kernel dates files.
fn coarse_realtime_ns() -> i64 {
    read_ns(ClockId::RealtimeCoarse)
}

const TRIES: u32 = 3;
/// Upper bound of a kernel tick: 100 ticks per second, with a margin.
const LONGEST_TICK: Duration = Duration::from_ms(50);
const LOOK_FOR_TICK: std::time::Duration = std::time::Duration::from_micros(100);
/// Maximum time in nanoseconds by which a line may begin before the previous one: one tick.
const SET_BACK_NS: i64 = 50_000_000;
const LOOK_EVERY: Duration = Duration::from_ms(100);
const STEP_NS: i64 = 1_000_000;
/// Error bound, in nanoseconds, for the reading of the machine's CLOCK_REALTIME.
const SLACK_NS: i64 = 1_000_000;
/// Maximum difference, in nanoseconds, of two lines through the same point, caused by rounding.
const ROUNDING_NS: i64 = 100;
/// Maximum number of lines of one host, which take 96 MiB.
const MOST_LINES: usize = 1 << 21;
/// Maximum number of inodes with a stored date, which take about 80 MiB.
const MOST_FILES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: i64 = i64::MAX;

    /// If one wait takes all the time, the tick that came meanwhile must not be missed: files would
    /// keep dates from before the skip.
    #[test]
    fn a_tick_during_a_long_wait_is_found() {
        let mut readings = [7, 8].into_iter();
        assert_eq!(next_reading(|| readings.next().unwrap(), || false), Some(8));
        let mut waits = 0;
        let wait = || {
            waits += 1;
            waits < 3
        };
        assert_eq!(next_reading(|| 7, wait), None);
        assert_eq!(waits, 3);
    }

    fn at(ns: i64) -> Onset {
        Onset {
            from_ns: ns,
            at_ns: ns,
        }
    }

    #[test]
    fn a_date_stays_the_same_over_any_number_of_clock_changes() {
        let mut lines = DateLines::default();
        let half = Rate::from_ratio(1, 2).expect("a rate");
        lines.push(at(1_000), 50_000, OPEN, Rate::ONE);
        lines.push(at(2_000), 51_000, OPEN, Rate::STOPPED);
        lines.push(at(3_000), 51_000, OPEN, half);
        // Time skips from here on.
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

    /// Time skips shortly after a tick, and no file was written between the tick and the skip. So
    /// files dated by that tick were written after the skip.
    #[test]
    fn a_skip_counts_from_its_tick_on() {
        let mut lines = DateLines::default();
        lines.push(at(0), 0, OPEN, Rate::ONE);
        let tick = 4_000_000;
        // A change between tick and skip has no effect.
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
        // The onset is later than the tick.
        assert_eq!(lines.at(tick + 700), Some(1_000_000_200));
    }

    /// A line that continues the previous one is not stored.
    #[test]
    fn a_line_that_continues_the_previous_one_is_not_kept() {
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
