//! Positions of the parts of a valid scenario, for mistakes that are found only once a plant has
//! started.

use std::collections::BTreeMap;

use crate::error::{Report, ScenarioErrors, Source};
use crate::plan::Plan;
use crate::rules;
use crate::tree::Node;

/// Text of a scenario that was read; locates mistakes that are found later.
#[derive(Clone, Debug)]
pub struct Places {
    root: Node,
    sources: Vec<Source>,
}

impl Places {
    pub(crate) fn new(root: Node, sources: Vec<Source>) -> Self {
        Self { root, sources }
    }

    /// Checks that the signals named by devices and records are among `signals`, which maps a
    /// plant's name to its signals. A plant that is not listed is not checked.
    ///
    /// # Errors
    /// Returns the signals that their plants do not have, with their positions.
    pub fn check_signals(
        &self,
        plan: &Plan,
        signals: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), ScenarioErrors> {
        let mut report = Report::new(self.sources.clone());
        rules::plants::check(plan, &self.root, signals, &mut report);
        match report.is_clean() {
            true => Ok(()),
            false => Err(report.into_errors()),
        }
    }
}
