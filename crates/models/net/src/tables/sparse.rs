//! Table indexed by number, of which an engine may have only some rows.
//!
//! A number means the same in all engines of one network. A row that an engine does not have takes
//! four bytes. A table with all rows is a plain list.

use core::ops::{Index, IndexMut};

use timeloom_time::convert::number_of;

use crate::packet::NIL;

/// Table of rows indexed by number.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<T> {
    rows: Vec<T>,
    /// Index of each number's row in `rows`; [`NIL`] for rows of other engines. Empty if this
    /// engine has all rows.
    places: Vec<u32>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl<T> From<Vec<T>> for Sparse<T> {
    fn from(rows: Vec<T>) -> Self {
        Self {
            rows,
            places: Vec::new(),
        }
    }
}

impl<T> Sparse<T> {
    /// Returns a table of `count` numbers with the wanted rows, which `make` creates.
    pub(crate) fn some(
        count: u32,
        wanted: impl Fn(u32) -> bool,
        make: impl FnMut(u32) -> T,
    ) -> Self {
        let here = (0..count).filter(|number| wanted(*number)).count();
        let mut rows = Vec::with_capacity(here);
        rows.extend((0..count).filter(|number| wanted(*number)).map(make));
        let mut places = Vec::new();
        if here < count as usize {
            let mut next = 0..number_of(here);
            let place = |number| wanted(number).then(|| next.next()).flatten();
            places.reserve_exact(count as usize);
            places.extend((0..count).map(place).map(|place| place.unwrap_or(NIL)));
        }
        Self { rows, places }
    }

    /// Returns the table with only those rows for which `wanted` is true.
    pub(crate) fn part(&self, wanted: impl Fn(u32, &T) -> bool) -> Self
    where
        T: Clone,
    {
        let is_wanted = |number| self.get(number).is_some_and(|row| wanted(number, row));
        Self::some(number_of(self.len()), is_wanted, |number| {
            self[number].clone()
        })
    }

    /// Returns the count of numbers, including those whose rows are in other engines.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len().max(self.places.len())
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        if self.places.is_empty() {
            return number as usize;
        }
        self.places.get(number as usize).copied().unwrap_or(NIL) as usize
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.rows.get(self.place(number))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.place(number);
        self.rows.get_mut(place)
    }

    /// Adds a number whose row is in this engine.
    pub(crate) fn push(&mut self, row: T) {
        if !self.places.is_empty() {
            self.places.push(number_of(self.rows.len()));
        }
        self.rows.push(row);
    }

    /// Iterates over the rows of this engine, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbers = 0..number_of(self.len());
        numbers.filter_map(|number| Some((number, self.get(number)?)))
    }

    /// Returns the size of the table in bytes, without allocations of the rows.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<T>() * self.rows.capacity() + size_of::<u32>() * self.places.capacity()
    }
}

impl<T> Index<u32> for Sparse<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.rows[self.place(number)]
    }
}

impl<T> IndexMut<u32> for Sparse<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        let place = self.place(number);
        &mut self.rows[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_the_same_if_rows_are_missing() {
        let mut table = Sparse::some(5, |number| number % 2 == 1, |number| number * 10);
        assert_eq!(
            (table.len(), table.get(0), table.get(3)),
            (5, None, Some(&30))
        );
        assert_eq!(table.get(5), None);
        table[1] += 1;
        table.push(50);
        assert_eq!((table.len(), table[5]), (6, 50));
        assert!(table.iter().eq([(1, &11), (3, &30), (5, &50)]));
        assert_eq!(table.get_mut(4), None);
    }

    #[test]
    fn a_whole_table_is_a_list() {
        let mut table = Sparse::some(3, |_| true, |number| number);
        table.push(3);
        assert!(table.iter().map(|(_, row)| *row).eq(0..4));
        let places = size_of::<u32>() * table.places.len();
        assert_eq!(places, 0);
    }
}
