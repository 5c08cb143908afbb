//! Signals as series over virtual time, for the report and for `compare`.

use std::sync::Arc;

use timeloom_time::{Instant, Virtual};

use crate::{ResultsError, RunDirectory, SignalRow};

/// Sample: the virtual instant, and the value in the signal's unit.
pub type Sample = (Instant<Virtual>, f64);

/// All samples of one signal of one run, sorted by time. A sample takes sixteen bytes of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Selector by which the signal was requested, such as `v680` or `grid.v680`.
    pub selector: String,
    /// Unit of the signal; empty if it has no unit, or no samples.
    pub unit: Arc<str>,
    /// Samples sorted by time. Samples of the same instant keep the order of recording.
    pub samples: Vec<Sample>,
}

impl RunDirectory {
    /// Reads several signals in one pass over the table. A selector is the name of a signal
    /// (`v680`). If several sources use the same name, it is source and name (`grid.v680`). A
    /// signal that the run does not have is returned without samples.
    pub fn series(&self, selectors: &[&str]) -> Result<Vec<Series>, ResultsError> {
        let mut found: Vec<Series> = selectors
            .iter()
            .map(|s| Series {
                selector: (*s).to_owned(),
                ..Series::default()
            })
            .collect();
        self.each_sample(selectors, |index, row| {
            let series = &mut found[index];
            if series.samples.is_empty() {
                series.unit = row.unit.clone();
            }
            series.samples.push((row.t_virtual, row.value));
        })?;
        for series in &mut found {
            series.samples.sort_by_key(|(t, _)| *t);
        }
        Ok(found)
    }

    /// Calls `each` for every sample of some signals, in the order of recording. The first argument
    /// is the index of the sample's selector in `selectors` (see [`Self::series`]). No samples are
    /// kept, so the signals may have any length.
    pub fn each_sample(
        &self,
        selectors: &[&str],
        mut each: impl FnMut(usize, &SignalRow),
    ) -> Result<(), ResultsError> {
        self.for_each(|row: SignalRow| {
            for (index, selector) in selectors.iter().enumerate() {
                if selects(selector, &row) {
                    each(index, &row);
                }
            }
            Ok(())
        })
    }

    /// Returns the names of all signals as `source.name`, sorted, with their units.
    pub fn signal_names(&self) -> Result<Vec<(String, Arc<str>)>, ResultsError> {
        let mut names = std::collections::BTreeMap::new();
        self.for_each(|row: SignalRow| {
            names.entry((row.source, row.name)).or_insert(row.unit);
            Ok(())
        })?;
        Ok(names
            .into_iter()
            .map(|((source, name), unit)| (format!("{source}.{name}"), unit))
            .collect())
    }
}

fn selects(selector: &str, row: &SignalRow) -> bool {
    *selector == *row.name
        || selector
            .strip_prefix(&*row.source)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|name| *name == *row.name)
}
