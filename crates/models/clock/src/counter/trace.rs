//! What a simulated core goes through, as data.

use core::str::FromStr;

use timeloom_time::Duration;

use super::Frequency;

/// One stretch of a core's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How long it lasts in true time.
    pub length: Duration,
    /// What the core does.
    pub kind: StageKind,
}

/// What a core does during a [`Stage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// It runs at this frequency. When the stage before ran at another one, the
    /// change happens between them in no time.
    Run(Frequency),
    /// It is changing to this frequency; half of the stage runs at the old
    /// frequency and half at the new, which the clock is not told.
    Switch(Frequency),
    /// It idles and its counter stands.
    Idle,
}

/// A list of stages. As text, one stage a line: `2 s 800 MHz`, `50 us to 400
/// MHz`, `10 ms idle`; blank lines and `#` comments are skipped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// Which line of a trace cannot be read, counted from 1, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TraceError {
    line: usize,
    reason: String,
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut stages = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            if !content.is_empty() {
                let error = |reason| TraceError {
                    line: index + 1,
                    reason,
                };
                stages.push(stage(content).map_err(error)?);
            }
        }
        Ok(Self { stages })
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let frequency = |mhz: &str| {
        let parsed = mhz
            .parse::<u64>()
            .ok()
            .filter(|mhz| (1..=100_000).contains(mhz));
        parsed
            .map(Frequency::from_mhz)
            .ok_or_else(|| format!("`{mhz}` is not 1 … 100000 MHz"))
    };
    let (number, unit, kind) = match words[..] {
        [number, unit, "idle"] => (number, unit, StageKind::Idle),
        [number, unit, mhz, "MHz"] => (number, unit, StageKind::Run(frequency(mhz)?)),
        [number, unit, "to", mhz, "MHz"] => (number, unit, StageKind::Switch(frequency(mhz)?)),
        _ => return Err("write `2 s 800 MHz`, `50 us to 400 MHz` or `10 ms idle`".to_owned()),
    };
    let length: Duration = format!("{number} {unit}")
        .parse()
        .map_err(|e| format!("{e}"))?;
    if length.is_negative() {
        return Err("a stage cannot last less than nothing".to_owned());
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
        for (bad, line) in [
            ("1 s 800 MHz\n1 s 0 MHz", "line 2"),
            ("-1 s idle", "line 1"),
            ("x", "line 1"),
        ] {
            assert!(
                bad.parse::<Trace>()
                    .unwrap_err()
                    .to_string()
                    .starts_with(line),
                "{bad}"
            );
        }
    }
}
