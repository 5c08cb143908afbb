//! What each source of rows has of a run's journal: one that writes without end is cut,
//! and leaves the others their room.
//!
//! A source is a plant, or who asked for something at a host. It knows no table.

use std::collections::BTreeMap;

use timeloom_time::{Instant, Virtual};

use crate::manifest::CutRows;
use crate::table::{Cell, Row};

/// How much each has written.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Bytes that each may have.
    pub(crate) limit: u64,
    of: BTreeMap<String, Share>,
}

#[derive(Debug, Default)]
struct Share {
    bytes: u64,
    /// When the first row was left out, and how many were.
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
    /// Whether its share is spent, so that the row is left out. It is counted then.
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

    /// A row of so many bytes was written.
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

/// `None` where it is nobody's.
fn name_of(row: &impl Row) -> Option<String> {
    let of = row.of();
    let parts: Vec<&str> = of.iter().map(|part| &***part).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The first column of tables whose rows are somebody's, or the second.
fn instant_of<R: Row>(row: &R) -> Instant<Virtual> {
    let at = R::COLUMNS
        .iter()
        .position(|(name, _)| *name == "t_virtual_ns");
    match at.map(|at| row.cells().swap_remove(at)) {
        Some(Cell::Int(ns)) => Instant::from_ns(ns),
        _ => Instant::ZERO,
    }
}
