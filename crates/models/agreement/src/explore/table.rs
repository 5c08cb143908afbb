//! Table that numbers values: each value is stored once, and other tables refer to it by its
//! number.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::rc::Rc;

pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;
pub(super) type Set<K> = HashSet<K, BuildHasherDefault<Mixer>>;

pub(super) struct Table<T> {
    numbers: Map<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            numbers: Map::default(),
            values: Vec::new(),
        }
    }
}

impl<T: Hash + Eq> Table<T> {
    /// Returns the number of a value; a new value gets the next free number.
    pub(super) fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).expect("fewer values than numbers");
        let value = Rc::new(value);
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }

    pub(super) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

/// Multiplicative hash function over whole words.
pub(super) struct Mixer(pub(super) u64);

impl Default for Mixer {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        self.0 = folded.wrapping_add(self.0.rotate_left(23));
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn write_u128(&mut self, word: u128) {
        self.mix(word as u64);
        self.mix((word >> 64) as u64);
    }
}
