//! Time of the kernel's timers of a run's stations: stopped if computation takes no time, otherwise
//! slowed by the dilation of virtual time.

mod connecting;
mod held_frames;
mod overtaken;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use timeloom_fabric::{
    Fabric, FabricError, KernelError, LossDetection, NetworkSpec, StationDilation, StationTimers,
    VirtualCubic, congestion_control, make_self_clocking, make_timerless,
};
use timeloom_guest::{ChangeKind, Compute, Process, Session};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::Plan;

use crate::error::RunError;
use crate::verdict::Reporter;

use connecting::FirstTimeouts;
use held_frames::HeldFrames;
use overtaken::Overtaken;

/// Starts to register CUBIC in virtual time, for hosts at a simulated network over whose time a run
/// skips. Registration takes as long as the construction of a small network, and runs beside it.
/// The thread returns `None` if the kernel cannot do it; connections then have Reno.
pub(crate) fn start_cubic(plan: &Plan) -> Option<JoinHandle<Option<Arc<VirtualCubic>>>> {
    plan.network.as_ref().filter(|_| plan.time.skips())?;
    Some(thread::spawn(|| {
        VirtualCubic::register().ok().map(Arc::new)
    }))
}

/// Keeps the kernel timers of all stations adjusted while it lives.
pub(crate) struct KernelTimers {
    all: Arc<Mutex<AllTimers>>,
    overtaken: Overtaken,
    held: HeldFrames,
    /// Default congestion control of the machine, which the hosts do not have while time skips.
    replaced: Option<String>,
    /// Reason why the network cannot wait for the kernels' decisions about lost segments.
    undiagnosed: Option<KernelError>,
}

impl KernelTimers {
    /// Adjusts the timers, now and at every change of the dilation.
    pub(crate) fn settle(
        plan: &Plan,
        (spec, fabric): (&NetworkSpec, &Fabric),
        session: &Arc<Session>,
        cubic: Option<&VirtualCubic>,
        reporter: &Reporter,
    ) -> Result<Self, RunError> {
        let stations = spec.stations.iter();
        let stations = stations.filter_map(|station| fabric.station(&station.name));
        let mut overtaken = Overtaken::of(plan, stations)
            .map_err(|error| RunError::Start(format!("namespaces of the stations: {error}")))?;
        let held = HeldFrames::watch(session, plan, (spec, fabric))
            .map_err(|error| RunError::Start(format!("namespaces of the links: {error}")))?;
        let stations = spec.stations.iter();
        let mut stations = stations.filter_map(|station| fabric.station(&station.name));
        let dilation = plan.time.dilation;
        let first = spec.stations.iter().find_map(|it| fabric.station(&it.name));
        let default = first.and_then(congestion_control);
        // A machine whose default is CUBIC has CUBIC in virtual time as its hosts' default.
        let by_default = cubic.filter(|_| default.as_deref() == Some("cubic"));
        let replaced = default.filter(|name| name != "reno" && by_default.is_none());
        if let Some(cubic) = cubic {
            session.offer_virtual_cubic(cubic.name());
        }
        let mut all = AllTimers {
            session: dilation,
            all: BTreeMap::new(),
            first: FirstTimeouts::of(session),
        };
        let undiagnosed = first.filter(|_| plan.time.skips() && plan.network.is_some());
        let undiagnosed = undiagnosed.and_then(|it| LossDetection::of(it).err());
        if plan.time.compute == Compute::None {
            let settled = stations.try_for_each(|it| make_self_clocking(it, by_default));
            settled.map_err(FabricError::from)?;
            overtaken.note_settings().map_err(FabricError::from)?;
            all.first.outlast_computing();
            let all = Arc::new(Mutex::new(all));
            return Ok(Self {
                all,
                overtaken,
                held,
                replaced,
                undiagnosed,
            });
        }
        let are_simulated = plan.time.skips() && plan.network.is_some();
        if are_simulated {
            session.keep_self_clocking();
            all.first.outlast_computing();
        }
        for station in stations {
            let mut timers = StationTimers::of(station).map_err(|error| {
                RunError::Start(format!("namespace of {}: {error}", station.name()))
            })?;
            if are_simulated {
                make_timerless(station, by_default).map_err(FabricError::from)?;
                timers.leave_tcp();
            } else if plan.time.skips() {
                timers.acknowledge_at_once();
            }
            let own = OwnTime {
                timers,
                dilation: 1.0,
                runs_programs: plan.system.hosts.contains_key(station.name()),
            };
            all.all.insert(station.name().to_owned(), own);
        }
        if are_simulated {
            overtaken.note_settings().map_err(FabricError::from)?;
        }
        if dilation != 1.0 || plan.time.skips() {
            all.dilate().map_err(FabricError::from)?;
        }
        let all = Arc::new(Mutex::new(all));
        follow(session, &all, reporter);
        Ok(Self {
            all,
            overtaken,
            held,
            replaced: replaced.filter(|_| are_simulated),
            undiagnosed,
        })
    }

    /// Returns the machine's default congestion control, if the hosts have Reno in its place.
    pub(crate) fn replaced_default(&self) -> Option<&str> {
        self.replaced.as_deref()
    }

    /// Returns reasons why the results cannot be trusted. Call at the end of a run, with its clock
    /// stopped and its programs, which are `processes`, still alive. `awaits_frames` is true if time
    /// did not skip while links held frames back.
    pub(crate) fn doubts(&self, processes: &[Process], awaits_frames: bool) -> Vec<Caveat> {
        let mut doubts = self.overtaken.doubts(processes);
        doubts.extend(self.held.doubt(awaits_frames));
        doubts
    }

    /// Returns caveats about settings and queries that this machine's kernel refused.
    pub(crate) fn lacks(&self) -> Vec<Caveat> {
        let all = self.all.lock();
        let undiagnosed = self.undiagnosed.as_ref().map(|error| {
            let reason = format!(
                "Where segments are lost, results depend on the speed of this machine, since the \
                 kernel does not show the timers of its TCP ({error})."
            );
            Caveat::new(reason, Remedy::NO_SKIPPING)
        });
        all.first.lacks().into_iter().chain(undiagnosed).collect()
    }
}

/// Adjusts the timers at every change of the dilation of the session or of a host.
fn follow(session: &Session, all: &Arc<Mutex<AllTimers>>, reporter: &Reporter) {
    let reporter = reporter.clone();
    let tell = move |changed: Result<(), KernelError>| {
        if let Err(error) = changed {
            reporter.failed("the timers of a host's kernel", error.to_string());
        }
    };
    let (of_session, tell_session) = (Arc::clone(all), tell.clone());
    session.clock().on_dilation(move |dilation| {
        let mut all = of_session.lock();
        all.session = dilation;
        tell_session(all.dilate());
    });
    let of_hosts = Arc::clone(all);
    session.clock().on_host_change(move |change| {
        if change.kind == ChangeKind::Dilate {
            let mut all = of_hosts.lock();
            let host = &change.host;
            tell(all.dilate_host(host.host.name(), host.dilation));
        }
    });
}

struct AllTimers {
    /// Wall seconds per second of the session.
    session: f64,
    /// Timers, by station.
    all: BTreeMap<String, OwnTime>,
    first: FirstTimeouts,
}

struct OwnTime {
    timers: StationTimers,
    /// Session seconds per second of the station.
    dilation: f64,
    /// True for a host. The sockets of a device belong to the supervisor.
    runs_programs: bool,
}

impl AllTimers {
    fn dilate(&mut self) -> Result<(), KernelError> {
        let hosts = self.all.iter().filter(|(_, one)| one.runs_programs);
        let own = hosts.map(|(name, one)| (name.as_str(), one.dilation));
        self.first.dilate(self.session, own);
        let (session, first) = (self.session, &self.first);
        let all = self.all.values_mut();
        StationTimers::dilate(all.map(|one| one.dilated(session, first)))
    }

    fn dilate_host(&mut self, name: &str, dilation: f64) -> Result<(), KernelError> {
        let Some(one) = self.all.get_mut(name) else {
            return Ok(());
        };
        one.dilation = dilation;
        if one.runs_programs {
            self.first.dilate(self.session, [(name, dilation)]);
        }
        let dilated = one.dilated(self.session, &self.first);
        StationTimers::dilate(std::iter::once(dilated))
    }
}

impl OwnTime {
    fn dilated(&mut self, session: f64, first: &FirstTimeouts) -> StationDilation<'_> {
        let dilation = session * self.dilation;
        StationDilation {
            timers: &mut self.timers,
            dilation,
            first: match self.runs_programs {
                true => first.at(dilation),
                false => connecting::USUAL,
            },
        }
    }
}
