//! Shares of the sources in a run's journal. A source that writes too much is cut off, so that
//! there is space for the others.
//!
//! A source is a plant or requester at a host. This module does not depend on the tables.

use std::collections::BTreeMap;

use timeloom_time::{Instant, Virtual};

use crate::manifest::CutRows;
use crate::table::{Cell, Row};

/// Bytes written by each source.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Maximum number of bytes for each source.
    pub(crate) limit: u64,
    of: BTreeMap<String, Share>,
}

#[derive(Debug, Default)]
struct Share {
    bytes: u64,
    /// Virtual instant of the first discarded row, and the number of discarded rows; `None` if no
    /// row was discarded.
    left_out: Option<(Instant<Virtual>, u64)>,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            limit: u64::MAX,
            of: BTreeMap::new(),
        }
    }
}

impl Shares {
    /// Returns true if the row's source has used up its share. The row then counts as discarded.
    pub(crate) fn is_spent(&mut self, row: &impl Row) -> bool {
        let limit = self.limit;
        let spent = name_of(row).and_then(|name| self.of.get_mut(&name));
        let Some(share) = spent.filter(|share| share.bytes >= limit) else {
            return false;
        };
        let (_, rows) = share.left_out.get_or_insert_with(|| (instant_of(row), 0));
        *rows += 1;
        true
    }

    /// Adds the length of a written row to the share of its source.
    pub(crate) fn spend(&mut self, row: &impl Row, bytes: u64) {
        if let Some(name) = name_of(row) {
            self.of.entry(name).or_default().bytes += bytes;
        }
    }

    pub(crate) fn cut(&self) -> Vec<CutRows> {
        let cut = |(source, share): (&String, &Share)| {
            let (since, left_out_rows) = share.left_out?;
            Some(CutRows {
                source: source.clone(),
                since,
                left_out_rows,
            })
        };
        self.of.iter().filter_map(cut).collect()
    }
}

/// Returns the name of the row's source; `None` if the row has no source.
fn name_of(row: &impl Row) -> Option<String> {
    let of = row.of();
    let parts: Vec<&str> = of.iter().map(|part| &***part).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Returns the virtual instant of a row; zero if its table has no column `t_virtual_ns`.
fn instant_of<R: Row>(row: &R) -> Instant<Virtual> {
    let at = R::COLUMNS
        .iter()
        .position(|(name, _)| *name == "t_virtual_ns");
    match at.map(|at| row.cells().swap_remove(at)) {
        Some(Cell::Int(ns)) => Instant::from_ns(ns),
        _ => Instant::ZERO,
    }
}
