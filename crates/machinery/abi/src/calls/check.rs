//! Compile-time checks of the table.

use crate::calls::lookup::is_same;
use crate::calls::{CALLS, Call, CallCondition, Extra, Handler};

const _: () = {
    let mut index = 0;
    while index < CALLS.len() {
        let call = &CALLS[index];
        assert!(
            call.traps() == call.handler.is_some(),
            "a call that may trap has a handler in the image, and no other has"
        );
        assert!(
            call.treatment.is_none() == call.outcome.is_empty(),
            "what is done to a call in every guest is told"
        );
        assert!(
            !call.is_for(Extra::Stamps) && !call.is_for(Extra::Reads)
                || call.is_for(Extra::Timeouts),
            "timeouts make everything trap that the others need"
        );
        let mut before = 0;
        while before < index {
            assert!(
                !clash(&CALLS[before], call)
                    || before + 1 == index && are_disjoint(&CALLS[before], call),
                "a call has one row, or two next to each other for different values of an argument"
            );
            before += 1;
        }
        index += 1;
    }
};

const _: () = {
    let mut index = 0;
    while index < Handler::ALL.len() {
        assert!(is_named(Handler::ALL[index]), "a handler answers some call");
        index += 1;
    }
};

const fn clash(one: &Call, other: &Call) -> bool {
    is_same(one.name, other.name)
        || is_equal(one.numbers.x86_64, other.numbers.x86_64)
        || is_equal(one.numbers.aarch64, other.numbers.aarch64)
}

/// Returns true if no call meets the conditions of both rows.
const fn are_disjoint(one: &Call, other: &Call) -> bool {
    let (CallCondition::OneOf(argument, values), CallCondition::OneOf(same, others)) =
        (one.when, other.when)
    else {
        return false;
    };
    let mut index = 0;
    while index < values.len() {
        let mut at = 0;
        while at < others.len() {
            if values[index] == others[at] {
                return false;
            }
            at += 1;
        }
        index += 1;
    }
    argument == same
}

const fn is_equal(one: Option<u32>, other: Option<u32>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

const fn is_named(handler: Handler) -> bool {
    let mut index = 0;
    while index < CALLS.len() {
        if let Some(named) = CALLS[index].handler
            && named as u8 == handler as u8
        {
            return true;
        }
        index += 1;
    }
    false
}
