//! Start of a run: creates the session and its environment, with the clock at zero.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use timeloom_fabric::Fabric;
use timeloom_guest::{ClockOptions, FreezeKind, Grants, ProcFiles, Session, SessionOptions, serve};
use timeloom_results::{Caveat, Manifest, Remedy, RunDirectory};
use timeloom_scenario::{Mode, Plan};
use timeloom_time::{Instant, Virtual};

use super::Run;
use crate::attacks::RunAttacks;
use crate::containers::{Containers, is_inside};
use crate::error::RunError;
use crate::kernel_timers::{self, KernelTimers};
use crate::links::RunLinks;
use crate::node::Membership;
use crate::options::RunOptions;
use crate::outputs::Logs;
use crate::record::RunRecorder;
use crate::simulated::{Network, Surroundings, built};
use crate::testbed::{ControlEndpoint, ExecContext};
use crate::verdict::Verdict;
use crate::{
    cards, devices, hosts, inputs, machines, names, network, outputs, pause_bus, plants,
    ptp_clocks, timelines,
};

impl<'a> Run<'a> {
    /// Creates everything that a run needs; the clock is stopped at zero.
    ///
    /// # Errors
    /// Returns an error if a part cannot be created. The parts created before are then removed.
    pub(super) fn prepare(
        plan: &'a Plan,
        membership: &'a dyn Membership,
        options: &RunOptions,
        directory: &'a RunDirectory,
        manifest: &mut Manifest,
    ) -> Result<Self, RunError> {
        let session = session(plan, options)?;
        let hosts = hosts::add(plan, &session)?;
        let cards = cards::add(plan, &session, &hosts)?;
        let keepers = timelines::prepare(plan, directory, &options.timeloom)?;
        let mut machines = machines::programs(plan);
        let mut containers = Containers::read(plan)?;
        manifest.degraded_modes.extend(containers.left_out());
        manifest.degraded_modes.extend(machines::leaks(plan));
        manifest
            .degraded_modes
            .extend(degraded_modes(plan, &session));
        // No program sees virtual time beyond the end of the run, even if the end is noticed late.
        session.clock().end_at(Instant::ZERO + plan.time.duration);
        let civil_start = session.clock().civil().at(Instant::ZERO);
        manifest.session_start = Some(civil_start);
        let emulators = machines.iter();
        let emulators = emulators.map(|(host, program)| (host.as_str(), program));
        let all = emulators
            .chain(plan.programs())
            .chain(containers.programs());
        for (host, program) in all {
            let file = match is_inside(plan, host, &program.name) {
                true => containers.file_of(host, program),
                false => Some(program_file(&program.directory, &program.run[0])),
            };
            if let Some(file) = file {
                manifest.add_program(&inputs::without_detours(&file));
            }
        }
        machines::give_timelines(plan, &keepers, &options.timeloom, &mut machines);
        if membership.stores_inputs() {
            inputs::keep(plan, directory, manifest)?;
        }
        directory.write_manifest(manifest)?;

        let verdict = Verdict::new(session.clock());
        let logs = Logs::new(directory, plan);
        let recorder = Arc::new(directory.recorder()?);
        recorder.limit(plan.results.journal_limit.as_bytes());
        recorder.limit_each(plan.results.source_limit.as_bytes());
        let run_recorder = RunRecorder::new(
            Arc::clone(&recorder),
            Arc::clone(session.clock()),
            verdict.reporter(),
            membership.name(),
        );
        session.clock().on_host_change(run_recorder.host_sink());
        let bus = pause_bus::build(
            plan,
            &session,
            &run_recorder,
            verdict.reporter(),
            &options.warn,
            membership,
        );
        // Opened early: a session whose control socket does not answer counts as dead, and
        // `timeloom clean` would remove its cgroup.
        let control_endpoint = Arc::new(ControlEndpoint::new(
            Arc::clone(&session),
            (bus.clone(), membership),
            plan.time.skips(),
            grants(plan, &session).filter(|_| membership.is_granted_time()),
            &options.directory,
        ));
        serve(&control_endpoint)?;
        let components = control_endpoint.components();
        components.enter(Some("building the network"));
        components.have_peers(membership.awaited());
        let whole = membership.whole(plan);
        let ends = membership.ends();
        let mut spec = network::specification(plan, ends);
        let macs = membership.macs();
        for station in &mut spec.stations {
            station.mac = macs.get(&station.name).copied();
        }
        let cubic = kernel_timers::start_cubic(plan);
        let fabric = Fabric::build(&spec)?;
        let simulated = built(whole.simulated())?;
        if let Some(simulated) = &simulated {
            ptp_clocks::export_keys((whole, plan), simulated, civil_start, |host| {
                Ok(directory.make_ptp_keys(host)?)
            })?;
        }
        let names = names::Directory::of(whole, simulated.as_ref());
        let (identities, lack) = names::identities(plan, &names);
        manifest.degraded_modes.extend(lack);
        containers.build(&fabric, &keepers, &names)?;
        let roots = containers.roots();
        control_endpoint.open(ExecContext::of(
            plan,
            &fabric,
            &keepers,
            (roots, &identities),
            &run_recorder,
        )?);
        let reporter = verdict.reporter();
        let how = (options.places.as_ref(), &*options.interrupted);
        components.enter(Some("starting the plants"));
        let plants = plants::start(plan, how, &session, &logs, &bus, &run_recorder, &reporter)?;
        components.have_plants(&plants);
        components.enter(Some("starting the simulated network"));
        let clock = session.clock();
        let cubic = cubic.and_then(|registering| registering.join().ok().flatten());
        let around = Surroundings {
            fabric: &fabric,
            directory,
            clock,
            civil_start,
            run_recorder: &run_recorder,
            reporter: &reporter,
            timeloom: &options.timeloom,
            log_json: options.log_json,
            interrupted: &options.interrupted,
            membership,
            cubic: cubic.as_ref(),
            cards: &cards,
        };
        let network = simulated.map(|simulated| Network::start(whole, simulated, &around));
        let mut network = network.transpose()?;
        if let Some(engines) = network.as_ref().and_then(Network::engine_connections) {
            control_endpoint.admit(engines);
        }
        if let Some(engines) = network.as_ref().and_then(Network::engines) {
            components.have_engines(engines);
        }
        components.enter(Some("starting devices, captures and programs"));
        machines::attach(plan, &fabric)?;
        let kernel_timers = KernelTimers::settle(
            plan,
            (&spec, &fabric),
            &session,
            cubic.as_deref(),
            &reporter,
        )?;
        manifest.degraded_modes.extend(kernel_timers.lacks());
        let model = network.as_mut().and_then(Network::take_links);
        let links = RunLinks::new((plan, whole), &fabric, model, clock, &run_recorder);
        let links = links.map_err(|error| RunError::Start(format!("links: {error}")))?;
        let links = Arc::new(links);
        control_endpoint.have_links(&links);
        let attacks = Arc::new(RunAttacks::new(plan));
        control_endpoint.have_attacks(&attacks);
        let tunnels = membership.lay_tunnels(&fabric, clock)?;
        let writers = devices::writers(whole);
        let devices = devices::start(plan, &writers, &fabric, &plants, &run_recorder)?;
        let captures = outputs::captures(
            (plan, whole, ends),
            &fabric,
            directory,
            clock,
            civil_start,
            (&run_recorder, &reporter),
        )?;
        Ok(Self {
            plan,
            membership,
            directory,
            logs,
            devices,
            network,
            captures,
            tunnels,
            plants,
            fabric,
            control_endpoint,
            run_recorder,
            recorder,
            verdict,
            bus,
            hosts,
            keepers,
            machines,
            containers,
            identities,
            kernel_timers,
            links,
            attacks,
            session,
        })
    }
}

/// Creates a session whose clock is stopped.
fn session(plan: &Plan, options: &RunOptions) -> Result<Arc<Session>, RunError> {
    let warn = Arc::clone(&options.warn);
    Ok(Arc::new(Session::new(SessionOptions {
        name: options.session.clone(),
        clock: ClockOptions {
            start: plan.time.start,
            up_for: Some(ClockOptions::UP_FOR),
            dilation: plan.time.dilation,
            paused: true,
            tsc: plan.time.tsc,
            proc: plan.time.proc,
            files: plan.time.files,
            compute: plan.time.compute,
        },
        warn: Box::new(move |text| warn(text)),
    })?))
}

/// Returns caveats about features that this machine can provide only with restrictions.
fn degraded_modes(plan: &Plan, session: &Session) -> Vec<Caveat> {
    let mut modes = Vec::new();
    if session.freeze_kind() == FreezeKind::Signals {
        let signals = "Processes are stopped by SIGSTOP instead of the cgroup freezer; parents may \
                       notice.";
        modes.push(Caveat::new(signals, FREEZER));
    }
    let slow_reads = session.clock().degraded_mode();
    modes.extend(slow_reads.map(|reason| Caveat::new(reason, COUNTER)));
    if plan.time.proc == ProcFiles::Virtual {
        let machine = session.machine_files();
        modes.extend(machine.map(|reason| Caveat::new(format!("{reason}."), FUSE)));
    }
    modes
}

const FREEZER: Remedy =
    Remedy::new("Run as root, with cgroup v2 mounted and writable; `timeloom doctor` says how.");

const COUNTER: Remedy = Remedy::new(
    "On hardware with an even time-stamp counter boot with clocksource=tsc (tsc=reliable in a \
     virtual machine); readings are right all the same.",
);

const FUSE: Remedy = Remedy::new(
    "Run as root with /dev/fuse (modprobe fuse), or set `time.proc = \"machine\"` if no program \
     reads these files.",
);

/// Returns the object that grants virtual time, if the plan's time advances by grants.
fn grants(plan: &Plan, session: &Session) -> Option<Arc<Grants>> {
    if plan.time.mode != Mode::Stepped {
        return None;
    }
    let patience = StdDuration::from_nanos(plan.time.stepping().patience.as_ns().max(0) as u64);
    let end = Instant::<Virtual>::ZERO + plan.time.duration;
    let clock = Arc::clone(session.clock());
    Some(Arc::new(Grants::new(clock, patience, Some(end))))
}

/// Returns the path of the file that the first word of a program's command names; its content is
/// hashed.
fn program_file(directory: &Path, word: &str) -> PathBuf {
    if word.contains('/') {
        return directory.join(word);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|entry| entry.join(word))
        .find(|file| file.is_file())
        .unwrap_or_else(|| word.into())
}
