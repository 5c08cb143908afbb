//! Recording of rows during a run.

use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time;

use rustix::fs::{FlockOperation, flock};

use crate::directory::{Consolidation, consolidate};
use crate::journal::Journal;
use crate::manifest::CutRows;
use crate::shares::Shares;
use crate::table::Row;
use crate::tree::Tree;
use crate::{ClockRow, EventRow, LabelRow, ResultsError, SignalRow};

/// Writer of a run's tables. Any number of threads may share it by reference. Each table has its
/// own lock, which is held while one line is formatted, or while lines are passed to the kernel.
///
/// Signals and clock changes reach the kernel with the first row after two seconds of wall time, or
/// earlier by [`Recorder::flush`], which a reader of the run may cause. Events and labels reach it
/// immediately.
#[derive(Debug)]
pub struct Recorder {
    tree: Tree,
    signals: Mutex<Option<Journal>>,
    events: Mutex<Option<Journal>>,
    clock: Mutex<Option<Journal>>,
    labels: Mutex<Option<Journal>>,
    /// Number of bytes that may still be recorded, over all tables.
    left: AtomicU64,
    limit: AtomicU64,
    /// Numbers of bytes that each source has recorded.
    shares: Mutex<Shares>,
    /// File lock that is held as long as rows may come, so that `recover` does not remove the
    /// journal of a run in progress. The kernel releases it when the process ends for any reason.
    _lock: File,
}

impl Recorder {
    pub(crate) fn open(tree: Tree) -> Result<Self, ResultsError> {
        tree.make_folder("journal")?;
        let lock = lock_journal(&tree)?;
        let open = |table: &str, max_age| {
            Journal::open(&tree, &format!("journal/{table}.jsonl"), max_age)
                .map(|journal| Mutex::new(Some(journal)))
        };
        Ok(Self {
            signals: open(SignalRow::TABLE, BUFFERED)?,
            events: open(EventRow::TABLE, AT_ONCE)?,
            clock: open(ClockRow::TABLE, BUFFERED)?,
            labels: open(LabelRow::TABLE, AT_ONCE)?,
            tree,
            left: AtomicU64::new(u64::MAX),
            limit: AtomicU64::new(u64::MAX),
            shares: Mutex::default(),
            _lock: lock,
        })
    }

    /// Limits the total length of all further rows to `bytes`. A row beyond the limit is rejected.
    pub fn limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
        self.left.store(bytes, Relaxed);
    }

    /// Limits the rows of each source at each host to `bytes`. Further rows are discarded and
    /// counted ([`Self::cut`]).
    pub fn limit_each(&self, bytes: u64) {
        self.shares().limit = bytes;
    }

    /// Returns the sources of which rows were discarded.
    pub fn cut(&self) -> Vec<CutRows> {
        self.shares().cut()
    }

    /// Records one sample. Returns an error for a value that is not finite, and records nothing.
    pub fn signal(&self, row: &SignalRow) -> Result<(), ResultsError> {
        if !row.value.is_finite() {
            return Err(ResultsError::NotFinite {
                name: format!("{}.{}", row.source, row.name),
                at: row.t_virtual,
                value: row.value,
            });
        }
        self.append(&self.signals, row)
    }

    /// Records an event.
    pub fn event(&self, row: &EventRow) -> Result<(), ResultsError> {
        self.append(&self.events, row)
    }

    /// Records a change of the virtual clock.
    pub fn clock(&self, row: &ClockRow) -> Result<(), ResultsError> {
        self.append(&self.clock, row)
    }

    /// Records the start or end of an attack; see [`LabelRow`].
    pub fn label(&self, row: &LabelRow) -> Result<(), ResultsError> {
        self.append(&self.labels, row)
    }

    /// Passes all rows to the kernel. To be called every few seconds if rows are rare.
    pub fn flush(&self) -> Result<(), ResultsError> {
        for table in self.tables() {
            if let Some(journal) = &mut *table.lock() {
                journal.flush()?;
            }
        }
        Ok(())
    }

    /// Converts the journal to the Parquet files and removes it. Later rows are rejected. On an
    /// error the journal remains, and [`crate::RunDirectory::recover`] can repeat the conversion.
    pub fn finish(&self) -> Result<Consolidation, ResultsError> {
        self.flush()?;
        for table in self.tables() {
            *table.lock() = None;
        }
        consolidate(&self.tree)
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock()
    }

    fn tables(&self) -> [&Mutex<Option<Journal>>; 4] {
        [&self.signals, &self.events, &self.clock, &self.labels]
    }

    fn append(&self, table: &Mutex<Option<Journal>>, row: &impl Row) -> Result<(), ResultsError> {
        // A thread that panicked while it held the lock left at worst an incomplete line, which the
        // reader skips.
        let left = self.left.load(Relaxed);
        if left == 0 {
            let bytes = self.limit.load(Relaxed);
            return Err(ResultsError::JournalLimit { bytes });
        }
        if self.shares().is_spent(row) {
            return Ok(());
        }
        match &mut *table.lock() {
            Some(journal) => {
                let bytes = journal.append(row)?;
                self.shares().spend(row, bytes);
                let spend = |left: u64| Some(left.saturating_sub(bytes));
                let _ = self.left.fetch_update(Relaxed, Relaxed, spend);
                Ok(())
            }
            None => Err(ResultsError::Finished(self.tree.path().to_owned())),
        }
    }
}

/// Acquires the run's lock. Fails if another process holds it.
pub(crate) fn lock_journal(tree: &Tree) -> Result<File, ResultsError> {
    let file = tree.append("journal/lock")?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| ResultsError::InUse(tree.path().to_owned()))?;
    Ok(file)
}

const BUFFERED: time::Duration = time::Duration::from_secs(2);
const AT_ONCE: time::Duration = time::Duration::ZERO;
