//! What the documents show: the tutorial does what it says, two documents fit together,
//! and every block of code that is not run is at least right in itself.

mod blocks;
mod completeness;
mod parse;
mod tutorial;
