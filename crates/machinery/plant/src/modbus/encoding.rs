//! Encoding of numbers in registers: big-endian, with the high word first.

use std::fmt;

/// Encoding of a value, big-endian and with the high word first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schemars", schemars(rename = "RegisterType"))]
pub enum Encoding {
    // For coils and discrete inputs, and only for those.
    /// Single bit, which is set if the value is not 0.
    #[default]
    Bit,
    /// Signed integer of 16 bits, in one register.
    I16,
    /// Unsigned integer of 16 bits, in one register.
    U16,
    /// Signed integer of 32 bits, in two registers.
    I32,
    /// Unsigned integer of 32 bits, in two registers.
    U32,
    /// IEEE 754 single precision, in two registers.
    F32,
    /// IEEE 754 double precision, in four registers.
    F64,
}

impl fmt::Display for Encoding {
    /// Writes the word that stands for the encoding in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bit => "bit",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

impl Encoding {
    /// Returns the number of addresses that a value occupies. (A bit occupies one in its table.)
    pub const fn width(self) -> u16 {
        match self {
            Self::Bit | Self::I16 | Self::U16 => 1,
            Self::I32 | Self::U32 | Self::F32 => 2,
            Self::F64 => 4,
        }
    }

    /// Appends `value` to `words`. An integer encoding rounds to the nearest number, and a half
    /// away from zero. Returns `false` and appends nothing if the value does not fit.
    pub(crate) fn append(self, value: f64, words: &mut Vec<u16>) -> bool {
        let whole = |low: f64, high: f64| {
            let rounded = value.round();
            (low..=high).contains(&rounded).then_some(rounded as i64)
        };
        let bits = match self {
            Self::Bit => Some(u64::from(value >= 0.5)),
            Self::I16 => whole(i16::MIN.into(), i16::MAX.into()).map(|it| it as u64),
            Self::U16 => whole(0.0, u16::MAX.into()).map(|it| it as u64),
            Self::I32 => whole(i32::MIN.into(), i32::MAX.into()).map(|it| it as u64),
            Self::U32 => whole(0.0, u32::MAX.into()).map(|it| it as u64),
            // A finite double beyond the range of a single would become an infinity, which is
            // refused.
            Self::F32 => (value as f32)
                .is_finite()
                .then(|| u64::from((value as f32).to_bits())),
            Self::F64 => value.is_finite().then(|| value.to_bits()),
        };
        let Some(bits) = bits else { return false };
        words.extend(
            (0..self.width())
                .rev()
                .map(|word| (bits >> (16 * word)) as u16),
        );
        true
    }

    /// Decodes the number in `words`, which must have as many elements as the encoding has
    /// registers.
    pub(crate) fn parse(self, words: &[u16]) -> f64 {
        debug_assert_eq!(words.len(), usize::from(self.width()));
        let bits = words
            .iter()
            .fold(0u64, |bits, word| bits << 16 | u64::from(*word));
        match self {
            Self::Bit | Self::U16 | Self::U32 => bits as f64,
            Self::I16 => f64::from(bits as u16 as i16),
            Self::I32 => f64::from(bits as u32 as i32),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parsed_values_are_emitted_again(words in prop::array::uniform4(any::<u16>())) {
            for encoding in [Encoding::I16, Encoding::U16, Encoding::I32, Encoding::U32, Encoding::F32, Encoding::F64] {
                let words = &words[..encoding.width().into()];
                let value = encoding.parse(words);
                let mut again = Vec::new();
                prop_assert_eq!(encoding.append(value, &mut again), value.is_finite());
                if value.is_finite() {
                    prop_assert_eq!(&again, words);
                }
            }
        }
    }

    #[test]
    fn the_high_word_comes_first() {
        let mut words = Vec::new();
        assert!(Encoding::F32.append(1.0, &mut words));
        assert!(Encoding::I32.append(-2.4, &mut words));
        assert!(Encoding::U32.append(65536.5, &mut words));
        assert_eq!(words, [0x3F80, 0, 0xFFFF, 0xFFFE, 1, 1]);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (encoding, good, bad) in [
            (Encoding::I16, -32768.4, -32768.5),
            (Encoding::I16, 32767.4, 32767.5),
            (Encoding::U16, -0.4, -0.5),
            (Encoding::U16, 65535.0, 65536.0),
            (Encoding::I32, 2147483647.0, 2147483648.0),
            (Encoding::U32, 4294967295.0, -1.0),
            (Encoding::F32, 3.4e38, 3.5e38),
            (Encoding::F64, f64::MAX, f64::INFINITY),
        ] {
            let mut words = Vec::new();
            assert!(encoding.append(good, &mut words), "{encoding:?} {good}");
            assert!(!encoding.append(bad, &mut words), "{encoding:?} {bad}");
            assert!(!encoding.append(f64::NAN, &mut words), "{encoding:?}");
            assert_eq!(words.len(), usize::from(encoding.width()));
        }
    }
}
