//! Tests of `timeloom run` from outside: whole runs of small scenarios, and their failures.
//!
//! They need root, Python 3.11, the Python environment that `make test` prepares, and the Debian
//! packages mbpoll, dsniff and openvswitch-switch. Each test has a session of its own, so tests may
//! run in any order and at the same time.

mod support;

mod attacks;
mod causality;
mod clients;
mod connecting;
mod containers;
mod control;
mod culprits;
mod dilated;
mod endings;
mod engine_leaves;
mod engine_modes;
mod engine_processes;
mod engines;
mod faults;
mod file_times;
mod getting_in;
mod held_frames;
mod host_names;
mod ieee13;
mod ieee13_variants;
mod ipv6;
mod late_share;
mod link_changes;
mod live_view;
mod lost_frames;
mod mistakes;
mod openflow;
mod periods;
mod repetition;
mod seeds;
mod seeing_inside;
mod simulated_signals;
mod skipping;
mod stepped;
mod terminals;
mod untrusted;
mod users;
mod verify;
