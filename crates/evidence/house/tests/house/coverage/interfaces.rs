//! Interfaces of Linux that carry time, other than the calls of `timeloom_abi::calls`, and their
//! virtualisation. They form the second table of `docs/coverage.md`.
//!
//! If an interface shows real time without a report at run time, its row states the reason, the
//! programs affected and a workaround; a row without these does not compile. The tests check that
//! every call of the kernel is in one of the tables, or in the list of calls without time.

mod devices;
mod files;
mod network;
mod processes;
mod timeless;

use std::fmt::Write as _;

/// Row of the table: one interface, or several similar ones.
pub(super) struct Interface {
    /// Name of the interface, as its users know it.
    name: &'static str,
    /// Time that the interface returns or accepts.
    time: &'static str,
    /// Treatment of the interface.
    fate: Fate,
    /// System calls that carry this time and that the filters do not treat.
    calls: &'static [&'static str],
}

/// Treatment of an interface in a session.
pub(super) enum Fate {
    /// The interface shows virtual time.
    Virtual { how: &'static str },
    /// The interface is unavailable to guests.
    Refused {
        why: &'static str,
        way_out: &'static str,
    },
    /// The interface shows real time. Its use is counted and reported on stderr and in the run
    /// report.
    Named {
        harm: &'static str,
        way_out: &'static str,
    },
    /// The interface shows real time. Its use is not reported while a program runs.
    Real {
        why: &'static str,
        harm: &'static str,
        way_out: &'static str,
    },
}

/// All rows of the table, by heading.
const GROUPS: &[(&str, &[Interface])] = &[
    ("Sockets and networks", network::ROWS),
    (
        "Files of `/proc` and `/sys`, and times of files",
        files::ROWS,
    ),
    ("Devices", devices::ROWS),
    ("Processes, processors and tracing", processes::ROWS),
];

/// Returns the table in Markdown.
pub(super) fn table() -> String {
    let mut text = String::from(
        "\n# Other interfaces that carry time\n\n\
         The column *treatment* has one of these words:\n\n\
         - *virtual*: the interface uses virtual time;\n\
         - *refused*: the interface is unavailable to guests;\n\
         - *reported*: the interface uses real time; each use is counted, and reported on stderr, in `events.parquet` and at\n\
           the end of the run;\n\
         - *real*: the interface uses real time, and this is not reported at run time, but only here and in\n\
           [limitations.md](limitations.md).\n",
    );
    for (heading, rows) in GROUPS {
        let _ = write!(
            text,
            "\n## {heading}\n\n| interface | time | treatment | reason and effect | what to do |\n|---|---|---|---|---|\n"
        );
        for row in *rows {
            let (here, why, way_out) = row.fate.cells();
            let _ = writeln!(
                text,
                "| {} | {} | {here} | {why} | {way_out} |",
                row.name, row.time
            );
        }
    }
    let rows = GROUPS.iter().flat_map(|(_, rows)| rows.iter());
    let native: Vec<&str> = rows.flat_map(|row| row.calls.iter().copied()).collect();
    let _ = write!(
        text,
        "\n## Calls that run natively\n\nThese calls carry time of the kinds in the rows above: {}.\n\n\
         All calls up to Linux 6.17 were reviewed; newer calls are answered with ENOSYS, as by a kernel that lacks them. \
         These calls carry no time: {}.\n",
        super::listed(native.into_iter()),
        super::listed(timeless::CALLS.iter().copied()),
    );
    text
}

impl Fate {
    /// Returns the last three columns of the row.
    fn cells(&self) -> (&'static str, String, &'static str) {
        match *self {
            Self::Virtual { how } => ("virtual", how.to_owned(), "—"),
            Self::Refused { why, way_out } => ("refused", why.to_owned(), way_out),
            Self::Named { harm, way_out } => ("reported", harm.to_owned(), way_out),
            Self::Real { why, harm, way_out } => {
                ("**real**", format!("{why}. Affected: {harm}"), way_out)
            }
        }
    }

    const fn is_told(&self) -> bool {
        match *self {
            Self::Virtual { how } => !how.is_empty(),
            Self::Refused { why, way_out } => !why.is_empty() && !way_out.is_empty(),
            Self::Named { harm, way_out } => !harm.is_empty() && !way_out.is_empty(),
            Self::Real { why, harm, way_out } => {
                !why.is_empty() && !harm.is_empty() && !way_out.is_empty()
            }
        }
    }
}

const _: () = {
    let mut group = 0;
    while group < GROUPS.len() {
        let rows = GROUPS[group].1;
        let mut index = 0;
        while index < rows.len() {
            let row = &rows[index];
            assert!(
                !row.name.is_empty() && !row.time.is_empty() && row.fate.is_told(),
                "a row states its interface, the reason, the affected programs and the way out"
            );
            index += 1;
        }
        group += 1;
    }
};

const fn is_virtual(name: &'static str, time: &'static str, how: &'static str) -> Interface {
    row(name, time, Fate::Virtual { how })
}

const fn refused(
    name: &'static str,
    time: &'static str,
    why: &'static str,
    way_out: &'static str,
) -> Interface {
    row(name, time, Fate::Refused { why, way_out })
}

const fn named(
    name: &'static str,
    time: &'static str,
    harm: &'static str,
    way_out: &'static str,
) -> Interface {
    row(name, time, Fate::Named { harm, way_out })
}

const fn real(
    name: &'static str,
    time: &'static str,
    [why, harm, way_out]: [&'static str; 3],
) -> Interface {
    row(name, time, Fate::Real { why, harm, way_out })
}

const fn row(name: &'static str, time: &'static str, fate: Fate) -> Interface {
    Interface {
        name,
        time,
        fate,
        calls: &[],
    }
}

impl Interface {
    const fn by(self, calls: &'static [&'static str]) -> Self {
        Self { calls, ..self }
    }
}

#[cfg(test)]
mod tests;
