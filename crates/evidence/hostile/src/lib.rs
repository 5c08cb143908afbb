//! All parsers of untrusted bytes, with the invariants that hold for arbitrary bytes.
//!
//! Each function in [`INPUTS`] takes bytes as a hostile sender could send them. It panics if the
//! parser panics, or if the parser accepts invalid bytes. The fuzzer in `fuzz/` calls each function
//! (`make fuzz`), with the seeds in `fuzz/seeds/NAME`. The test of this crate calls all functions
//! with those seeds and with many variations of them, in seconds.
//!
//! The crate contains no parsers of its own, and no product depends on it. docs/security.md lists
//! the senders.
#![forbid(unsafe_code)]

mod agents;
mod guests;
mod machines;
mod networks;
mod plants;
mod ptp;
mod runs;
mod scenarios;
mod timelines;

pub use runs::remove_directory;

/// Function that tests one parser with untrusted bytes.
pub type Input = fn(&[u8]);

/// All tests by name; the folders of seeds have the same names.
pub const INPUTS: [(&str, Input); 29] = [
    ("agent_hears", agents::hears),
    ("agent_peer", agents::peer),
    ("agent_results", agents::results),
    ("bundle", scenarios::bundle),
    ("clock_page", timelines::clock_page),
    ("control_socket", guests::control_socket),
    ("foreign_page", timelines::foreign_page),
    ("graph", networks::graph),
    ("initial_stack", guests::initial_stack),
    ("key_file", ptp::key_file),
    ("modbus", plants::modbus),
    ("network_frame", networks::frame),
    ("pause_bus", agents::pause_bus),
    ("peering_datagram", networks::peering_datagram),
    ("plant_reply", plants::reply),
    ("ptp_message", ptp::message),
    ("report", runs::report),
    ("run_directory", runs::directory),
    ("scenario", scenarios::scenario),
    ("seccomp_call", guests::seccomp_call),
    ("time_server", timelines::time_server),
    ("timeline_message", timelines::message),
    ("timeline_page", timelines::timeline_page),
    ("timeline_socket", timelines::socket),
    ("tunnel", agents::tunnel),
    ("vdso", guests::vdso),
    ("vm_frames", machines::frames),
    ("vm_monitor", machines::monitor),
    ("vm_region", machines::region),
];

/// Returns the test with this name.
///
/// # Panics
/// Panics if there is none.
pub fn input(name: &str) -> Input {
    let found = INPUTS.iter().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no input is called {name}"))
        .1
}

/// Returns the first `N` bytes, padded with zeros, and the remaining bytes.
fn split<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let (head, rest) = bytes.split_at(bytes.len().min(N));
    let mut first = [0; N];
    first[..head.len()].copy_from_slice(head);
    (first, rest)
}
