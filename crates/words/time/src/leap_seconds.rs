//! Table of leap seconds: the difference between TAI and UTC at any date.
//!
//! The built-in table is that of the International Earth Rotation and Reference Systems Service
//! (IERS), which announces each leap second half a year in advance in its Bulletin C. A table
//! therefore has an expiry date. After that date the offset is uncertain by the leap seconds that
//! may have been announced since. [`LeapSeconds::parse`] reads the file that Linux distributions
//! update (`leap-seconds.list`).

use core::ops::RangeInclusive;

use crate::{Duration, Instant, Utc};

/// Leap seconds up to an expiry date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeapSeconds {
    /// Instants at which an offset takes effect, ascending, each with TAI minus UTC in seconds.
    changes: Vec<(Instant<Utc>, i16)>,
    expires: Instant<Utc>,
}

/// Reason for which a text is rejected as a table of leap seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeapSecondsError {
    /// The line with this number (counted from 1) is neither a comment nor an instant with an
    /// offset.
    Line(usize),
    /// No line `#@` gives the expiry of the table.
    NoExpiry,
    /// The offsets differ from those of the built-in table at a date that both tables cover.
    Contradicts,
}

impl core::fmt::Display for LeapSecondsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number} is not a leap second"),
            Self::NoExpiry => f.write_str("it states no expiry (a line `#@`)"),
            Self::Contradicts => f.write_str("it contradicts the built-in table of leap seconds"),
        }
    }
}

impl core::error::Error for LeapSecondsError {}

impl LeapSeconds {
    /// Returns the table built into this program.
    pub fn built_in() -> Self {
        let changes = BUILT_IN.map(|(ntp_s, offset_s)| (from_ntp(ntp_s), offset_s));
        Self {
            changes: changes.to_vec(),
            expires: from_ntp(EXPIRES_NTP_S),
        }
    }

    /// Parses a file in the format of `leap-seconds.list`.
    ///
    /// # Errors
    /// Fails if the text is not in that format, or contradicts the built-in table.
    pub fn parse(text: &str) -> Result<Self, LeapSecondsError> {
        let seconds = |text: &str| -> Option<i64> {
            let s: u32 = text.parse().ok()?;
            Some(s.into())
        };
        let (mut changes, mut expires) = (Vec::new(), None);
        for (index, line) in text.lines().enumerate() {
            let bad = LeapSecondsError::Line(index + 1);
            if let Some(end) = line.strip_prefix("#@") {
                expires = Some(from_ntp(seconds(end.trim()).ok_or(bad)?));
                continue;
            }
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(at) = words.next() else { continue };
            let at = seconds(at);
            let offset_s = words.next().and_then(|offset_s| offset_s.parse().ok());
            let (Some(at), Some(offset_s)) = (at, offset_s) else {
                return Err(bad);
            };
            let at = from_ntp(at);
            if changes.last().is_some_and(|&(last, _)| last >= at) {
                return Err(bad);
            }
            changes.push((at, offset_s));
        }
        let expires = expires.ok_or(LeapSecondsError::NoExpiry)?;
        let parsed = Self { changes, expires };
        let known = Self::built_in();
        let until = parsed.expires.min(known.expires);
        if parsed.changes_until(until) != known.changes_until(until) {
            return Err(LeapSecondsError::Contradicts);
        }
        Ok(parsed)
    }

    fn changes_until(&self, until: Instant<Utc>) -> &[(Instant<Utc>, i16)] {
        let end = self.changes.partition_point(|&(at, _)| at < until);
        &self.changes[..end]
    }

    /// Returns the expiry of the table: later leap seconds are unknown.
    pub fn expires(&self) -> Instant<Utc> {
        self.expires
    }

    /// Returns TAI minus UTC in seconds at `utc`. After the expiry of the table, this is the last
    /// known offset. Returns `None` before 1972, when the difference was not a whole number of
    /// seconds.
    pub fn offset_at(&self, utc: Instant<Utc>) -> Option<i16> {
        let after = self.changes.partition_point(|&(at, _)| at <= utc);
        Some(self.changes[after.checked_sub(1)?].1)
    }

    /// Returns the range of offsets (TAI minus UTC, in seconds) that are possible when a UTC clock
    /// shows `utc`; `None` before 1972.
    ///
    /// Two offsets are possible in the second before a leap second, because Unix time repeats that
    /// second's number for the inserted second. After the expiry, each half year may have added or
    /// removed one second.
    pub fn possible_at(&self, utc: Instant<Utc>) -> Option<RangeInclusive<i16>> {
        let now = self.offset_at(utc)?;
        let soon = self.offset_at(utc + Duration::from_s(1))?;
        let unknown = match utc < self.expires {
            true => 0,
            false => 1 + (utc - self.expires).as_ns() / LEAST_HALF_YEAR.as_ns(),
        };
        let unknown = i16::try_from(unknown).unwrap_or(i16::MAX);
        let least = now.min(soon).saturating_sub(unknown);
        Some(least..=now.max(soon).saturating_add(unknown))
    }
}

fn from_ntp(ntp_s: i64) -> Instant<Utc> {
    Instant::ZERO + Duration::from_s(ntp_s - NTP_TO_UNIX_S)
}

/// Shortest time between two possible leap seconds, which occur only at the end of June or
/// December.
const LEAST_HALF_YEAR: Duration = Duration::from_s(181 * 86_400);

/// Seconds from the NTP epoch, 1900-01-01, to the Unix epoch.
const NTP_TO_UNIX_S: i64 = 2_208_988_800;

/// Expiry of the built-in table in seconds since 1900: 2026-06-28, by Bulletin C 71.
const EXPIRES_NTP_S: i64 = 3_991_593_600;

/// Instants, in seconds since 1900, at which TAI minus UTC changes, and the new values in seconds.
const BUILT_IN: [(i64, i16); 28] = [
    (2_272_060_800, 10), // 1972-01-01
    (2_287_785_600, 11), // 1972-07-01
    (2_303_683_200, 12), // 1973-01-01
    (2_335_219_200, 13), // 1974-01-01
    (2_366_755_200, 14), // 1975-01-01
    (2_398_291_200, 15), // 1976-01-01
    (2_429_913_600, 16), // 1977-01-01
    (2_461_449_600, 17), // 1978-01-01
    (2_492_985_600, 18), // 1979-01-01
    (2_524_521_600, 19), // 1980-01-01
    (2_571_782_400, 20), // 1981-07-01
    (2_603_318_400, 21), // 1982-07-01
    (2_634_854_400, 22), // 1983-07-01
    (2_698_012_800, 23), // 1985-07-01
    (2_776_982_400, 24), // 1988-01-01
    (2_840_140_800, 25), // 1990-01-01
    (2_871_676_800, 26), // 1991-01-01
    (2_918_937_600, 27), // 1992-07-01
    (2_950_473_600, 28), // 1993-07-01
    (2_982_009_600, 29), // 1994-07-01
    (3_029_443_200, 30), // 1996-01-01
    (3_076_704_000, 31), // 1997-07-01
    (3_124_137_600, 32), // 1999-01-01
    (3_345_062_400, 33), // 2006-01-01
    (3_439_756_800, 34), // 2009-01-01
    (3_550_089_600, 35), // 2012-07-01
    (3_644_697_600, 36), // 2015-07-01
    (3_692_217_600, 37), // 2017-01-01
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_s: i64) -> Instant<Utc> {
        Instant::ZERO + Duration::from_s(unix_s)
    }

    #[test]
    fn offsets_by_date() {
        let table = LeapSeconds::built_in();
        assert_eq!(table.possible_at(at(0)), None);
        assert_eq!(table.possible_at(at(63_072_000)), Some(10..=10));
        // At 2000-01-01, and just before and after 2017-01-01.
        assert_eq!(table.possible_at(at(946_684_800)), Some(32..=32));
        assert_eq!(table.possible_at(at(1_483_228_798)), Some(36..=36));
        assert_eq!(table.possible_at(at(1_483_228_799)), Some(36..=37));
        assert_eq!(table.possible_at(at(1_483_228_800)), Some(37..=37));
        // Check the day before the expiry, the day of the expiry, and half a year later.
        let expires = table.expires();
        let day = Duration::from_s(86_400);
        assert_eq!(table.possible_at(expires - day), Some(37..=37));
        assert_eq!(table.possible_at(expires), Some(36..=38));
        let later = expires + LEAST_HALF_YEAR;
        assert_eq!(table.possible_at(later), Some(35..=39));
        let _ = table.possible_at(Instant::from_ns(i64::MAX - 1_000_000_000));
    }

    #[test]
    fn a_file_extends_the_built_in_table_and_must_not_contradict_it() {
        let lines = |changes: &[(i64, i16)], expires: i64| {
            let mut text = format!("# text\n#$\t3960835200\n#@\t{expires}\n#\n");
            for (at, offset_s) in changes {
                text.push_str(&format!("{at}\t{offset_s}\t# a date\n"));
            }
            text
        };
        let same = lines(&BUILT_IN, EXPIRES_NTP_S);
        assert_eq!(LeapSeconds::parse(&same), Ok(LeapSeconds::built_in()));
        // Add a leap second at the end of 2027.
        let mut more = BUILT_IN.to_vec();
        more.push((4_039_286_400, 38));
        let newer = LeapSeconds::parse(&lines(&more, 4_054_000_000)).unwrap();
        assert_eq!(newer.possible_at(at(1_830_297_600)), Some(38..=38));
        let older = LeapSeconds::parse(&lines(&BUILT_IN[..20], 3_000_000_000));
        assert_eq!(older.unwrap().offset_at(at(946_684_800)), Some(29));
        let missing = lines(&BUILT_IN[..27], EXPIRES_NTP_S);
        let contradicts = Err(LeapSecondsError::Contradicts);
        assert_eq!(LeapSeconds::parse(&missing), contradicts);
        assert_eq!(
            LeapSeconds::parse("2272060800 10"),
            Err(LeapSecondsError::NoExpiry)
        );
        assert_eq!(
            LeapSeconds::parse("#@ 1\nrubbish"),
            Err(LeapSecondsError::Line(2))
        );
    }
}
