//! Messages as bytes and back.

mod captured;
mod round_trip;
mod signed_tlv;
mod strategies;
