//! Brown's calendar queue, for comparison with the queue in use.

use timeloom_engine::Event;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

/// Calendar queue by R. Brown, "Calendar queues", CACM 31(10), 1988. Time is divided into days of
/// equal length, and the days form a cyclic year. The number of days follows the number of events;
/// the length of a day follows the mean distance between the first events.
///
/// The mean is the weakness of the method: with packets a microsecond apart and timers a fifth of a
/// second away, no single length is suitable.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Events of each day, in descending order, so that the first event is at the end of the
    /// vector.
    days: Vec<Vec<Event>>,
    /// Length of a day, in ns.
    width: i64,
    /// Day at which the search for the first event begins, counted from the zero of virtual time.
    today: i64,
    len: usize,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            days: vec![Vec::new(); 2],
            width: 1_000,
            today: 0,
            len: 0,
        }
    }
}

impl Calendar {
    fn day(&self, event: &Event) -> i64 {
        event.at.as_ns().div_euclid(self.width)
    }

    fn index(&self, day: i64) -> usize {
        day as usize & (self.days.len() - 1)
    }

    fn insert(&mut self, event: Event) {
        let day = self.day(&event);
        self.today = self.today.min(day);
        let index = self.index(day);
        let list = &mut self.days[index];
        let place = list.partition_point(|other| *other > event);
        list.insert(place, event);
    }

    /// Returns the day of the first event. Searches the days of one year, and all events if those
    /// days are empty.
    fn first_day(&self) -> Option<i64> {
        if self.len == 0 {
            return None;
        }
        for day in self.today..self.today.saturating_add(self.days.len() as i64) {
            let last = self.days[self.index(day)].last();
            if last.is_some_and(|event| self.day(event) == day) {
                return Some(day);
            }
        }
        let firsts = self.days.iter().filter_map(|day| day.last());
        firsts.min().map(|event| self.day(event))
    }

    /// Redistributes all events over `days` days. The new length of a day is three times the mean
    /// distance between the first 25 events (the paper's section 3).
    fn resize(&mut self, days: usize) {
        let mut all: Vec<Event> = self.days.drain(..).flatten().collect();
        all.sort_unstable();
        let sample = &all[..all.len().min(25)];
        if let [first, .., last] = sample {
            let mean = (last.at - first.at).as_ns() / (sample.len() as i64 - 1);
            self.width = (3 * mean).max(1);
        }
        self.days = vec![Vec::new(); days];
        self.today = all.first().map_or(0, |event| self.day(event));
        for event in all {
            self.insert(event);
        }
    }
}

impl EventQueue for Calendar {
    fn push(&mut self, event: Event) {
        self.len += 1;
        self.insert(event);
        if self.len > 2 * self.days.len() {
            self.resize(self.days.len() * 2);
        }
    }

    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event> {
        let day = self.first_day()?;
        let index = self.index(day);
        self.days[index].last().filter(|event| event.at <= limit)?;
        self.today = day;
        let event = self.days[index].pop()?;
        self.len -= 1;
        if self.days.len() > 2 && self.len < self.days.len() / 2 {
            self.resize(self.days.len() / 2);
        }
        Some(event)
    }

    fn first_at(&self) -> Option<Instant<Virtual>> {
        let day = self.first_day()?;
        self.days[self.index(day)].last().map(|event| event.at)
    }

    fn len(&self) -> usize {
        self.len
    }
}
