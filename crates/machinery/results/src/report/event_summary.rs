//! Summary of a run's events about attacks, alarms and writes to devices. It is computed while the
//! events are read, because the events of a long run do not fit in memory.

use std::collections::BTreeMap;

use super::data::seconds;
use super::outline::Weights;
use super::timelines::StatusChanges;
use crate::{DeviceWrite, EventRow, ResultsError, RunDirectory};

/// Kind of an event for a frame with a spoofed sender.
const SPOOFED: &str = "spoofed";
/// Kinds of reported events.
const KINDS: [&str; 8] = [
    DeviceWrite::KIND,
    SPOOFED,
    "violation",
    "trouble",
    "alarm",
    "control",
    "link",
    "attack",
];

/// Summary of a run's events.
#[derive(Default)]
pub(super) struct EventSummary {
    /// True if the run has a frame with a spoofed sender.
    pub(super) has_spoofed: bool,
    /// Times of events, by rank and name of the lane. Spoofed frames come first, then alarms, then
    /// writes.
    lanes: BTreeMap<(Rank, String), Weights>,
    /// First event of each kind, source and beginning of its text. Writes are not included.
    moments: BTreeMap<(String, String, String), Moment>,
    /// Statistics of writes, by writer, register and signal.
    pub(super) writes: BTreeMap<(String, String, String), Written>,
    /// Number of events that were left out because the summary had too many entries.
    pub(super) left_out: usize,
}

/// Rank of a lane, which determines the order of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Lie,
    Alarm,
    Write,
}

/// First of several events that differ only in a count.
pub(super) struct Moment {
    pub(super) at_s: f64,
    pub(super) text: String,
}

/// Statistics of the writes of one writer to one signal. Pairs are a time in seconds and a value.
pub(super) struct Written {
    pub(super) count: usize,
    pub(super) first: (f64, f64),
    pub(super) last: (f64, f64),
    pub(super) least: f64,
    pub(super) greatest: f64,
    /// Time of the write with the largest change, and that change.
    pub(super) step: (f64, f64),
}

impl EventSummary {
    /// Reads a run's events in one pass. Also returns the changes of the timelines' status.
    pub(super) fn load(directory: &RunDirectory) -> Result<(Self, StatusChanges), ResultsError> {
        let (mut summary, mut statuses) = (Self::default(), StatusChanges::default());
        directory.for_each(|row: EventRow| {
            if KINDS.contains(&&*row.kind) {
                summary.take(&row);
            }
            statuses.take(&row);
            Ok(())
        })?;
        statuses.sort();
        Ok((summary, statuses))
    }

    /// Returns true if the run has no events of the covered kinds.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns at most `most` lanes: rank, name, and times in seconds of virtual time.
    pub(super) fn lanes(&self, most: usize) -> Vec<(Rank, &str, Vec<f64>)> {
        let instants = |weights: &Weights| {
            let all = weights.clone().into_sorted().into_iter();
            all.map(|(at_ns, _)| at_ns as f64 / 1e9).collect()
        };
        let lanes = self.lanes.iter().take(most);
        lanes
            .map(|((rank, name), weights)| (*rank, name.as_str(), instants(weights)))
            .collect()
    }

    /// Returns the moments, each with the kind of its event.
    pub(super) fn moments(&self) -> impl Iterator<Item = (&str, &Moment)> {
        let all = self.moments.iter();
        all.map(|((kind, ..), moment)| (kind.as_str(), moment))
    }

    fn take(&mut self, event: &EventRow) {
        let at_s = seconds(event.t_virtual);
        let write = match &*event.kind {
            DeviceWrite::KIND => event.text.parse::<DeviceWrite>().ok(),
            _ => None,
        };
        let (rank, name) = match &*event.kind {
            SPOOFED => (Rank::Lie, format!("spoofed by {}", event.host)),
            DeviceWrite::KIND => {
                let writer = write.as_ref().map_or(&*event.host, |write| &write.writer);
                (Rank::Write, format!("{writer} writes {}", event.source))
            }
            kind => (Rank::Alarm, format!("{kind}: {}", event.source)),
        };
        self.has_spoofed |= rank == Rank::Lie;
        if let Some(lane) = entry(&mut self.lanes, (rank, name), Weights::default) {
            lane.add(event.t_virtual.as_ns(), 1);
        }
        let has_row = match (rank, write) {
            (Rank::Write, Some(write)) => self.note_write(event, write, at_s),
            (Rank::Write, None) => true,
            _ => self.note_moment(event, at_s),
        };
        self.left_out += usize::from(!has_row);
    }

    fn note_moment(&mut self, event: &EventRow, at_s: f64) -> bool {
        // If a spoof continues, the text of the event ends with a count, which must be ignored
        // here.
        let head = event.text.split(", and ").next().unwrap_or_default();
        let key = (
            event.kind.to_string(),
            event.source.to_string(),
            head.to_owned(),
        );
        let first = || Moment {
            at_s: f64::INFINITY,
            text: String::new(),
        };
        let Some(moment) = entry(&mut self.moments, key, first) else {
            return false;
        };
        if at_s < moment.at_s {
            let text = format!("{}: {}", event.source, event.text);
            *moment = Moment { at_s, text };
        }
        true
    }

    fn note_write(&mut self, event: &EventRow, write: DeviceWrite, at_s: f64) -> bool {
        let address = write
            .from
            .rsplit_once(':')
            .map_or(&*write.from, |(ip, _)| ip);
        let writer = format!("{} ({address})", write.writer);
        let register = format!("{}, {}", event.source, write.register);
        let now = (at_s, write.new);
        let first = || Written {
            count: 0,
            first: now,
            last: now,
            least: write.new,
            greatest: write.new,
            step: (0.0, at_s),
        };
        let Some(it) = entry(&mut self.writes, (writer, register, write.signal), first) else {
            return false;
        };
        it.count += 1;
        if at_s < it.first.0 {
            it.first = now;
        }
        if at_s >= it.last.0 {
            it.last = now;
        }
        it.least = it.least.min(write.new);
        it.greatest = it.greatest.max(write.new);
        let step = write.old.map_or(0.0, |old| (write.new - old).abs());
        if step > it.step.0 {
            it.step = (step, at_s);
        }
        true
    }
}

/// Returns the value of a key, and inserts it if it is missing. Returns `None` if the key is
/// missing and there are already [`MOST`] entries.
fn entry<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, new: impl FnOnce() -> V) -> Option<&mut V> {
    if all.len() >= MOST && !all.contains_key(&key) {
        return None;
    }
    Some(all.entry(key).or_insert_with(new))
}

/// Maximum number of entries, which is far more than a page shows.
const MOST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_time::Instant;

    fn event(at_s: i64, kind: &str, text: String) -> EventRow {
        EventRow {
            t_virtual: Instant::from_ns(at_s * 1_000_000_000),
            t_wall: Instant::ZERO,
            host: "plc".into(),
            source: "device".into(),
            kind: kind.into(),
            text: text.into(),
        }
    }

    #[test]
    fn events_that_differ_each_time_are_counted_and_kept_up_to_a_bound() {
        let mut summary = EventSummary::default();
        let count = 3 * MOST;
        for number in 0..count {
            summary.take(&event(number as i64, "alarm", format!("level {number}")));
        }
        assert_eq!(summary.moments().count(), MOST);
        assert_eq!(summary.left_out, count - MOST);
        let lanes = summary.lanes(16);
        assert_eq!(lanes.len(), 1);
        assert_eq!(lanes[0].2.len(), count, "each is an instant of its lane");
    }

    #[test]
    fn a_moment_is_the_first_in_time_of_those_that_say_one_thing() {
        let mut summary = EventSummary::default();
        for at_s in [7, 3, 5] {
            summary.take(&event(
                at_s,
                SPOOFED,
                format!("it lied, and {at_s} times more"),
            ));
        }
        let all: Vec<_> = summary.moments().collect();
        let [(SPOOFED, first)] = all[..] else {
            panic!("{}", all.len());
        };
        assert_eq!(first.at_s, 3.0);
        assert_eq!(first.text, "device: it lied, and 3 times more");
        assert!(summary.has_spoofed);
    }
}
