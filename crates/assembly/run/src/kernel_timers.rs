//! How the kernels of a run's stations keep time: by none where computing takes none, by as
//! much as virtual time is dilated elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use timeloom_fabric::{
    Fabric, FabricError, KernelError, Namespace, NetworkSpec, StationTimers, make_self_clocking,
};
use timeloom_guest::{ChangeKind, Clock};
use timeloom_scenario::{Compute, Plan};

use crate::error::RunError;
use crate::verdict::Reporter;

/// Settles it, now and with every change of the dilation.
pub(crate) fn settle(
    plan: &Plan,
    spec: &NetworkSpec,
    fabric: &Fabric,
    clock: &Clock,
    reporter: &Reporter,
) -> Result<(), RunError> {
    let stations = spec.stations.iter();
    let mut stations = stations.filter_map(|station| fabric.station(&station.name));
    if plan.time.compute == Compute::None {
        let settled = stations.try_for_each(make_self_clocking);
        return Ok(settled.map_err(FabricError::from)?);
    }
    let session = plan.time.dilation;
    let mut all = BTreeMap::new();
    for station in stations {
        let own = OwnTime {
            station: station.try_clone().map_err(|error| {
                RunError::Start(format!("namespace of {}: {error}", station.name()))
            })?,
            timers: None,
            dilation: 1.0,
        };
        all.insert(station.name().to_owned(), own);
    }
    let mut all = AllTimers { session, all };
    if session != 1.0 {
        all.dilate().map_err(FabricError::from)?;
    }
    let (all, reporter) = (Arc::new(Mutex::new(all)), reporter.clone());
    let tell = move |changed: Result<(), KernelError>| {
        if let Err(error) = changed {
            reporter.failed("the timers of a host's kernel", error.to_string());
        }
    };
    let (of_session, tell_session) = (Arc::clone(&all), tell.clone());
    clock.on_dilation(move |dilation| {
        let mut all = of_session.lock().unwrap_or_else(PoisonError::into_inner);
        all.session = dilation;
        tell_session(all.dilate());
    });
    clock.on_host_change(move |change| {
        if change.kind == ChangeKind::Dilate {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let host = &change.host;
            tell(all.dilate_host(host.host.name(), host.dilation));
        }
    });
    Ok(())
}

struct AllTimers {
    /// Wall seconds to a second of the session.
    session: f64,
    /// By station.
    all: BTreeMap<String, OwnTime>,
}

struct OwnTime {
    station: Namespace,
    /// Since they were first changed.
    timers: Option<StationTimers>,
    /// Seconds of the session to one of its own.
    dilation: f64,
}

impl AllTimers {
    fn dilate(&mut self) -> Result<(), KernelError> {
        let mut all = self.all.values_mut();
        all.try_for_each(|one| one.dilate(self.session))
    }

    fn dilate_host(&mut self, name: &str, dilation: f64) -> Result<(), KernelError> {
        let Some(one) = self.all.get_mut(name) else {
            return Ok(());
        };
        one.dilation = dilation;
        one.dilate(self.session)
    }
}

impl OwnTime {
    fn dilate(&mut self, session: f64) -> Result<(), KernelError> {
        let timers = match self.timers.take() {
            Some(timers) => timers,
            None => StationTimers::of(&self.station)?,
        };
        let timers = self.timers.insert(timers);
        timers.dilate(&self.station, session * self.dilation)
    }
}
