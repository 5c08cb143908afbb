//! Activity of a simulated core, as data.

use core::str::FromStr;

use timeloom_time::{Duration, ParseTimeError};

use super::Frequency;

/// Period of a core's activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Length in true time.
    pub length: Duration,
    /// Activity of the core.
    pub kind: StageKind,
}

/// Activity of a core during a [`Stage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// The core runs at this frequency. If the stage before ran at another one, the change between
    /// them takes no time.
    Run(Frequency),
    /// The core is changing to this frequency; half of the stage runs at the old frequency and half
    /// at the new, and the clock is not told the middle.
    Switch(Frequency),
    /// The core idles and its counter is stopped.
    Idle,
}

/// List of stages. As text, one stage a line: `2 s 800 MHz`, `50 us to 400 MHz`, `10 ms idle`;
/// blank lines and `#` comments are skipped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// Error in a trace: the line, counted from 1, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct TraceError {
    /// Line with the error.
    pub line: usize,
    /// Reason.
    pub fault: StageFault,
}

/// Reason why a line is no stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageFault {
    /// The line has none of the three forms.
    #[error("write `2 s 800 MHz`, `50 us to 400 MHz` or `10 ms idle`")]
    Form,
    /// The frequency is not one that a core could have.
    #[error("`{0}` is not 1 … 100000 MHz")]
    Frequency(String),
    /// The length of time is invalid.
    #[error(transparent)]
    Length(#[from] ParseTimeError),
    /// The length of time is negative.
    #[error("a stage cannot last less than nothing")]
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
