//! Tests of the documents: the tutorial must work as described, two documents must fit together,
//! and every block of code that is not run must at least be valid.

mod blocks;
mod completeness;
mod parse;
mod tutorial;
