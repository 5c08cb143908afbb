//! Frequency changes of a core, from a list or from a governor under a simulated load.

use core::fmt;
use core::str::FromStr;

use timeloom_time::Duration;

use super::Frequency;
use timeloom_random::Random;

/// Change of a core's frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyChange {
    /// Oscillator time of the change since the start.
    pub at: Duration,
    /// Frequency from that time on.
    pub to: Frequency,
}

/// List of frequency changes in ascending order; the first is at 0. After the last change the
/// frequency stays.
///
/// The text format has one change per line: `0 s 800 MHz`, `1.5 s 400 MHz`. Blank lines and
/// comments that begin with `#` are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTrace {
    changes: Vec<FrequencyChange>,
}

/// Error in a list of changes: the line, the reason and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTraceError {
    /// Number of the line, counted from 1; 0 for the list as a whole.
    pub line: usize,
    /// Description of the error. It does not quote the file, because a file of another kind may
    /// contain secrets.
    pub reason: String,
    /// Fix to suggest to the user.
    pub fix: &'static str,
}

impl fmt::Display for FrequencyTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}; {}", self.reason, self.fix),
            line => write!(f, "line {line}: {}; {}", self.reason, self.fix),
        }
    }
}

impl std::error::Error for FrequencyTraceError {}

impl FrequencyTrace {
    /// Maximum size of a list, in bytes.
    pub const MOST_BYTES: usize = 16 << 20;

    /// Returns the changes in ascending order; there is at least one.
    pub fn changes(&self) -> &[FrequencyChange] {
        &self.changes
    }
}

impl FromStr for FrequencyTrace {
    type Err = FrequencyTraceError;

    fn from_str(text: &str) -> Result<Self, FrequencyTraceError> {
        let whole = |reason: &str, fix| FrequencyTraceError {
            line: 0,
            reason: reason.to_owned(),
            fix,
        };
        if text.len() > Self::MOST_BYTES {
            return Err(whole("it is longer than 16 MiB", "give a shorter one"));
        }
        let mut changes: Vec<FrequencyChange> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let fail = |(reason, fix): (String, &'static str)| FrequencyTraceError {
                line: index + 1,
                reason,
                fix,
            };
            let change = change(content).map_err(fail)?;
            let wrong = match changes.last() {
                None if change.at != Duration::ZERO => {
                    Some("it does not begin at 0, and the frequency until then is not known")
                }
                Some(last) if change.at - last.at < CLOSEST => {
                    Some("it comes less than 100 us after the one before, or earlier")
                }
                _ => None,
            };
            if let Some(reason) = wrong {
                let fix = "begin with `0 s`, and go on in order, 100 us or more apart";
                return Err(fail((reason.to_owned(), fix)));
            }
            changes.push(change);
        }
        if changes.is_empty() {
            return Err(whole("it has no frequency at all", LIKE_THIS));
        }
        Ok(Self { changes })
    }
}

fn change(text: &str) -> Result<FrequencyChange, (String, &'static str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [number, unit, frequency, frequency_unit] = words[..] else {
        return Err(("it is not an instant and a frequency".to_owned(), LIKE_THIS));
    };
    let at: Duration =
        format!("{number} {unit}")
            .parse()
            .map_err(|_: timeloom_time::ParseTimeError| {
                ("its instant is not a length of time".to_owned(), LIKE_THIS)
            })?;
    if !(Duration::ZERO..=LONGEST).contains(&at) {
        return Err((
            format!("{at} is not an instant of a run"),
            "give 0 s to 10 years",
        ));
    }
    let to = format!("{frequency} {frequency_unit}").parse();
    let to = to.map_err(|_: FrequencyError| {
        let reason = "its frequency is not 1 MHz to 100 GHz".to_owned();
        (reason, LIKE_THIS)
    })?;
    Ok(FrequencyChange { at, to })
}

/// Minimum time between two changes. No processor's governor decides more often.
const CLOSEST: Duration = Duration::from_us(100);
const LONGEST: Duration = Duration::from_s(10 * 365 * 86_400);
const LIKE_THIS: &str = "write one change a line, as in `1.5 s 800 MHz`";

/// Error for a text that is not a core's frequency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a core's frequency: write 1 MHz to 100 GHz, as in `800 MHz`, `1.2 GHz` or \
     `600000 kHz`"
)]
pub struct FrequencyError(String);

impl FromStr for Frequency {
    type Err = FrequencyError;

    /// Parses a decimal number, an optional space, and kHz, MHz or GHz. The result must be a whole
    /// number of hertz.
    fn from_str(text: &str) -> Result<Self, FrequencyError> {
        let parsed = || {
            let units = [("kHz", 3), ("MHz", 6), ("GHz", 9)];
            let (number, digits) = units.iter().find_map(|(unit, digits)| {
                Some((text.trim().strip_suffix(unit)?.trim(), *digits))
            })?;
            let (whole, part) = number.split_once('.').unwrap_or((number, ""));
            let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if whole.is_empty()
                || whole.len() > 12
                || part.len() > digits
                || !plain(whole)
                || !plain(part)
            {
                return None;
            }
            let padded: String = format!("{whole}{part:0<digits$}");
            let hz: u64 = padded.parse().ok()?;
            Self::from_hz(hz).filter(|_| (1_000_000..=100_000_000_000).contains(&hz))
        };
        parsed().ok_or_else(|| FrequencyError(text.to_owned()))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hz = self.as_hz();
        if hz.is_multiple_of(1_000_000) {
            write!(f, "{} MHz", hz / 1_000_000)
        } else {
            write!(f, "{}.{:06} MHz", hz / 1_000_000, hz % 1_000_000)
        }
    }
}

// The policies are those of Linux (Documentation/admin-guide/pm/cpufreq.rst).
/// Policy by which a governor chooses the frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum GovernorPolicy {
    /// The highest frequency if the core was busy for more than 80 % of the interval, otherwise a
    /// frequency in proportion to the load.
    #[default]
    Ondemand,
    // The lowest one that is at least 1.25 times the load's demand.
    /// The lowest frequency that leaves a quarter of the capacity unused.
    Schedutil,
}

/// Governor with its simulated load.
#[derive(Clone, Debug, PartialEq)]
pub struct Governor {
    /// Policy by which the governor chooses a frequency.
    pub policy: GovernorPolicy,
    /// Available frequencies in ascending order; at least one.
    pub frequencies: Vec<Frequency>,
    /// Share of time with heavy work, 0 to 1. Heavy work needs 0.6 to 1 of the core's capacity at
    /// its highest frequency; light work needs up to 0.2.
    pub load: f64,
    /// Mean duration of a period in which the kind of work (heavy or light) does not change.
    pub burst: Duration,
    /// Time between two decisions of the governor.
    pub sampling: Duration,
}

/// Running governor. A seed determines its sequence of changes.
#[derive(Clone, Debug)]
pub(super) struct Governed {
    governor: Governor,
    noise: Random,
    heavy: bool,
    at: Duration,
    current: Frequency,
}

impl Governed {
    /// Returns the governor at the lowest frequency.
    pub(super) fn new(governor: Governor, seed: u64) -> Self {
        let current = governor.frequencies.first().copied();
        Self {
            governor,
            noise: Random::new(seed, 0),
            heavy: false,
            at: Duration::ZERO,
            current: current.unwrap_or(Frequency::from_mhz(800)),
        }
    }

    pub(super) fn current(&self) -> Frequency {
        self.current
    }

    /// Returns the next change. After [`MOST_LOOKS`] decisions without a change, returns a change
    /// to the same frequency.
    pub(super) fn next(&mut self) -> FrequencyChange {
        for _ in 0..MOST_LOOKS {
            self.at += self.governor.sampling;
            let chosen = self.look();
            if chosen != self.current {
                self.current = chosen;
                break;
            }
        }
        FrequencyChange {
            at: self.at,
            to: self.current,
        }
    }

    fn look(&mut self) -> Frequency {
        let Governor {
            policy,
            frequencies,
            load,
            burst,
            sampling,
        } = &self.governor;
        let (Some(lowest), Some(highest)) = (frequencies.first(), frequencies.last()) else {
            return self.current;
        };
        let (lowest, highest) = (lowest.as_hz() as f64, highest.as_hz() as f64);
        // A period of constant work ends within a sampling interval with this probability.
        if self.noise.chance(sampling.as_s_f64() / burst.as_s_f64()) {
            self.heavy = self.noise.chance(*load);
        }
        let (least, most) = if self.heavy { (0.6, 1.0) } else { (0.0, 0.2) };
        let asked = least + (most - least) * self.noise.unit();
        let wanted = match policy {
            GovernorPolicy::Ondemand => {
                let busy = (asked * highest / self.current.as_hz() as f64).min(1.0);
                if busy > 0.8 {
                    highest
                } else {
                    lowest + busy * (highest - lowest)
                }
            }
            GovernorPolicy::Schedutil => 1.25 * asked * highest,
        };
        let enough = frequencies.iter().find(|one| one.as_hz() as f64 >= wanted);
        enough
            .or(frequencies.last())
            .copied()
            .unwrap_or(self.current)
    }
}

/// Number of decisions without a change after which the unchanged frequency is returned.
const MOST_LOOKS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_parsed_and_mistakes_are_refused_with_the_line_and_a_fix() {
        let trace: FrequencyTrace = "0 s 800 MHz # fast\n\n1.5 s 0.4 GHz".parse().unwrap();
        assert_eq!(trace.changes().len(), 2);
        assert_eq!(trace.changes()[1].to, Frequency::from_mhz(400));
        assert_eq!(trace.changes()[1].at, Duration::from_ms(1_500));
        for (bad, line) in [
            ("", 0),
            ("# nothing", 0),
            ("1 s 800 MHz", 1),
            ("0 s 800 MHz\n-1 s 400 MHz", 2),
            ("0 s 800 MHz\n\n1 s 400 MHz\n1 s 800 MHz", 4),
            ("0 s 800 MHz\n50 us 400 MHz", 2),
            ("0 s 0 MHz", 1),
            ("0 s 800", 1),
            ("0 s 1.0000001 MHz", 1),
            ("0 s 99999999999999999999 GHz", 1),
            ("0 s 800 MHz extra", 1),
            ("0 s \u{663}00 MHz", 1),
            ("99999999 h 800 MHz", 1),
        ] {
            let error = bad.parse::<FrequencyTrace>().expect_err(bad);
            assert_eq!(error.line, line, "{bad}: {error}");
            assert!(!error.fix.is_empty());
        }
    }

    #[test]
    fn a_governor_follows_the_load_and_one_seed_is_one_course() {
        let governor = |policy, load| Governor {
            policy,
            frequencies: [600, 900, 1_200].map(Frequency::from_mhz).to_vec(),
            load,
            burst: Duration::from_ms(500),
            sampling: Duration::from_ms(10),
        };
        let changes = |governor: &Governor, seed| {
            let mut governed = Governed::new(governor.clone(), seed);
            (0..500).map(|_| governed.next()).collect::<Vec<_>>()
        };
        for policy in [GovernorPolicy::Ondemand, GovernorPolicy::Schedutil] {
            let some = governor(policy, 0.5);
            assert_eq!(changes(&some, 7), changes(&some, 7));
            assert_ne!(changes(&some, 7), changes(&some, 8));
            assert!(
                changes(&some, 7)
                    .windows(2)
                    .all(|pair| pair[0].at < pair[1].at)
            );
            // Time spent at the highest frequency, which must be longer for heavier work.
            let highest = |load| {
                let all = changes(&governor(policy, load), 7);
                let at_highest = |pair: &&[FrequencyChange]| pair[0].to.as_hz() == 1_200_000_000;
                let length = |pair: &[FrequencyChange]| (pair[1].at - pair[0].at).as_s_f64();
                let high: f64 = all.windows(2).filter(at_highest).map(length).sum();
                high / all.last().unwrap().at.as_s_f64()
            };
            assert!(highest(0.1) < highest(0.9), "{policy:?}");
        }
        // With a single frequency there are no changes; the call must still return in finite time.
        let fixed = Governor {
            frequencies: vec![Frequency::from_mhz(600)],
            ..governor(GovernorPolicy::Ondemand, 0.5)
        };
        assert_eq!(Governed::new(fixed, 1).next().to, Frequency::from_mhz(600));
    }
}
