//! Tests of the invariants of the whole workspace.
#![forbid(unsafe_code)]

mod casts;
mod coverage;
mod cycles;
mod documents;
mod faults;
mod language;
mod layers;
mod licence;
mod output;
mod scripts;
mod targets;
mod twin_enums;
mod type_names;
mod unsafe_code;
mod versions;
