//! The plan's plants: started, and connected to the pause bus.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use timeloom_bus::Bus;
use timeloom_guest::{Clock, Session};
use timeloom_plant::{Exchange, PlantInit, PlantLog, PlantProcess, PlantSpec, Timeouts};
use timeloom_scenario::{Places, Plan, Plant};
use timeloom_time::Instant;

use crate::error::RunError;
use crate::outputs::{Log, Logs};
use crate::python::{ProvidedPackage, PythonCommand, VARIABLE};
use crate::record::RunRecorder;
use crate::rights;
use crate::seeds;
use crate::verdict::Reporter;

/// Starts every plant and queries its signals.
///
/// # Errors
/// Fails if a plant does not start. With `places`, also fails if the scenario names signals that
/// the plants do not have.
pub(crate) fn start(
    plan: &Plan,
    (places, interrupted): (Option<&Places>, &AtomicBool),
    session: &Session,
    logs: &Logs<'_>,
    bus: &Bus,
    run_recorder: &RunRecorder,
    reporter: &Reporter,
) -> Result<BTreeMap<String, Arc<Exchange>>, RunError> {
    let mut exchanges = BTreeMap::new();
    let mut signals = BTreeMap::new();
    let mut refused = None;
    for (name, plant) in &plan.simulation.plants {
        let (log, input) = Log::open_plain(logs, &format!("plant-{name}"), reporter)?;
        let output = Arc::clone(log.output());
        let last_lines = move || {
            output.catch_up();
            output.last_lines(LAST_LINES)
        };
        let log = PlantLog::pipe(input, last_lines);
        let mut spec = spec(plan, (name, plant), log)?;
        spec.cgroup = session.helper_cgroup()?;
        let place = logs.place(&format!("plant-{name}"), spec.rights.as_ref())?;
        if let Some((variable, place)) = place {
            spec.env.push((variable.into(), place));
        }
        let started = PlantProcess::start(&spec, &init(plan, plant, &plant.record.signals));
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                // The plant may have refused because it lacks a signal that it should record.
                let asked = places.and_then(|_| signals_of(plan, (name, plant), interrupted).ok());
                if let Some(names) = asked {
                    signals.insert(name.clone(), names);
                }
                refused.get_or_insert(RunError::Start(error.to_string()));
                continue;
            }
        };
        signals.insert(name.clone(), names_of(&process));
        let pid = process.pid();
        let (recorder, source): (RunRecorder, Arc<str>) =
            (run_recorder.clone(), name.as_str().into());
        let end = Instant::ZERO + plan.time.duration;
        let exchange = Exchange::new(bus.clone(), process, move |sample| {
            // On a busy machine the end of the run is noticed late. Requests of programs after the
            // planned end do not belong to the run.
            if sample.t <= end {
                recorder.sample(&source, &sample);
            }
        });
        let exchange = Arc::new(exchange);
        watch_end(name, pid, &exchange, session.clock(), run_recorder)?;
        exchanges.insert(name.clone(), exchange);
    }
    if let Some(places) = places {
        places.check_signals(plan, &signals)?;
    }
    match refused {
        Some(error) => Err(error),
        None => Ok(exchanges),
    }
}

/// Starts a thread that waits for the end of a plant's process, so that the death of a plant is
/// noticed even if no program sends a request. The thread ends with the process.
fn watch_end(
    name: &str,
    pid: u32,
    exchange: &Arc<Exchange>,
    clock: &Arc<Clock>,
    run_recorder: &RunRecorder,
) -> Result<(), RunError> {
    let failed = |error: &dyn Display| RunError::Start(format!("watching plant `{name}`: {error}"));
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(&"its process has no identifier"))?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(&error))?;
    let (exchange, clock) = (Arc::downgrade(exchange), Arc::downgrade(clock));
    let (name, run_recorder) = (name.to_owned(), run_recorder.clone());
    let watch = move || {
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut ended, None) == Err(Errno::INTR) {}
        let at = clock.upgrade().map(|clock| clock.now());
        // During a request or a stop, the exchange itself notices the end of the plant.
        if let Some(Err(error)) = exchange.upgrade().map(|exchange| exchange.look()) {
            run_recorder.trouble(&name, at, &error.to_string(), true);
        }
    };
    let thread = std::thread::Builder::new().spawn(watch);
    thread.map(drop).map_err(|error| failed(&error))
}

fn names_of(process: &PlantProcess) -> Vec<String> {
    let signals = process.info().signals.iter();
    signals.map(|signal| signal.name.clone()).collect()
}

/// Starts a plant, queries the names of its signals, and stops the plant.
///
/// # Errors
/// Returns an error if the plant cannot be queried. When `interrupted` is set, its Python is no
/// longer waited for.
pub fn signals_of(
    plan: &Plan,
    (name, plant): (&str, &Plant),
    interrupted: &AtomicBool,
) -> Result<Vec<String>, RunError> {
    let failed = |what, error: &dyn Display| RunError::Start(format!("{what}: {error}"));
    let log = memfd_create("plant's log", MemfdFlags::CLOEXEC);
    let log = File::from(log.map_err(|error| failed("memory for a log", &error))?);
    // The plant is not told which signals to record, because it may lack some of them.
    let log = PlantLog::file(log).map_err(|error| failed("its log", &error))?;
    let mut spec = spec(plan, (name, plant), log)?;
    let package = ProvidedPackage::to(PythonCommand::of_plant(plant), interrupted)
        .map_err(|error| failed("the package `timeloom` for it", &error))?;
    let path = package.path.as_ref();
    spec.env
        .extend(path.map(|path| (VARIABLE.into(), path.into())));
    let started = PlantProcess::start(&spec, &init(plan, plant, &[]));
    let mut process = started.map_err(|error| RunError::Start(error.to_string()))?;
    let names = names_of(&process);
    let _ = process.stop();
    Ok(names)
}

fn spec(plan: &Plan, (name, plant): (&str, &Plant), log: PlantLog) -> Result<PlantSpec, RunError> {
    let (variable, seed) = seeds::variable(plan, &format!("plant-{name}"));
    let mut env = plant.env.clone();
    env.entry(variable.to_owned()).or_insert(seed);
    if let Ok(path) = std::env::var(VARIABLE) {
        env.entry(VARIABLE.to_owned()).or_insert(path);
    }
    let rights = rights::of(plant.user.as_ref(), plant.capabilities.as_deref());
    Ok(PlantSpec {
        rights: rights.map_err(|error| RunError::Start(format!("plant {name}: {error}")))?,
        name: name.to_owned(),
        argv: plant.run.iter().map(Into::into).collect(),
        inherit: plant.inherit.clone(),
        env: (env.into_iter())
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd: Some(plant.directory.clone()),
        log,
        cgroup: None,
        timeouts: Timeouts {
            request: plant.timeout,
            ..Timeouts::default()
        },
    })
}

fn init(plan: &Plan, plant: &Plant, record: &[String]) -> PlantInit {
    PlantInit {
        seed: plan.seed,
        t: Instant::ZERO,
        config: serde_json::Value::Object(plant.config.clone()),
        record: record.to_vec(),
        record_every: plant.record.every,
        step: plant.step,
    }
}

/// Number of lines of a plant's log in a message about its failure.
const LAST_LINES: usize = 10;
