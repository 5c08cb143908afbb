//! Cores whose cycles are counted: conversion of the table `cycles` to the options of the model.

use std::ops::RangeInclusive;
use std::path::Path;

use timeloom_clock::counter::{CycleOptions, FrequencySource, FrequencyTrace, Governor};
use timeloom_sys::plain;
use timeloom_time::Duration;
use timeloom_timeline::shm::MachineFrequency;

use crate::plan::Cycles;

/// Error in a `cycles` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CyclesFault {
    /// The wrong key.
    pub key: &'static str,
    /// Error message.
    pub message: String,
    /// Suggested fix.
    pub help: String,
}

impl Cycles {
    /// Returns the options of the model. If the table names a trace, its file is read.
    ///
    /// # Errors
    /// Returns the first invalid value in the table or in the trace file.
    pub fn options(&self) -> Result<CycleOptions, CyclesFault> {
        self.check()?;
        let source = match (&self.trace, &self.cpufreq) {
            (Some(file), _) => FrequencySource::Trace(trace(file, self.switch)?),
            (None, Some(directory)) => FrequencySource::Told(machine(directory)?.last()),
            (None, None) => FrequencySource::Governor(Governor {
                policy: self.governor.unwrap_or_default(),
                frequencies: self.frequencies.iter().map(|one| one.0).collect(),
                load: self.load,
                burst: self.burst,
                sampling: self.sampling,
            }),
        };
        Ok(CycleOptions {
            source,
            switch: self.switch,
        })
    }

    /// Checks all values for which no file must be read.
    pub(crate) fn check(&self) -> Result<(), CyclesFault> {
        let wrong = |key, message: String, help: &str| {
            Err(CyclesFault {
                key,
                message,
                help: help.to_owned(),
            })
        };
        match (&self.trace, self.governor, &self.cpufreq) {
            (None, None, None) => {
                let message = "the changes of the core's frequency are not described".to_owned();
                let help = "add `trace = \"FILE\"` or `governor = \"ondemand\"`";
                return wrong("trace", message, help);
            }
            (Some(_), Some(_), _) => {
                let message = "a core follows a trace or a governor, not both".to_owned();
                return wrong("governor", message, "remove one of both");
            }
            (Some(_), None, Some(_)) | (None, Some(_), Some(_)) => {
                let message = "a core follows either this machine's frequency, or a trace or \
                               governor"
                    .to_owned();
                return wrong("cpufreq", message, "remove it, or the trace or governor");
            }
            _ => {}
        }
        if !(Duration::ZERO..=LONGEST_SWITCH).contains(&self.switch) {
            let message = format!("a change of frequency does not take {}", self.switch);
            return wrong("switch", message, "give 0 s to 10 ms");
        }
        if self.cpufreq.is_some() && !ASKED.contains(&self.sampling) {
            let message = format!(
                "the machine's frequency cannot be read every {}",
                self.sampling
            );
            return wrong("sampling", message, "give 1 ms to 10 s");
        }
        if self.governor.is_none() {
            return Ok(());
        }
        let rising = self.frequencies.windows(2).all(|pair| pair[0] < pair[1]);
        if !(1..=64).contains(&self.frequencies.len()) || !rising {
            let message = "a governor needs 1 to 64 frequencies, in ascending order".to_owned();
            let help = "write them as in `frequencies = [\"600 MHz\", \"1.2 GHz\"]`";
            return wrong("frequencies", message, help);
        }
        if !(0.0..=1.0).contains(&self.load) {
            let message = format!("{} is not a share of the time", self.load);
            return wrong("load", message, "give 0 to 1");
        }
        if !ASKED.contains(&self.sampling) || self.sampling <= self.switch {
            let message = format!("a governor cannot sample every {}", self.sampling);
            return wrong("sampling", message, "give 1 ms to 10 s, more than `switch`");
        }
        if self.burst < self.sampling {
            let message = format!(
                "a governor would miss work that changes every {}",
                self.burst
            );
            return wrong("burst", message, "give at least `sampling`");
        }
        Ok(())
    }
}

fn trace(file: &Path, switch: Duration) -> Result<FrequencyTrace, CyclesFault> {
    let wrong = |message, help: &str| CyclesFault {
        key: "trace",
        message,
        help: help.to_owned(),
    };
    let cannot = |error: std::io::Error| {
        let message = format!("cannot read {}: {error}", file.display());
        wrong(message, "name a file relative to the scenario file")
    };
    let text = plain::read_text(file, FrequencyTrace::MOST_BYTES as u64).map_err(cannot)?;
    let trace: FrequencyTrace =
        text.parse()
            .map_err(|error: timeloom_clock::counter::FrequencyTraceError| {
                let message = match error.line {
                    0 => format!("{}: {}", file.display(), error.reason),
                    line => format!("{}:{line}: {}", file.display(), error.reason),
                };
                wrong(message, error.fix)
            })?;
    let gaps = trace.changes().windows(2);
    if gaps
        .into_iter()
        .any(|pair| pair[1].at - pair[0].at <= switch)
    {
        let message = format!(
            "{}: a change begins before the last one is over",
            file.display()
        );
        return Err(wrong(
            message,
            "give a shorter `switch`, or changes further apart",
        ));
    }
    Ok(trace)
}

/// Opens the frequency of one of this machine's processors; `directory` is its cpufreq directory.
fn machine(directory: &Path) -> Result<MachineFrequency, CyclesFault> {
    MachineFrequency::in_directory(directory).map_err(|error| CyclesFault {
        key: "cpufreq",
        message: error.to_string(),
        help: "a virtual machine mostly has none: take a `governor`, or a `trace` of a machine \
               that has one"
            .to_owned(),
    })
}

const LONGEST_SWITCH: Duration = Duration::from_ms(10);
/// Permitted sampling intervals.
const ASKED: RangeInclusive<Duration> = Duration::from_ms(1)..=Duration::from_s(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_trace_is_refused_with_its_line_and_a_fix() {
        let directory = std::env::temp_dir().join(format!("timeloom-trace-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("cpu.txt");
        let cycles = Cycles {
            trace: Some(file.clone()),
            switch: Duration::from_us(200),
            ..Cycles::default()
        };
        let fault = |text: &[u8]| {
            std::fs::write(&file, text).expect("a file");
            cycles.options().expect_err("no trace")
        };
        let bad = fault(b"0 s 800 MHz\n1 s fast");
        assert!(
            bad.message
                .ends_with("cpu.txt:2: it is not an instant and a frequency")
        );
        assert!(bad.help.contains("1.5 s 800 MHz"), "{bad:?}");
        let close = fault(b"0 s 800 MHz\n150 us 400 MHz");
        assert!(
            close.message.contains("before the last one is over"),
            "{close:?}"
        );
        assert!(fault(b"0 s \xff MHz").message.contains("cannot read"));
        std::fs::write(&file, "0 s 800 MHz\n1 s 400 MHz").expect("a file");
        assert!(cycles.options().is_ok());
        std::fs::remove_dir_all(&directory).expect("our own");
        let endless = Cycles {
            trace: Some("/dev/zero".into()),
            ..cycles
        };
        assert!(
            endless
                .options()
                .expect_err("endless")
                .message
                .contains("not a regular file")
        );
        let missing = Cycles {
            trace: Some(file),
            ..endless
        };
        assert!(
            missing
                .options()
                .expect_err("gone")
                .help
                .contains("relative")
        );
    }

    #[test]
    fn a_machine_without_cpufreq_is_named_and_one_that_has_it_is_taken_as_it_is() {
        let directory =
            std::env::temp_dir().join(format!("timeloom-cpufreq-{}", std::process::id()));
        let cycles = Cycles {
            cpufreq: Some(directory.clone()),
            sampling: Duration::from_ms(10),
            ..Cycles::default()
        };
        let fault = cycles.options().expect_err("there is none");
        assert_eq!(fault.key, "cpufreq");
        assert!(fault.message.contains("scaling_cur_freq"), "{fault:?}");
        assert!(fault.help.contains("`governor`"), "{fault:?}");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("scaling_cur_freq"), "1400000\n").expect("a file");
        let source = cycles.options().expect("there is one").source;
        assert_eq!(
            source,
            FrequencySource::Told(timeloom_clock::counter::Frequency::from_mhz(1_400))
        );
        std::fs::remove_dir_all(&directory).expect("our own");
        let seldom = Cycles {
            sampling: Duration::from_s(11),
            ..cycles
        };
        assert_eq!(seldom.check().expect_err("too seldom").key, "sampling");
    }
}
