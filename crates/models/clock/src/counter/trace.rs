//! Trace of the activity of a simulated core.

use core::str::FromStr;

use timeloom_time::{Duration, ParseTimeError};

use super::Frequency;

/// Interval with one kind of activity of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Length of the interval, in true time.
    pub length: Duration,
    /// Activity of the core in the interval.
    pub kind: StageKind,
}

/// Activity of a core during a [`Stage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// The core runs at this frequency. If the previous stage had another frequency, the change
    /// between the two takes no time.
    Run(Frequency),
    /// The core changes to this frequency: for half of the stage it runs at the old frequency, and
    /// for half at the new one. The clock is told the begin and the end, but not the middle.
    Switch(Frequency),
    /// The core is idle, and its counter is stopped.
    Idle,
}

/// Sequence of stages.
///
/// The text format has one stage per line: `2 s 800 MHz`, `50 us to 400 MHz`, `10 ms idle`. Blank
/// lines and comments that begin with `#` are skipped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// Error in the text of a trace: the line and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct TraceError {
    /// Number of the line with the error, counted from 1.
    pub line: usize,
    /// Reason.
    pub fault: StageFault,
}

/// Reason for which a line is not a stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageFault {
    /// The line is in none of the three formats.
    #[error("write `2 s 800 MHz`, `50 us to 400 MHz` or `10 ms idle`")]
    Form,
    /// The frequency is outside of the range of a core's frequency.
    #[error("`{0}` is not 1 … 100000 MHz")]
    Frequency(String),
    /// The length of time cannot be parsed.
    #[error(transparent)]
    Length(#[from] ParseTimeError),
    /// The length of time is negative.
    #[error("the duration of a stage must not be negative")]
    Negative,
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut stages = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            if !content.is_empty() {
                let error = |fault| TraceError {
                    line: index + 1,
                    fault,
                };
                stages.push(stage(content).map_err(error)?);
            }
        }
        Ok(Self { stages })
    }
}

fn stage(text: &str) -> Result<Stage, StageFault> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let frequency = |mhz: &str| {
        let parsed = mhz
            .parse::<u64>()
            .ok()
            .filter(|mhz| (1..=100_000).contains(mhz));
        parsed
            .map(Frequency::from_mhz)
            .ok_or_else(|| StageFault::Frequency(mhz.to_owned()))
    };
    let (number, unit, kind) = match words[..] {
        [number, unit, "idle"] => (number, unit, StageKind::Idle),
        [number, unit, mhz, "MHz"] => (number, unit, StageKind::Run(frequency(mhz)?)),
        [number, unit, "to", mhz, "MHz"] => (number, unit, StageKind::Switch(frequency(mhz)?)),
        _ => return Err(StageFault::Form),
    };
    let length: Duration = format!("{number} {unit}").parse()?;
    if length.is_negative() {
        return Err(StageFault::Negative);
    }
    Ok(Stage { length, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_three_kinds_of_stages_and_names_a_bad_line() {
        let trace: Trace = "2 s 800 MHz # fast\n\n50 us to 400 MHz\n10 ms idle"
            .parse()
            .unwrap();
        assert_eq!(
            trace.stages[1].kind,
            StageKind::Switch(Frequency::from_mhz(400))
        );
        assert_eq!(
            trace.stages[2],
            Stage {
                length: Duration::from_ms(10),
                kind: StageKind::Idle
            }
        );
        for (bad, line, fault) in [
            (
                "1 s 800 MHz\n1 s 0 MHz",
                2,
                StageFault::Frequency("0".to_owned()),
            ),
            ("-1 s idle", 1, StageFault::Negative),
            ("x", 1, StageFault::Form),
        ] {
            assert_eq!(
                bad.parse::<Trace>(),
                Err(TraceError { line, fault }),
                "{bad}"
            );
        }
    }
}
