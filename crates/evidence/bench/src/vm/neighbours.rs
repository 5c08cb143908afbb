//! A guest that reads the time next to greedy neighbours (QuartzV, Figures 11 to 14).

use std::time::Instant;

use super::hungry::{Feeder, Hunger};
use super::machine::Machine;
use super::{Bench, Paper};
use crate::Name;
use crate::error::BenchError;
use crate::figure::Figure;

impl Bench<'_> {
    /// Measures `reader` with different numbers of `neighbours` and each kind of load. The names of
    /// the figures begin with `name`.
    pub(super) fn beside_hungry(
        &mut self,
        name: &str,
        reader: &mut Machine,
        neighbours: &mut [Machine],
        feeder: &Feeder,
        paper: &Paper,
    ) -> Result<(), BenchError> {
        let most = neighbours.len();
        for number in [1, 3, 7].into_iter().filter(|number| *number <= most) {
            for hunger in Hunger::ALL {
                let hungry = &mut neighbours[..number];
                for machine in hungry.iter_mut() {
                    machine.ask(&format!("hungry {hunger} {}", feeder.port))?;
                }
                let (begun, before) = (Instant::now(), feeder.moved());
                let called = format!("{name}_beside_{number}_{hunger}");
                self.guests(&called, std::slice::from_mut(reader), paper)?;
                let bits = (feeder.moved() - before) as f64 * 8.0;
                let rate = bits / begun.elapsed().as_secs_f64();
                for machine in hungry.iter_mut() {
                    machine.ask("hungry no")?;
                }
                if hunger != Hunger::Processor {
                    let metric = format!("{called}_traffic_mbit_per_s");
                    let made = Figure::new(Name::Vm, metric, "Mbit/s", &[rate / 1e6]);
                    (self.figure)(made.with("neighbours", number));
                }
            }
        }
        Ok(())
    }
}
