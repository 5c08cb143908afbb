//! Serialisation of counters as a row of numbers, for transfer between processes.
//!
//! Both processes run the same build, so the row has no names. The reader rejects a row that is too
//! short.

use timeloom_net::{FluidLinkStats, FluidStats, LinkStats, TcpStats, TrafficStats};
use timeloom_time::{Duration, Instant, Virtual};

/// Value that can be stored as a row of numbers.
pub(crate) trait Numbers: Sized {
    /// Appends the numbers of this value to `row`.
    fn put(&self, row: &mut Vec<u64>);

    /// Takes the value's numbers from the front of `row`; `None` if there are fewer.
    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self>;
}

impl Numbers for u64 {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(*self);
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next()
    }
}

impl Numbers for u32 {
    fn put(&self, row: &mut Vec<u64>) {
        row.push((*self).into());
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next()?.try_into().ok()
    }
}

impl Numbers for usize {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(*self as u64);
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next()?.try_into().ok()
    }
}

impl Numbers for f64 {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(self.to_bits());
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next().map(Self::from_bits)
    }
}

impl Numbers for Duration {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(self.as_ns().cast_unsigned());
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next().map(|ns| Self::from_ns(ns.cast_signed()))
    }
}

impl Numbers for Instant<Virtual> {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(self.as_ns().cast_unsigned());
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        row.next().map(|ns| Self::from_ns(ns.cast_signed()))
    }
}

impl<T: Numbers> Numbers for Option<T> {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(self.is_some().into());
        if let Some(one) = self {
            one.put(row);
        }
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        match row.next()? {
            0 => Some(None),
            _ => T::take(row).map(Some),
        }
    }
}

impl<K: Numbers + Ord, V: Numbers> Numbers for std::collections::BTreeMap<K, V> {
    fn put(&self, row: &mut Vec<u64>) {
        row.push(self.len() as u64);
        for (key, value) in self {
            key.put(row);
            value.put(row);
        }
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        let count = row.next()?;
        let mut map = Self::new();
        // The loop ends with the row, even if `count` is larger.
        for _ in 0..count {
            map.insert(K::take(row)?, V::take(row)?);
        }
        Some(map)
    }
}

/// Implements [`Numbers`] for a structure as the numbers of all its fields.
macro_rules! numbers {
    ($type:ident: $($field:ident),*) => {
        impl $crate::numbers::Numbers for $type {
            fn put(&self, row: &mut Vec<u64>) {
                let Self { $($field),* } = self;
                $($crate::numbers::Numbers::put($field, row);)*
            }

            fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
                Some(Self { $($field: $crate::numbers::Numbers::take(row)?),* })
            }
        }
    };
}
pub(crate) use numbers;

numbers!(LinkStats: packets, bytes, dropped, marked, lost, waited_ns);
numbers!(FluidLinkStats: arrived_bytes, lost_bytes, waiting_bytes);
numbers!(
    TcpStats: delivered_bytes, acknowledged_bytes, retransmitted, slowed_by_marks, timeouts, window, smoothed_rtt,
    finished_at
);
numbers!(
    TrafficStats: sent, received, received_bytes, delay_sum_ns, delay_max_ns, reordered, expected
);
numbers!(
    FluidStats: sent_bytes, delivered_bytes, lost_bytes, waiting_bytes, window, round_trip, slowed
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_row_returns_the_values_put_in() {
        let tcp = TcpStats {
            delivered_bytes: 7,
            window: -0.5,
            smoothed_rtt: Duration::from_ns(-3),
            finished_at: Some(Instant::from_ns(9)),
            ..TcpStats::default()
        };
        let all = BTreeMap::from([(3usize, tcp), (5, TcpStats::default())]);
        let mut row = Vec::new();
        all.put(&mut row);
        let taken = BTreeMap::<usize, TcpStats>::take(&mut row.iter().copied());
        assert_eq!(taken, Some(all));
        for less in 0..row.len() {
            let mut short = row[..less].iter().copied();
            assert_eq!(BTreeMap::<usize, TcpStats>::take(&mut short), None);
        }
        // Memory must not be allocated for an impossible count.
        row[0] = u64::MAX;
        assert_eq!(
            BTreeMap::<usize, TcpStats>::take(&mut row.into_iter()),
            None
        );
    }
}
