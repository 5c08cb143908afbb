//! What one key has ready for one moment.

use std::sync::{Arc, Mutex};

use blst::min_sig::{AggregateSignature, SecretKey, Signature};
use blst::{MultiPoint, blst_p1_affine};

use super::challenge::challenge;
use super::table::{Table, wipe};
use super::{Moment, TAG_A, TAG_B};

/// Tables that have served. To wipe one takes as long as a tenth of a signature, so the
/// idle thread does it.
pub(super) type Spent = Arc<Mutex<Vec<Table>>>;

/// `P` and the multiples of `Q` of one key for one moment. Signing consumes it.
pub(in crate::security) struct Ticket {
    pub(super) moment: Moment,
    pub(super) port: u8,
    first: blst_p1_affine,
    /// There until the ticket is dropped.
    table: Option<Table>,
    spent: Spent,
}

impl Ticket {
    /// The expensive half, about a millisecond. **At most once in the life of `key` for
    /// each moment**; only `stock` calls it.
    pub(super) fn new(key: &SecretKey, moment: Moment, port: u8, spent: &Spent) -> Self {
        let text = moment.text();
        Self {
            moment,
            port,
            first: key.sign(&text, TAG_A, &[]).into(),
            table: Some(Table::new(key.sign(&text, TAG_B, &[]))),
            spent: spent.clone(),
        }
    }

    /// `before`, if there is any, and the signature over `text` as one: 48 octets.
    /// `None` when `before` is no point of the curve.
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
        // Wiped here and now if nobody is there to do it: that is what dropping it does.
        if let (Some(table), Ok(mut spent)) = (self.table.take(), self.spent.try_lock())
            && spent.len() < MOST_SPENT
        {
            spent.push(table);
        }
    }
}

const MOST_SPENT: usize = 64;
