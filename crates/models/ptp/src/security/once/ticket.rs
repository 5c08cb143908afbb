//! Ticket: prepared data of one key for one Sync.

use std::sync::{Arc, Mutex};

use blst::min_sig::{AggregateSignature, SecretKey, Signature};
use blst::{MultiPoint, blst_p1_affine};

use super::challenge::challenge;
use super::table::{Table, wipe};
use super::{SyncName, TAG_A, TAG_B};

/// Tables of used tickets. Wiping one takes a tenth of the time of a signature, so the
/// idle-priority thread does it.
pub(super) type Spent = Arc<Mutex<Vec<Table>>>;

/// `P` and the multiples of `Q` of one key for one Sync. Signing consumes the ticket.
pub(in crate::security) struct Ticket {
    pub(super) moment: SyncName,
    pub(super) port: u8,
    first: blst_p1_affine,
    /// Table of the multiples of `Q`; `None` only after the ticket is dropped.
    table: Option<Table>,
    spent: Spent,
}

impl Ticket {
    /// Computes the prepared data, in about a millisecond. This must be done **at most once in the
    /// life of `key` for each moment**; only `stock` calls it.
    pub(super) fn new(key: &SecretKey, moment: SyncName, port: u8, spent: &Spent) -> Self {
        let text = moment.text();
        Self {
            moment,
            port,
            first: key.sign(&text, TAG_A, &[]).into(),
            table: Some(Table::new(key.sign(&text, TAG_B, &[]))),
            spent: spent.clone(),
        }
    }

    /// Signs `text` and returns the sum of `before`, if any, and the signature: 48 octets. Returns
    /// `None` if `before` is not a point of the curve.
    pub(in crate::security) fn sign_onto(
        self,
        before: Option<&[u8]>,
        text: &[u8],
    ) -> Option<Vec<u8>> {
        let mut sum = Vec::with_capacity(Table::MOST + 2);
        sum.push(self.first);
        if let Some(before) = before {
            sum.push(Signature::from_bytes(before).ok()?.into());
        }
        let table = self.table.as_ref()?;
        table.choose(&challenge(&self.moment, text)?, &mut sum);
        let signature = AggregateSignature::from(sum.add()).to_signature();
        wipe(&mut sum);
        Some(signature.to_bytes().to_vec())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        wipe(std::slice::from_mut(&mut self.first));
        // If the list is locked, dropping the table here wipes it at once.
        if let (Some(table), Ok(mut spent)) = (self.table.take(), self.spent.try_lock())
            && spent.len() < MOST_SPENT
        {
            spent.push(table);
        }
    }
}

const MOST_SPENT: usize = 64;
