//! Lookup of calls by number or name, on the target architecture.

use crate::calls::{CALLS, Call, Extra, Handler};

/// Returns the rows of calls that the target architecture has.
pub fn calls() -> impl Iterator<Item = &'static Call> + Clone {
    CALLS.iter().filter(|call| call.number().is_some())
}

/// Returns the rows of the call with this number. A call has two rows if it is treated in two ways,
/// under disjoint conditions.
pub fn rows(number: i64) -> impl Iterator<Item = &'static Call> + Clone {
    calls().filter(move |call| call.number().map(i64::from) == Some(number))
}

/// Returns the first row of the call with this number, or `None` if the table lacks the call.
pub fn find(number: i64) -> Option<&'static Call> {
    calls().find(|call| call.number().map(i64::from) == Some(number))
}

/// Returns the number of the call with this name. Intended for constants.
///
/// # Panics
/// Panics if the target architecture has no such call in the table. In a constant this is a
/// compile-time error.
pub const fn number(name: &str) -> usize {
    let mut index = 0;
    while index < CALLS.len() {
        if is_same(CALLS[index].name, name) {
            match CALLS[index].number() {
                Some(number) => return number as usize,
                None => panic!("this architecture has no such call"),
            }
        }
        index += 1;
    }
    panic!("the table has no such call")
}

/// Returns the part of the image that handles a trapped call. The image calls this function for
/// each trap, so the lookup is one load without a search.
#[inline(always)]
pub fn handler_of(number: usize) -> Option<Handler> {
    *HANDLERS.get(number)?
}

static HANDLERS: [Option<Handler>; LENGTH] = {
    let mut handlers = [None; LENGTH];
    let mut index = 0;
    while index < CALLS.len() {
        if let (Some(number), Some(handler)) = (CALLS[index].number(), CALLS[index].handler) {
            handlers[number as usize] = Some(handler);
        }
        index += 1;
    }
    handlers
};

/// Length of the handler table: the highest number of a call with a handler, plus one.
const LENGTH: usize = {
    let mut length = 0;
    let mut index = 0;
    while index < CALLS.len() {
        if let (Some(number), Some(_)) = (CALLS[index].number(), CALLS[index].handler)
            && number as usize >= length
        {
            length = number as usize + 1;
        }
        index += 1;
    }
    length
};

/// Returns the number of calls that trap in processes that have requested `extra`.
pub const fn extra_count(extra: Extra) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < CALLS.len() {
        if CALLS[index].number().is_some() && CALLS[index].is_for(extra) {
            count += 1;
        }
        index += 1;
    }
    count
}

/// Returns the numbers of the calls that trap in processes that have requested `extra`. `COUNT`
/// must be [`extra_count`] of it.
///
/// # Panics
/// Panics if `COUNT` is another number. In a constant this is a compile-time error.
pub const fn extra_numbers<const COUNT: usize>(extra: Extra) -> [u32; COUNT] {
    assert!(COUNT == extra_count(extra));
    let mut numbers = [0; COUNT];
    let (mut count, mut index) = (0, 0);
    while index < CALLS.len() {
        if let (Some(number), true) = (CALLS[index].number(), CALLS[index].is_for(extra)) {
            numbers[count] = number;
            count += 1;
        }
        index += 1;
    }
    numbers
}

/// Returns the number of calls that have a handler in the image.
pub const fn handled_count() -> usize {
    let (mut count, mut index) = (0, 0);
    while index < CALLS.len() {
        if CALLS[index].number().is_some() && CALLS[index].handler.is_some() {
            count += 1;
        }
        index += 1;
    }
    count
}

/// Returns the numbers of the calls that have a handler in the image. `COUNT` must be
/// [`handled_count`].
///
/// # Panics
/// Panics if `COUNT` is another number. In a constant this is a compile-time error.
pub const fn handled_numbers<const COUNT: usize>() -> [u32; COUNT] {
    assert!(COUNT == handled_count());
    let mut numbers = [0; COUNT];
    let (mut count, mut index) = (0, 0);
    while index < CALLS.len() {
        if let (Some(number), Some(_)) = (CALLS[index].number(), CALLS[index].handler) {
            numbers[count] = number;
            count += 1;
        }
        index += 1;
    }
    numbers
}

pub(crate) const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}
