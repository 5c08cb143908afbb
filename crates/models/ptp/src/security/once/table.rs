//! Table of multiples of a point, which makes any multiple of the point a short sum.
//!
//! A number below the group's order is written with 51 signed digits of 5 bits. For every digit,
//! the table contains the 16 multiples that the digit can select; a negative digit costs a
//! subtraction in the field. The table takes 78 KiB and half a millisecond to make, and a
//! multiplication takes 51 additions. The numbers are hashes that any observer can compute, so the
//! timing of the lookups reveals nothing.

use blst::min_sig::{AggregateSignature, Signature};
use blst::{blst_p1, blst_p1_affine, p1_affines};
use zeroize::Zeroize;

/// Bits per digit.
const BITS: usize = 5;
/// Multiples per digit: 1 … 16.
const EACH: usize = 1 << (BITS - 1);
/// Number of digits; the last one takes the remainder and is unsigned.
const PLACES: usize = 51;
/// Greatest last digit: the group's order begins with digit 28, and there may be a carry.
const LAST: usize = 29;

pub(super) struct Table {
    points: p1_affines,
}

impl Table {
    pub(super) const SIZE: usize = (PLACES - 1) * EACH + LAST;

    /// Greatest number of points that [`Table::choose`] appends.
    pub(super) const MOST: usize = PLACES;

    pub(super) fn new(point: Signature) -> Self {
        let mut multiples: Vec<blst_p1> = Vec::with_capacity(Self::SIZE);
        let mut base = AggregateSignature::from_signature(&point);
        for place in 0..PLACES {
            let mut multiple = base;
            multiples.push(multiple.into());
            let count = if place + 1 < PLACES { EACH } else { LAST };
            for _ in 1..count {
                multiple.add_aggregate(&base);
                multiples.push(multiple.into());
            }
            // The base of the next digit is 2 · 16 times this base.
            base = multiple;
            base.add_aggregate(&multiple);
        }
        let points = p1_affines::from(&multiples);
        for point in &mut multiples {
            for field in [&mut point.x, &mut point.y, &mut point.z] {
                field.l.zeroize();
            }
        }
        Self { points }
    }

    /// Appends to `sum` the points whose sum is `number` times the table's point. `number` is in
    /// little-endian octets and below the order.
    pub(super) fn choose(&self, number: &[u8; 32], sum: &mut Vec<blst_p1_affine>) {
        let mut carry = 0;
        for place in 0..PLACES {
            let digit = digit(number, place) + carry;
            let row = place * EACH;
            if place + 1 == PLACES {
                if digit > 0 {
                    sum.push(self.points[row + digit - 1]);
                }
            } else if digit > EACH {
                carry = 1;
                if digit < 2 * EACH {
                    sum.push(negative(self.points[row + 2 * EACH - digit - 1]));
                }
            } else {
                carry = 0;
                if digit > 0 {
                    sum.push(self.points[row + digit - 1]);
                }
            }
        }
    }
}

impl Drop for Table {
    /// Wipes the table, because knowledge of `Q` suffices to sign another text for the same Sync.
    fn drop(&mut self) {
        wipe(&mut self.points[..]);
    }
}

pub(super) fn wipe(points: &mut [blst_p1_affine]) {
    for point in points {
        point.x.l.zeroize();
        point.y.l.zeroize();
    }
}

fn digit(number: &[u8; 32], place: usize) -> usize {
    let at = place * BITS;
    let pair = [number[at / 8], number.get(at / 8 + 1).copied().unwrap_or(0)];
    usize::from(u16::from_le_bytes(pair) >> (at % 8)) & (2 * EACH - 1)
}

/// Modulus of the field, least significant limb first.
const MODULUS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// Returns `−point`, whose coordinate is `p − y`; this also holds in the library's Montgomery form.
/// No point of the group has `y = 0`.
fn negative(mut point: blst_p1_affine) -> blst_p1_affine {
    let mut borrow = false;
    for (limb, modulus) in point.y.l.iter_mut().zip(MODULUS) {
        let (first, under) = modulus.overflowing_sub(*limb);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        *limb = second;
        borrow = under | under_again;
    }
    point
}

#[cfg(test)]
mod tests {
    use blst::MultiPoint;
    use blst::min_sig::SecretKey;
    use proptest::prelude::*;

    use super::*;

    /// The group's order minus one, in little-endian octets.
    const LARGEST: [u8; 32] = [
        0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x5b, 0xfe, 0xff, 0x02, 0xa4, 0xbd, 0x53, 0x05,
        0xd8, 0xa1, 0x09, 0x08, 0xd8, 0x39, 0x33, 0x48, 0x7d, 0x9d, 0x29, 0x53, 0xa7, 0xed, 0x73,
    ];

    fn by_table(table: &Table, number: &[u8; 32]) -> Signature {
        let mut sum = Vec::new();
        table.choose(number, &mut sum);
        assert!(sum.len() <= Table::MOST);
        AggregateSignature::from(sum.add()).to_signature()
    }

    fn by_the_library(point: Signature, number: &[u8; 32]) -> Signature {
        [point].mult(number, 255).to_signature()
    }

    fn point() -> Signature {
        let key = SecretKey::key_gen(&[7; 32], &[]).unwrap();
        key.sign(b"a point", b"of the group", &[])
    }

    #[test]
    fn multiples_at_the_edges_are_the_librarys() {
        let table = Table::new(point());
        assert_eq!(table.points.as_slice().len(), Table::SIZE);
        let mut numbers = vec![LARGEST];
        for bit in 0..255 {
            // Powers of two, and numbers with all ones below them, produce every possible carry.
            let (mut power, mut ones) = ([0; 32], [0; 32]);
            power[bit / 8] = 1 << (bit % 8);
            (0..bit.min(254)).for_each(|bit| ones[bit / 8] |= 1 << (bit % 8));
            numbers.extend([power, ones].into_iter().filter(|n| n != &[0; 32]));
        }
        for number in numbers {
            assert_eq!(
                by_table(&table, &number),
                by_the_library(point(), &number),
                "{number:02x?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn multiples_are_the_librarys(seed: [u8; 32], number: [u8; 32]) {
            let point = SecretKey::key_gen(&seed, &[]).unwrap().sign(b"t", b"d", &[]);
            let mut number = number;
            number[31] &= 0x3f;
            number[0] |= 1;
            prop_assert_eq!(by_table(&Table::new(point), &number), by_the_library(point, &number));
        }
    }
}
