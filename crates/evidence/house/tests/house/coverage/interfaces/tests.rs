//! Tests that the tables are complete.

use std::collections::BTreeSet;
use std::fs;

use timeloom_abi::calls::{CALLS, NEWEST};

use super::*;

/// Calls that Linux added after the headers of Debian 12, up to [`NEWEST`].
const NEWER: &[&str] = &[
    "cachestat",
    "fchmodat2",
    "map_shadow_stack",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "statmount",
    "listmount",
    "lsm_get_self_attr",
    "lsm_set_self_attr",
    "lsm_list_modules",
    "mseal",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "open_tree_attr",
    "file_getattr",
    "file_setattr",
    "uretprobe",
    "uprobe",
];

/// Returns the names of all system calls in the kernel's headers on this machine: those of its
/// architecture, and those of architectures with the common numbers (such as 64-bit ARM).
fn calls_of_the_kernel() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = NEWER.iter().map(|&name| name.to_owned()).collect();
    let places = [
        "/usr/include/asm-generic/unistd.h",
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "/usr/include/asm/unistd_64.h",
    ];
    let texts: Vec<String> = places
        .iter()
        .filter_map(|place| fs::read_to_string(place).ok())
        .collect();
    assert!(
        !texts.is_empty(),
        "no headers of the kernel (linux-libc-dev)"
    );
    for line in texts.iter().flat_map(|text| text.lines()) {
        let mut words = line.split_ascii_whitespace();
        let ("#define", Some(name)) = (words.next().unwrap_or_default(), words.next()) else {
            continue;
        };
        let name = name
            .strip_prefix("__NR3264_")
            .or_else(|| name.strip_prefix("__NR_"));
        let number = words.next().and_then(|word| word.parse::<u32>().ok());
        if let (Some(name), Some(number)) = (name, number)
            && number <= NEWEST
            && !is_of_32_bits(name)
        {
            names.insert(name.to_owned());
        }
    }
    // Skips the number of calls, and the mark at which each architecture's own calls begin.
    for mark in ["syscalls", "arch_specific_syscall"] {
        names.remove(mark);
    }
    names
}

fn is_of_32_bits(name: &str) -> bool {
    let timed = ["clock_", "timer_", "timerfd_"];
    name.ends_with("time64")
        || name.ends_with("64") && timed.iter().any(|part| name.starts_with(part))
}

#[test]
fn every_call_of_the_kernel_has_been_looked_at() {
    let treated: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
    let rows = GROUPS.iter().flat_map(|(_, rows)| rows.iter());
    let in_rows: BTreeSet<&str> = rows.flat_map(|row| row.calls.iter().copied()).collect();
    let timeless: BTreeSet<&str> = timeless::CALLS.iter().copied().collect();
    assert_eq!(timeless.len(), timeless::CALLS.len(), "none twice");
    for name in calls_of_the_kernel() {
        let name = name.as_str();
        assert!(
            treated.contains(name) || in_rows.contains(name) || timeless.contains(name),
            "what time does `{name}` tell or take? It belongs into `abi/src/calls/table.rs`, \
             `coverage/interfaces` or `timeless.rs`"
        );
    }
    let contradiction: Vec<_> = timeless
        .iter()
        .filter(|name| treated.contains(*name) || in_rows.contains(*name))
        .collect();
    assert!(contradiction.is_empty(), "{contradiction:?}");
}

#[test]
fn each_row_states_the_reason_the_affected_programs_and_the_way_out() {
    for row in GROUPS.iter().flat_map(|(_, rows)| rows.iter()) {
        assert!(row.fate.is_told(), "{}", row.name);
        let (_, why, way_out) = row.fate.cells();
        for cell in [row.name, row.time, &why, way_out] {
            assert!(
                !cell.contains(['|', '\n']),
                "{cell}: it is a cell of a table"
            );
        }
    }
}

/// Checks that one or two rows describe each option reported at run time, under the option's name.
#[test]
fn each_named_option_of_a_socket_has_a_row() {
    for option in timeloom_abi::calls::SOCKET_OPTIONS {
        let name = option.name.trim_start_matches("setsockopt(");
        let name = name.trim_end_matches(')');
        let mut rows = GROUPS.iter().flat_map(|(_, rows)| rows.iter());
        assert!(
            rows.any(|row| row.name.contains(name) && matches!(row.fate, Fate::Named { .. })),
            "{name}"
        );
    }
}
