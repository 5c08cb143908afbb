//! Tests of `docs/faults.md`, row by row: resources that are exhausted or removed while a session
//! runs.

mod cgroups;
mod clients;
mod descriptors;
mod threads;
