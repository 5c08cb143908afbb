//! Free-running engines compared with the paper's baseline, engines that wait for each other over
//! MPI (`make test-mpi` builds the program; the comparison is skipped without it).
//!
//! The paper's engines ran on two workstations, with messages over TCP. Two transports are measured
//! here: OpenMPI's shared memory, which is possible only between processes of one machine, and its
//! TCP, over loopback, which is faster than any cable.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{BENCH, higher, load};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

const PROGRAM: &str = "timeloom-peering-mpi";

/// Transports between MPI ranks, by OpenMPI's names, each with the transport of the free-running
/// engines to compare it with: UDP, as between machines, or shared memory.
const TRANSPORTS: [(&str, &[&str], &str); 2] = [
    ("shared_memory", &[], "not waiting, shared memory"),
    (
        "tcp",
        &["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"],
        "not waiting",
    ),
];

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let Some(mpi) = Mpi::find() else {
        (options.remark)(
            "net: nothing is compared with MPI: there is no mpirun, or no timeloom-peering-mpi beside this program (make test-mpi)",
        );
        return Ok(());
    };
    for (transport, arguments, free) in TRANSPORTS {
        for cut_us in [1, 10, 100] {
            let mut all = Vec::new();
            for _ in 0..options.pick(1, 5) {
                all.push(mpi.compare(arguments, free, 16, cut_us, options.pick("20", "60"))?);
            }
            let of = |value: fn(&MpiComparison) -> f64| all.iter().map(value).collect::<Vec<_>>();
            let name = format!("peering_over_mpi_{transport}_{cut_us}us");
            let ratios = of(|c| c.free.hops_per_second / c.mpi.hops_per_second);
            figure(
                higher(Figure::new(BENCH, name, "ratio", &ratios))
                    .bar(2.0)
                    .with(
                        "mpi_hops_per_second",
                        crate::median(&of(|c| c.mpi.hops_per_second)),
                    )
                    .with(
                        "hops_per_second",
                        crate::median(&of(|c| c.free.hops_per_second)),
                    )
                    .with(
                        "mpi_simulated_over_wall",
                        crate::median(&of(|c| c.mpi.simulated_over_wall)),
                    )
                    .with(
                        "simulated_over_wall",
                        crate::median(&of(|c| c.free.simulated_over_wall)),
                    )
                    .with(
                        "late_fraction",
                        crate::median(&of(|c| c.free.late_fraction)),
                    )
                    .with("us_per_window", crate::median(&of(|c| c.mpi.us_per_window)))
                    .with("compared", free)
                    .with("cut_ns", cut_us * 1_000)
                    .with("load", load()),
            );
        }
    }
    Ok(())
}

/// Results of one mode of the program, a line of its output.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModeResult {
    way: String,
    pub(super) simulated_over_wall: f64,
    hops_per_second: f64,
    pub(super) goodput_gbps: f64,
    late_fraction: f64,
    us_per_window: f64,
}

struct MpiComparison {
    mpi: ModeResult,
    free: ModeResult,
}

/// The MPI program, which `mpirun` starts.
pub(super) struct Mpi(PathBuf);

impl Mpi {
    /// Finds the program and `mpirun`; returns `None` if one of them is missing.
    pub(super) fn find() -> Option<Self> {
        let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
        let there = Command::new("mpirun").arg("--version").output();
        (there.is_ok() && program.exists()).then_some(Self(program))
    }

    /// Runs engines that wait for each other over TCP, as in the paper.
    pub(super) fn conservative(&self, flows: u32, cut_us: i64) -> Result<ModeResult, BenchError> {
        self.conservative_for(flows, cut_us, "60")
    }

    /// Runs engines that wait for each other for so many simulated ms.
    pub(super) fn conservative_for(
        &self,
        flows: u32,
        cut_us: i64,
        ms: &str,
    ) -> Result<ModeResult, BenchError> {
        let (_, tcp, free) = TRANSPORTS[1];
        Ok(self.compare(tcp, free, flows, cut_us, ms)?.mpi)
    }

    /// Returns the packet hops per second of free-running engines divided by those of waiting
    /// engines: over TCP, and over shared memory.
    pub(super) fn ratios(&self, cut_us: i64) -> Result<[f64; 2], BenchError> {
        let mut ratios = [0.0; 2];
        let [memory, tcp] = TRANSPORTS;
        for (ratio, (_, arguments, free)) in ratios.iter_mut().zip([tcp, memory]) {
            let found = self.compare(arguments, free, 16, cut_us, "60")?;
            *ratio = found.free.hops_per_second / found.mpi.hops_per_second;
        }
        Ok(ratios)
    }

    fn compare(
        &self,
        transport: &[&str],
        free: &str,
        flows: u32,
        cut_us: i64,
        ms: &str,
    ) -> Result<MpiComparison, BenchError> {
        let output = Command::new("mpirun")
            .args(["--allow-run-as-root", "--oversubscribe"])
            .args(["--bind-to", "none"])
            // Rank 1 must not use a core while rank 0 runs threads.
            .args(["--mca", "mpi_yield_when_idle", "1"])
            .args(transport)
            .args(["-n", "2"])
            .arg(&self.0)
            .args(["--shape", "dumbbell", "--rounds", "1", "--ms", ms])
            .args(["--delay-us", &cut_us.to_string()])
            .args(["--flows", &flows.to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::system("starting mpirun"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        // Lines of the self-check also have a field `way`, but no speeds.
        let lines: Vec<ModeResult> = lines
            .filter(|line: &ModeResult| line.simulated_over_wall > 0.0)
            .collect();
        let of = |way: &str| lines.iter().find(|line| line.way == way).cloned();
        match (of("mpi"), of(free)) {
            (Some(mpi), Some(free)) => Ok(MpiComparison { mpi, free }),
            _ => Err(BenchError::Worker(format!(
                "{PROGRAM} with a cut of {cut_us} us: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }
}
