//! Contents of the documents: the tutorial works as described, two documents fit together, and
//! every block of code that is not run is at least valid.

mod blocks;
mod completeness;
mod parse;
mod tutorial;
