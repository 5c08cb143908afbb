//! Calls that carry time and are not virtualised yet: counted, never silent.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// How often a program made a call that is not handled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhandledCall {
    /// The program's name, as in `ps`.
    pub program: String,
    /// The call's name.
    pub call: &'static str,
    /// What was done instead.
    pub outcome: &'static str,
    /// How often.
    pub count: u64,
}

/// The counts of a session.
#[derive(Default)]
pub(crate) struct Report {
    counts: Mutex<BTreeMap<(String, &'static str, &'static str), u64>>,
}

impl Report {
    /// Counts one call. Returns whether it is the first of its kind.
    pub(crate) fn count(&self, program: String, call: &'static str, outcome: &'static str) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(|e| e.into_inner());
        let count = counts.entry((program, call, outcome)).or_default();
        *count += 1;
        *count == 1
    }

    /// Everything counted so far, by program and call.
    pub(crate) fn calls(&self) -> Vec<UnhandledCall> {
        let counts = self.counts.lock().unwrap_or_else(|e| e.into_inner());
        counts
            .iter()
            .map(|((program, call, outcome), &count)| UnhandledCall {
                program: program.clone(),
                call,
                outcome,
                count,
            })
            .collect()
    }
}
