//! Calls that carry time and are not virtualised: they are counted and reported.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use timeloom_text::one_line;

/// Number of a program's calls of one kind that are not virtualised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhandledCall {
    /// Name of the program, as in `ps`.
    pub program: String,
    /// Name of the system call.
    pub call: &'static str,
    /// Outcome of the call, such as execution in real time.
    pub outcome: &'static str,
    /// Number of calls.
    pub count: u64,
    /// Place of the first call in the program: `FILE+0xOFFSET`.
    pub site: String,
}

/// Counts of all such calls in a session.
#[derive(Default)]
pub(crate) struct Report {
    counts: Mutex<BTreeMap<ReportKey, (u64, String)>>,
}

/// Program, call and outcome.
type ReportKey = (String, &'static str, &'static str);

impl Report {
    /// Counts one call, made by `thread` at the address `instruction`. Returns true if it is the
    /// first of its program, call and outcome.
    pub(crate) fn count(
        &self,
        program: String,
        call: &'static str,
        outcome: &'static str,
        (thread, instruction): (i32, u64),
    ) -> bool {
        let mut counts = self.counts.lock();
        let entry = counts
            .entry((program, call, outcome))
            .or_insert_with(|| (0, site(thread, instruction)));
        entry.0 += 1;
        entry.0 == 1
    }

    /// Returns all counts, sorted by program and call.
    pub(crate) fn calls(&self) -> Vec<UnhandledCall> {
        let counts = self.counts.lock();
        counts
            .iter()
            .map(|((program, call, outcome), (count, site))| UnhandledCall {
                program: program.clone(),
                call,
                outcome,
                count: *count,
                site: site.clone(),
            })
            .collect()
    }
}

/// Returns the file that is mapped at an instruction, and the offset in the file, as
/// `FILE+0xOFFSET`.
fn site(thread: i32, instruction: u64) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{thread}/maps")).unwrap_or_default();
    let found = maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        if !(from..to).contains(&instruction) {
            return None;
        }
        let offset = number(fields.nth(1)?)?;
        let file = fields.nth(2)?;
        let name = file.rsplit('/').next()?;
        let name = one_line(name);
        Some(format!("{name}+{:#x}", instruction - from + offset))
    });
    found.unwrap_or_else(|| format!("{instruction:#x}"))
}
