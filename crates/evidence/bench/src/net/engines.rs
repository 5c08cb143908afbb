//! Gain by a second engine for real packets, and throughput of real TCP over a link that is cut:
//! `timeloom bench net --only engines`.
//!
//! All variants run in turn, so that other load of the machine affects them alike. The first
//! measurement needs two cores of its own. The second is in dilated virtual time, so that the
//! machine keeps up, and reports packets that were late.

use timeloom_time::Duration;

use super::pair::{self, Model};
use super::realtime::{Between, Cutting, GBIT};
use super::virtual_time::Stage;
use super::{BENCH, higher, load};
use crate::cores::allowed;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::{Options, median};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let cores = allowed().len();
    if cores < 2 || load() > 1.0 {
        (options.remark)(&format!(
            "net: two engines need two idle cores; this process may use {cores}, and the load is \
             {:.1}",
            load()
        ));
    }
    two_over_one(options, figure)?;
    let there = std::process::Command::new("iperf3")
        .arg("--version")
        .output();
    if there.is_err() {
        (options.remark)("iperf3 is not installed; a real TCP across a cut is left out");
        return Ok(());
    }
    across_a_cut(options, figure)
}

/// Measures two engines with fourteen TCP flows on each side and two across the cut, and with eight
/// streams of real packets across.
fn two_over_one(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let simulated = Duration::from_ms(options.pick(200, 500));
    for (name, bar) in [
        (
            "two_engines_over_one_real_packets_100us",
            Duration::from_us(100),
        ),
        (
            "two_engines_over_one_real_packets_1ms",
            Duration::from_ms(1),
        ),
    ] {
        let model = Model {
            local: 14,
            real: 8,
            ..Model::tcp(2, bar)
        };
        pair::conservative(&model, simulated, false)?;
        let mut before = pair::single(&model, simulated)?;
        let (mut ratios, mut real) = (Vec::new(), Vec::new());
        for _ in 0..options.pick(5, 15) {
            let two = pair::conservative(&model, simulated, false)?;
            let after = pair::single(&model, simulated)?;
            if (two.hops, two.real) != (after.hops, after.real) {
                let text = format!("two engines did something else than one: {two:?}, {after:?}");
                return Err(BenchError::Worker(text));
            }
            ratios.push((before.wall_s + after.wall_s) / 2.0 / two.wall_s);
            real.push(two.real as f64 / simulated.as_s_f64());
            before = after;
        }
        figure(
            higher(Figure::new(BENCH, name, "ratio", &ratios))
                .bar(1.7)
                .with("cut_ns", model.bar.as_ns())
                .with("real_packets_across_per_simulated_s", median(&real))
                .with("flows_across", model.flows)
                .with("flows_on_each_side", model.local)
                .with("cores", allowed().len())
                .with("load", load())
                .with(
                    "engines",
                    "two threads that wait for one another, each on a core of its own; hops and packets are those of one engine in each round",
                ),
        );
    }
    Ok(())
}

/// Wall seconds per virtual second.
const DILATION: f64 = 5.0;

/// Measures iperf3 over a 1 Gbit/s link that is within one engine, or cut between two.
fn across_a_cut(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    for (delay_name, delay) in [
        ("100us", Duration::from_us(100)),
        ("1ms", Duration::from_ms(1)),
    ] {
        let kinds = [Cutting::Whole, Cutting::Free, Cutting::Exact];
        let mut gbps: [Vec<f64>; 3] = Default::default();
        let mut late: [Vec<f64>; 3] = Default::default();
        for _ in 0..options.pick(3, 7) {
            for (place, cutting) in kinds.into_iter().enumerate() {
                let between = Between::new(GBIT, delay).cut(cutting);
                let stage = Stage::new(options, between)?;
                stage.session.dilate(DILATION)?;
                let seconds = options.pick("1", "4");
                let (found, _) = stage.iperf3(&["-t", seconds, "-C", "cubic"])?;
                gbps[place].push(found);
                late[place].push(stage.late_fraction()?);
            }
        }
        let [one, cuts @ ..] = &gbps;
        for ((name, found), late_cut) in ["free", "exact"].into_iter().zip(cuts).zip(&late[1..]) {
            let ratios: Vec<f64> = found.iter().zip(one).map(|(cut, one)| cut / one).collect();
            let name = format!("iperf3_across_a_cut_over_within_{name}_{delay_name}");
            figure(
                higher(Figure::new(BENCH, name, "ratio", &ratios))
                    .bar(0.9)
                    .with("across_gbps", median(found))
                    .with("within_gbps", median(one))
                    .with("late_fraction_1ms_across", median(late_cut))
                    .with("late_fraction_1ms_within", median(&late[0]))
                    .with("dilation", DILATION)
                    .with("cores", allowed().len())
                    .with("load", load())
                    .with(
                        "what",
                        "iperf3's own report, in its virtual time: 1 Gbit/s, CUBIC; a round is one run within, one across",
                    ),
            );
        }
    }
    Ok(())
}
