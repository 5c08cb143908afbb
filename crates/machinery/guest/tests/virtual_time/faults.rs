//! What runs out or is taken away while a session goes on: `docs/faults.md`, row by row.

mod cgroups;
mod clients;
mod descriptors;
mod threads;
