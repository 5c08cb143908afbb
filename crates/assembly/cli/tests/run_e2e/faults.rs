//! External and internal faults. `docs/faults.md` lists the required behaviour, row by row.

mod clock_source;
mod disks;
mod limits;
mod memory;
mod stopped;
mod strays;
