//! The staircases of the paper's Figures 7 to 10: the number of flows doubles in each step, and
//! throughput is measured over time. Steps are long enough that slow start does not dominate.

use timeloom_net::{FlowId, TrafficSourceId, World};
use timeloom_run::exit::note;
use timeloom_time::{Duration, Instant, Virtual};

use super::free::{self, Free, FreeOutcome};
use super::mpi::Mpi;
use super::pair::{self, Model};
use super::plot::Table;
use crate::error::BenchError;

/// Length of a step, and sampling interval, in simulated time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stairs {
    pub(super) step: Duration,
    sample: Duration,
}

impl Stairs {
    /// Returns the staircase of a figure, or of its quick version.
    pub(super) fn of(quick: bool) -> Self {
        let (step, sample) = if quick { (100, 50) } else { (10_000, 1_000) };
        Self {
            step: Duration::from_ms(step),
            sample: Duration::from_ms(sample),
        }
    }

    /// Returns the start of flow number `index`: one flow starts with the first step, one with the
    /// second so that there are two, two with the third so that there are four, and so on.
    pub(super) fn start(&self, index: u32) -> Duration {
        let step = u32::BITS - index.leading_zeros();
        Duration::from_ns(self.step.as_ns() * i64::from(step))
    }

    /// Returns the end of the last step, which has 64 flows.
    fn length(&self) -> Duration {
        Duration::from_ns(self.step.as_ns() * STEPS)
    }

    /// Returns the sampling instants up to `end`.
    pub(super) fn marks(&self, end: Duration) -> Vec<Instant<Virtual>> {
        let count = end.as_ns() / self.sample.as_ns();
        let at = |mark| Instant::from_ns(self.sample.as_ns() * mark);
        (1..=count).map(at).collect()
    }

    /// Returns the number of flows during the sampling interval that ends at `at`.
    fn flows(&self, at: Duration) -> f64 {
        let step = (at.as_ns() - 1) / self.step.as_ns();
        f64::from(1 << step)
    }
}

/// Number of steps: 1, 2, 4 … 64 flows.
const STEPS: i64 = 7;

/// Data delivered up to an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Wall time of the sample since the start, in seconds.
    pub(super) wall_s: f64,
    pub(super) tcp_bytes: u64,
    pub(super) udp_bytes: u64,
}

impl Sample {
    pub(super) fn of(world: &World, wall_s: f64) -> Self {
        let (flows, sources) = world.traffic_counts();
        let tcp = (0..flows as u32).map(|flow| world.tcp(FlowId(flow)).delivered_bytes);
        let udp = (0..sources as u32).map(|one| world.traffic(TrafficSourceId(one)).received_bytes);
        Self {
            wall_s,
            tcp_bytes: tcp.sum(),
            udp_bytes: udp.sum(),
        }
    }

    /// Adds the sample of another part of the network for the same instant.
    pub(super) fn join(&mut self, other: &Self) {
        self.wall_s = self.wall_s.max(other.wall_s);
        self.tcp_bytes += other.tcp_bytes;
        self.udp_bytes += other.udp_bytes;
    }
}

/// Throughput between two consecutive samples, in Gbit/s.
#[derive(Clone, Copy)]
struct Rates {
    /// Throughput by simulated time: TCP, then UDP.
    simulated: [f64; 2],
    /// Throughput by wall time, limited to that of real time: programs in the network could not run
    /// faster than real time.
    real: [f64; 2],
}

impl Rates {
    fn between(stairs: &Stairs, samples: &[Sample]) -> Vec<Self> {
        let mut before = Sample::default();
        let between = |now: &Sample| {
            let bytes = [
                now.tcp_bytes - before.tcp_bytes,
                now.udp_bytes - before.udp_bytes,
            ];
            let simulated_s = stairs.sample.as_s_f64();
            let real_s = (now.wall_s - before.wall_s).max(simulated_s);
            before = *now;
            Self {
                simulated: bytes.map(|bytes| bytes as f64 * 8e-9 / simulated_s),
                real: bytes.map(|bytes| bytes as f64 * 8e-9 / real_s),
            }
        };
        samples.iter().map(between).collect()
    }
}

/// Delay of the bottleneck link in the paper.
const BAR: Duration = Duration::from_us(1);
/// Rate of a host's link in Gbit/s; the item below is the rate of the bottleneck link.
const LINK_GBPS: f64 = 1.0;
const BAR_GBPS: f64 = 10.0;
/// Rate of a source in bit/s in runs with sources only; the item below is that in runs with TCP.
const SOURCE_BPS: u64 = 150_000_000;
const BESIDE_BPS: u64 = 50_000_000;

fn tcp_only(stairs: Stairs) -> Model {
    Model {
        stairs: Some(stairs),
        ..Model::tcp(64, BAR)
    }
}

/// Measures engines that wait for each other, as fast as possible.
fn waiting(model: &Model, stairs: &Stairs) -> Result<Vec<Rates>, BenchError> {
    let found = pair::conservative(model, stairs.length(), false)?;
    Ok(Rates::between(stairs, &found.samples))
}

/// Throughputs with portals between engines that do not wait; also the fraction of late packets.
struct Portals {
    /// Throughput with whole frames by libpcap; `None` if the library is not installed.
    libpcap: Option<Vec<Rates>>,
    /// Throughput with whole frames by raw sockets.
    frames: Vec<Rates>,
    peering: Vec<Rates>,
}

impl Portals {
    fn measure(model: &Model, stairs: &Stairs) -> Result<Self, BenchError> {
        let told = |what: &str, found: &FreeOutcome| {
            let late = found.late_fraction() * 100.0;
            note!("packets that came late by {what}: {late:.1} %");
            Rates::between(stairs, &found.common.samples)
        };
        let length = stairs.length();
        let libpcap = free::by_libpcap(model, length);
        let libpcap = libpcap.inspect_err(|error| note!("left out: {error}"));
        let frames = free::by_frames(model, length)?;
        let peering = free::free(model, length, &Free::default())?;
        Ok(Self {
            libpcap: libpcap.ok().map(|found| told("libpcap", &found)),
            frames: told("raw sockets", &frames),
            peering: told("peering portals", &peering),
        })
    }

    /// Returns the Gbit/s of TCP (`of` = 0) or UDP (`of` = 1) in one sample: by libpcap, by raw
    /// sockets, and by peering portals.
    fn real(&self, index: usize, of: usize) -> [f64; 3] {
        let libpcap = self.libpcap.as_ref();
        [
            libpcap.map_or(f64::NAN, |rates| rates[index].real[of]),
            self.frames[index].real[of],
            self.peering[index].real[of],
        ]
    }
}

fn table(
    stairs: &Stairs,
    (name, title): (&'static str, &'static str),
    columns: &[&'static str],
    row: impl Fn(usize, f64) -> Vec<f64>,
) -> Table {
    let marks = stairs.marks(stairs.length()).into_iter().enumerate();
    let rows = marks.map(|(index, at)| {
        let at = at - Instant::ZERO;
        (at.as_s_f64(), row(index, stairs.flows(at)))
    });
    Table {
        name,
        title,
        x: "s of simulated time; flows double with each step",
        y: "Gbit/s",
        log: false,
        columns: columns.to_vec(),
        beside: 0,
        rows: rows.collect(),
    }
}

/// Measures Figure 7: engines that wait for each other, by simulated time and by wall time.
pub(super) fn conservative(quick: bool) -> Result<Table, BenchError> {
    let stairs = Stairs::of(quick);
    let found = waiting(&tcp_only(stairs), &stairs)?;
    let wide = Model {
        bar: Duration::from_us(100),
        ..tcp_only(stairs)
    };
    let found_wide = waiting(&wide, &stairs)?;
    Ok(table(
        &stairs,
        (
            "figure-07-throughput",
            "Two engines that wait (threads): what TCP gets across",
        ),
        &[
            "demand",
            "simulated time, cut 1 us",
            "real time, cut 1 us",
            "simulated time, cut 100 us",
            "real time, cut 100 us",
        ],
        |index, flows| {
            let [near, far] = [found[index], found_wide[index]];
            vec![
                (flows * LINK_GBPS).min(BAR_GBPS),
                near.simulated[0],
                near.real[0],
                far.simulated[0],
                far.real[0],
            ]
        },
    ))
}

/// Measures Figure 8: TCP in real time, with the paper's three arrangements and with threads that
/// wait.
pub(super) fn tcp(quick: bool) -> Result<Table, BenchError> {
    let stairs = Stairs::of(quick);
    let model = tcp_only(stairs);
    let wait = waiting(&model, &stairs)?;
    let portals = Portals::measure(&model, &stairs)?;
    // Each step is a shorter run of its own, because a simulated second takes many wall seconds.
    let mpi = Mpi::find();
    let of_mpi = |step: u32| {
        let ms = if quick { "20" } else { "500" };
        let found = mpi.as_ref().map(|it| it.conservative_for(1 << step, 1, ms));
        Ok(found.transpose()?.map_or(f64::NAN, |line| {
            line.goodput_gbps * line.simulated_over_wall.min(1.0)
        }))
    };
    let over_mpi = (0..STEPS as u32).map(of_mpi);
    let over_mpi = over_mpi.collect::<Result<Vec<_>, BenchError>>()?;
    Ok(table(
        &stairs,
        ("figure-08-tcp", "TCP in real time, cut at the 1 us bar"),
        &[
            "demand",
            "engines that wait (MPI by TCP)",
            "engines that wait (threads)",
            "emulation portals (libpcap)",
            "emulation portals (raw sockets)",
            "peering portals",
        ],
        |index, flows| {
            let waiting = [over_mpi[flows.log2() as usize], wait[index].real[0]];
            let demand = (flows * LINK_GBPS).min(BAR_GBPS);
            [&[demand], &waiting[..], &portals.real(index, 0)].concat()
        },
    ))
}

/// Measures Figure 9: datagrams at constant rates.
pub(super) fn udp(quick: bool) -> Result<Table, BenchError> {
    let stairs = Stairs::of(quick);
    let model = Model {
        stairs: Some(stairs),
        ..Model::udp(64, SOURCE_BPS, BAR)
    };
    let wait = waiting(&model, &stairs)?;
    let portals = Portals::measure(&model, &stairs)?;
    Ok(table(
        &stairs,
        (
            "figure-09-udp",
            "UDP in real time, sources of 150 Mbit/s, cut at the 1 us bar",
        ),
        &[
            "demand",
            "engines that wait (threads)",
            "emulation portals (libpcap)",
            "emulation portals (raw sockets)",
            "peering portals",
        ],
        |index, sources| {
            let demand = sources * SOURCE_BPS as f64 / 1e9;
            [&[demand, wait[index].real[1]][..], &portals.real(index, 1)].concat()
        },
    ))
}

/// Measures Figure 10: TCP together with UDP; the throughput of each is separate.
pub(super) fn mixed(quick: bool) -> Result<Table, BenchError> {
    let stairs = Stairs::of(quick);
    let model = Model {
        sources: 64,
        source_bps: BESIDE_BPS,
        ..tcp_only(stairs)
    };
    let wait = waiting(&model, &stairs)?;
    let portals = Portals::measure(&model, &stairs)?;
    Ok(table(
        &stairs,
        (
            "figure-10-mixed",
            "TCP flows and as many sources of 50 Mbit/s in real time",
        ),
        &[
            "UDP, demand",
            "UDP, peering portals",
            "TCP, peering portals",
            "UDP, raw sockets",
            "TCP, raw sockets",
            "UDP, libpcap",
            "TCP, libpcap",
            "UDP, engines that wait",
            "TCP, engines that wait",
        ],
        |index, sources| {
            let [tcp, udp] = [0, 1].map(|of| portals.real(index, of));
            let mut row = vec![sources * BESIDE_BPS as f64 / 1e9];
            for portal in [2, 1, 0] {
                row.extend([udp[portal], tcp[portal]]);
            }
            row.extend([wait[index].real[1], wait[index].real[0]]);
            row
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_double_with_each_step() {
        let stairs = Stairs::of(false);
        let steps = [0, 1, 2, 3, 4, 7, 8, 63].map(|index| {
            let start = stairs.start(index);
            start.as_ns() / stairs.step.as_ns()
        });
        assert_eq!(steps, [0, 1, 2, 2, 3, 3, 4, 6]);
        assert_eq!(stairs.flows(Duration::from_s(10)), 1.0);
        assert_eq!(stairs.flows(Duration::from_s(11)), 2.0);
        assert_eq!(stairs.flows(stairs.length()), 64.0);
        assert_eq!(stairs.marks(stairs.length()).len(), 70);
    }

    /// The data delivered by waiting engines depend only on the model: each step delivers all its
    /// datagrams, once those of the previous step have arrived.
    #[test]
    fn all_that_is_sent_gets_across_where_engines_wait() {
        let stairs = Stairs::of(true);
        let model = Model {
            stairs: Some(stairs),
            ..Model::udp(64, SOURCE_BPS, Duration::from_ms(1))
        };
        let rates = waiting(&model, &stairs).expect("threads");
        assert_eq!(rates.len(), 14);
        for (index, rates) in rates.iter().enumerate().skip(1).step_by(2) {
            let demand = f64::from(1 << (index / 2)) * SOURCE_BPS as f64 / 1e9;
            let carried = rates.simulated[1];
            assert!(
                (carried / demand - 1.0).abs() < 0.05,
                "{index}: {carried} of {demand}"
            );
            assert!(rates.real[1] <= carried, "{index}");
        }
    }
}
