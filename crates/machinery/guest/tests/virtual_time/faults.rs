//! Resources that are exhausted or removed while a session runs: `docs/faults.md`, row by row.

mod cgroups;
mod clients;
mod descriptors;
mod threads;
