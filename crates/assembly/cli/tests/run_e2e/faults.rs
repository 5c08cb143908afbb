//! Faults from outside and from inside: what must hold is in `docs/faults.md`, row by row.

mod disks;
mod limits;
mod stopped;
mod strays;
