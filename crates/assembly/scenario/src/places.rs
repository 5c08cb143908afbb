//! Positions of the parts of a valid scenario, for mistakes that are found only after a plant has
//! been started.

use std::collections::BTreeMap;

use crate::error::{Report, ScenarioErrors, Source};
use crate::plan::Plan;
use crate::rules;
use crate::tree::Node;

/// Text of a valid scenario, in which mistakes can be located later.
#[derive(Clone, Debug)]
pub struct Places {
    root: Node,
    sources: Vec<Source>,
}

impl Places {
    pub(crate) fn new(root: Node, sources: Vec<Source>) -> Self {
        Self { root, sources }
    }

    /// Checks that the plants have the signals which devices and records name. `signals` has the
    /// names of signals by plant. A plant that is not listed there is not checked.
    ///
    /// # Errors
    /// Returns the signals that their plants do not have, with the positions at which they are
    /// named.
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
