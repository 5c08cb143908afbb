//! Where the parts of a right scenario stand, for mistakes that only a plant can show.

use std::collections::BTreeMap;

use crate::error::{Report, ScenarioErrors, Source};
use crate::plan::Plan;
use crate::rules;
use crate::tree::Node;

/// The text of a scenario that was read, by which a mistake found later is shown where it stands.
#[derive(Clone, Debug)]
pub struct Places {
    root: Node,
    sources: Vec<Source>,
}

impl Places {
    pub(crate) fn new(root: Node, sources: Vec<Source>) -> Self {
        Self { root, sources }
    }

    /// Checks that the signals named by devices and records are among `signals`: those that each
    /// plant has, by the plant's name. A plant that is not listed is not checked.
    ///
    /// # Errors
    /// Signals that their plant does not have, where they stand.
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
