//! `plant`: cost of an exchange of values with a plant, without its solver.
//!
//! The plant is trivial, so that Timeloom's part dominates: stop the testbed, send a request,
//! receive the answer, and resume.

use std::sync::Arc;
use std::time::Duration as StdDuration;

use serde_json::json;
use timeloom_bus::Bus;
use timeloom_plant::{PausedPlant, PlantInit, PlantLog, PlantProcess, PlantSpec, Timeouts};
use timeloom_run::PausedTestbed;
use timeloom_time::{Duration, Instant};

use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::{Environment, Remote, session};
use crate::scratch::Scratch;
use crate::ticks::{self, Scale};
use crate::worker::PLANT;
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    let scratch = Scratch::new()?;
    let testbed = Arc::new(PausedTestbed(Arc::new(session(options)?)));
    // Processes that have to be stopped, as in any real run.
    let guests = (0..GUESTS)
        .map(|_| Remote::start(options, &scratch, &Environment::Inside(&testbed.0)))
        .collect::<Result<Vec<_>, _>>()?;
    let plant = start_plant(options, &scratch)?;
    let exchange = PausedPlant::new(Bus::new(testbed), plant, |_| ());

    let (mut solve, mut beyond) = (Vec::new(), Vec::new());
    for round in 0..options.pick(101, 1001) + 1 {
        std::thread::sleep(StdDuration::from_millis(2));
        let before = exchange.stats().solve;
        let begun = ticks::now();
        exchange
            .access("bench", "a round", |access| {
                access.write_then_read(&[("tank.inflow", 0.3)], &["tank.level"])
            })
            .map_err(|error| BenchError::Worker(format!("the plant: {error}")))?;
        let all_ns = scale.between_ns(begun, ticks::now());
        let solve_ns = (exchange.stats().solve - before).as_ns() as f64;
        // The first round is not counted, because caches are cold.
        if round > 0 {
            solve.push(solve_ns);
            beyond.push(all_ns - solve_ns);
        }
    }
    let _ = exchange.stop();
    let common = |figure: Figure| {
        figure
            .with("plant", "a tank, 1 ms of virtual time in steps of 1 us")
            .with("guests", guests.len())
    };
    figure(
        common(Figure::new(BENCH, "solve_ns", "ns", &solve))
            .with("counts", "what the plant says it computed, wall time"),
    );
    figure(common(
        Figure::new(BENCH, "exchange_beyond_solve_ns", "ns", &beyond).with(
            "from_to",
            "request of an access (pause, advance, write, read, resume) to its end, minus the solve time",
        ),
    ));
    Ok(())
}

fn start_plant(options: &Options, scratch: &Scratch) -> Result<PlantProcess, BenchError> {
    let mut argv = options.worker.clone();
    argv.push(PLANT.into());
    let log = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(scratch.path().join("plant.log"))
        .and_then(PlantLog::file)
        .map_err(|error| BenchError::Worker(format!("the plant's log: {error}")))?;
    let spec = PlantSpec {
        name: "tank".to_owned(),
        argv,
        inherit: Vec::new(),
        env: Vec::new(),
        cwd: None,
        log,
        cgroup: None,
        rights: None,
        timeouts: Timeouts::default(),
    };
    let init = PlantInit {
        seed: 1,
        t: Instant::ZERO,
        config: json!({}),
        record: Vec::new(),
        record_every: Duration::from_ms(100),
        step: Duration::from_ms(1),
    };
    PlantProcess::start(&spec, &init)
        .map_err(|error| BenchError::Worker(format!("the plant: {error}")))
}

const BENCH: Name = Name::Plant;
/// Number of idle processes in the session.
const GUESTS: usize = 4;
