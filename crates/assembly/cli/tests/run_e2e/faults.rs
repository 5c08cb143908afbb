//! Faults from outside and from inside: what must hold is in `docs/faults.md`, row by row.

mod clock_source;
mod disks;
mod limits;
mod memory;
mod stopped;
mod strays;
