//! TAI minus UTC, which a timeline of the scale `tai` adds to the readings of a UTC source.
//!
//! Three sources state the offset: the kernel, the configuration, and the table of leap seconds.
//! The kernel's value may be set by chronyd, by ptp4l or not at all; a kernel whose offset was
//! never set states 1 after a leap second. A wrong second would move every reading far outside its
//! interval. The daemon therefore uses an offset only if the table allows it at the present date
//! and the kernel and the configuration agree. If the table disproves one of these two, the daemon
//! uses the other and reports the contradiction.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;

use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{Duration, Instant, LeapSeconds, Utc};
use timeloom_timeline::protocol::TimelineScale;
use timeloom_timeline::shm::{SystemClock, SystemClockError};

use super::SourceFailure;
use crate::config::TimelineConfig;

/// Conversion from UTC to the scale of a timeline. The offset is determined for every query,
/// because the kernel may learn it later and a leap second changes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromUtc {
    scale: TimelineScale,
    configured_s: Option<i16>,
}

/// Offset that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaiOffset {
    pub(crate) offset_s: i16,
    /// Text about the contradiction between the kernel and the configuration, if the table of leap
    /// seconds disproved the kernel's value.
    pub(crate) contradiction: Option<String>,
}

/// Offset as stated by a source outside this daemon, such as the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated {
    /// TAI minus UTC in seconds; `None` if the source states no offset.
    pub(super) offset_s: Option<i32>,
    pub(super) by: &'static str,
}

impl FromUtc {
    pub(crate) fn of(timeline: &TimelineConfig) -> Self {
        Self {
            scale: timeline.scale,
            configured_s: timeline.tai_offset_s,
        }
    }

    pub(crate) fn scale(self) -> TimelineScale {
        self.scale
    }

    /// Returns the duration to add to UTC; zero for a local timeline.
    ///
    /// # Errors
    /// Fails if no offset is known, or if no stated offset is credible.
    pub(crate) fn now(self) -> Result<Duration, SourceFailure> {
        if self.scale == TimelineScale::Local {
            return Ok(Duration::ZERO);
        }
        let offset = self.offset()?;
        Ok(Duration::from_s(offset.offset_s.into()))
    }

    /// Returns a text about the contradiction between the present statements, with all values.
    pub(crate) fn contradiction(self) -> Option<String> {
        if self.scale == TimelineScale::Local {
            return None;
        }
        let unknown = SourceFailure::because(SystemClockError::NoTaiOffset);
        match self.offset() {
            Ok(offset) => offset.contradiction,
            Err(why) => Some(why).filter(|why| *why != unknown).map(|why| why.0),
        }
    }

    /// Determines the offset from the kernel's present statement, the configuration and the table.
    pub(crate) fn offset(self) -> Result<TaiOffset, SourceFailure> {
        let kernel = SystemClock::ask().ok().map(|kernel| kernel.tai_offset_s);
        self.judge(Stated {
            offset_s: kernel.filter(|offset_s| *offset_s != 0),
            by: "the kernel",
        })
    }

    /// Determines the offset from a statement by a source other than the kernel, at the present
    /// date.
    pub(super) fn judge(self, stated: Stated) -> Result<TaiOffset, SourceFailure> {
        let now = Instant::from_ns(read_ns(ClockId::Realtime));
        judge(stated, self.configured_s, now, &leap_seconds())
    }
}

fn judge(
    stated: Stated,
    configured_s: Option<i16>,
    now: Instant<Utc>,
    table: &LeapSeconds,
) -> Result<TaiOffset, SourceFailure> {
    let possible = table.possible_at(now);
    let by = stated.by;
    let plain = |offset_s| {
        Ok(TaiOffset {
            offset_s,
            contradiction: None,
        })
    };
    // Before 1972 the table cannot confirm a value.
    let is_possible = |s: i32| {
        let s = i16::try_from(s).ok();
        s.is_some_and(|s| possible.as_ref().is_none_or(|range| range.contains(&s)))
    };
    let allowed = || match &possible {
        None => "none at this date".to_owned(),
        Some(range) if range.start() == range.end() => format!("{} s", range.start()),
        Some(range) => format!("{} to {} s", range.start(), range.end()),
    };
    match (stated.offset_s, configured_s) {
        (None, None) => Err(SourceFailure::because(SystemClockError::NoTaiOffset)),
        (None, Some(ours)) if is_possible(ours.into()) => plain(ours),
        (None, Some(ours)) => Err(SourceFailure(format!(
            "the configuration says that TAI is {ours} s ahead of UTC, the table of leap seconds \
             allows {} at this date: correct tai_offset_s (`--tai-offset-s`) or the date",
            allowed()
        ))),
        (Some(theirs), None) if possible.is_some() && is_possible(theirs) => {
            plain(i16::try_from(theirs).unwrap_or_default())
        }
        (Some(theirs), None) => Err(SourceFailure(format!(
            "{by} says that TAI is {theirs} s ahead of UTC, the table of leap seconds allows {}: \
             set the offset or the date of the system clock right, or set the offset that applies \
             (`--tai-offset-s`, tai_offset_s in the configuration)",
            allowed()
        ))),
        (Some(theirs), Some(ours)) if theirs == i32::from(ours) && is_possible(theirs) => {
            plain(ours)
        }
        (Some(theirs), Some(ours)) => {
            let contradiction = format!(
                "{by} says that TAI is {theirs} s ahead of UTC, the configuration {ours} s, and \
                 the table of leap seconds allows {}",
                allowed()
            );
            if possible.is_some() && is_possible(ours.into()) && !is_possible(theirs) {
                return Ok(TaiOffset {
                    offset_s: ours,
                    contradiction: Some(contradiction),
                });
            }
            Err(SourceFailure(format!(
                "{contradiction}: correct the wrong one of the two"
            )))
        }
    }
}

/// Table read from a file, with the file's modification time.
type Known = Option<(SystemTime, Arc<LeapSeconds>)>;

/// Returns the machine's table of leap seconds if it is valid, and the built-in table otherwise.
/// The file is read again when its modification time changes.
fn leap_seconds() -> Arc<LeapSeconds> {
    static KNOWN: Mutex<Known> = Mutex::new(None);
    let mut known = KNOWN.lock();
    let changed = std::fs::metadata(LIST).and_then(|found| found.modified());
    let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
    match &*known {
        Some((as_of, table)) if *as_of == changed => table.clone(),
        _ => {
            let table = Arc::new(read_list().unwrap_or_else(LeapSeconds::built_in));
            *known = Some((changed, table.clone()));
            table
        }
    }
}

fn read_list() -> Option<LeapSeconds> {
    let file = File::open(LIST).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let table = LeapSeconds::parse(&text).ok()?;
    // An older file contains less than the built-in table.
    (table.expires() >= LeapSeconds::built_in().expires()).then_some(table)
}

/// Table of leap seconds that the system updates with its time zones.
const LIST: &str = "/usr/share/zoneinfo/leap-seconds.list";

/// Maximum length of the list in bytes. The list has about five thousand bytes.
const MOST_BYTES: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const Y2000: i64 = 946_684_800;
    const Y2020: i64 = 1_577_836_800;

    fn judged(kernel: i32, configured_s: Option<i16>, date_s: i64) -> Result<TaiOffset, String> {
        let now = Instant::ZERO + Duration::from_s(date_s);
        let stated = Stated {
            offset_s: Some(kernel).filter(|offset_s| *offset_s != 0),
            by: "the kernel",
        };
        judge(stated, configured_s, now, &LeapSeconds::built_in()).map_err(|untold| untold.0)
    }

    #[test]
    fn an_offset_is_used_when_table_kernel_and_configuration_agree() {
        let used = |kernel, configured, date| {
            let offset = judged(kernel, configured, date).unwrap();
            assert_eq!(offset.contradiction, None);
            offset.offset_s
        };
        assert_eq!(used(37, None, Y2020), 37);
        assert_eq!(used(37, Some(37), Y2020), 37);
        assert_eq!(used(0, Some(37), Y2020), 37);
        assert_eq!(used(32, None, Y2000), 32);
        // Before the first leap second only the configuration is evidence.
        assert_eq!(used(0, Some(37), 5), 37);
        assert_eq!(used(37, Some(37), 5), 37);
        // After the table has expired, a further leap second may have been inserted.
        let expired_s = LeapSeconds::built_in().expires().as_ns() / 1_000_000_000;
        assert_eq!(used(38, None, expired_s), 38);
    }

    #[test]
    fn a_kernel_that_the_table_disproves_is_overruled_and_named() {
        for kernel in [1, 36, 38, -37, 370_000] {
            let offset = judged(kernel, Some(37), Y2020).unwrap();
            assert_eq!(offset.offset_s, 37);
            let contradiction = offset.contradiction.unwrap();
            assert!(contradiction.contains(&format!("{kernel} s")));
            assert!(contradiction.contains("37 s"));
        }
    }

    #[test]
    fn undecidable_tai_offsets_are_refused_with_both_values() {
        let refused = |kernel, configured, date, parts: [&str; 2]| {
            let why = judged(kernel, configured, date).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        };
        refused(1, None, Y2020, ["1 s", "37 s"]);
        refused(0, None, Y2020, ["TAI", "--tai-offset-s"]);
        refused(0, Some(36), Y2020, ["36 s", "37 s"]);
        refused(37, Some(36), Y2020, ["37 s", "36 s"]);
        refused(1, Some(2), Y2020, ["1 s", "2 s"]);
        refused(37, None, 5, ["37 s", "none at this date"]);
        refused(37, Some(36), 5, ["37 s", "36 s"]);
        let expired_s = LeapSeconds::built_in().expires().as_ns() / 1_000_000_000;
        refused(38, Some(37), expired_s, ["38 s", "37 s"]);
    }

    #[test]
    fn the_machines_list_is_sound_where_there_is_one() {
        if std::path::Path::new(LIST).exists() {
            let text = std::fs::read_to_string(LIST).unwrap();
            assert!(LeapSeconds::parse(&text).is_ok());
        }
        assert!(leap_seconds().expires() >= LeapSeconds::built_in().expires());
    }
}
