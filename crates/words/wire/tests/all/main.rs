//! Tests of encoding and decoding messages.

mod captured;
mod round_trip;
mod signed_tlv;
mod strategies;
