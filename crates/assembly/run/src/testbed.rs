//! Adapters that connect the session to the bus and to the control socket.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use timeloom_bus::{Bus, Hold, Holder, Testbed, TestbedError};
use timeloom_fabric::Fabric;
use timeloom_guest::{
    ComponentText, Compute, ContainerRoot, Controlled, Grants, HoldError, HoldText, HostRights,
    LinkProperties, Session, Stepped, Welcome,
};
use timeloom_scenario::{AttackAction, Host, Plan};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual};

use crate::agreed::dilate_all;
use crate::attacks::RunAttacks;
use crate::awaited::Components;
use crate::containers::TIMELINES;
use crate::error::RunError;
use crate::links::RunLinks;
use crate::names::Identities;
use crate::node::{Membership, UserPauses};
use crate::periods::PERIOD;
use crate::record::RunRecorder;
use crate::rights;
use crate::simulated::EngineConnections;
use crate::timelines::TimelineDaemon;

/// Session that stops while the pause wire is held: first the clock, then the processes.
pub struct PausedTestbed(pub Arc<Session>);

impl Testbed for PausedTestbed {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        self.0
            .pause()
            .map_err(|error| TestbedError::new(error.to_string()))
    }

    fn resume(&self, until: Instant<Virtual>) -> Result<(), TestbedError> {
        self.0
            .resume_until(until)
            .map_err(|error| TestbedError::new(error.to_string()))
    }
}

/// Control of a run by `timeloom pause` and `timeloom resume`. The user is one more participant on
/// the pause wire.
pub(crate) struct ControlEndpoint {
    session: Arc<Session>,
    bus: Bus,
    hold: Mutex<Option<Hold>>,
    /// True once the run has begun. Before that, the clock is stopped for other reasons, and
    /// releasing a hold must not start it.
    begun: Mutex<bool>,
    /// True if pauses are agreed on with other machines.
    agreed: bool,
    /// Least dilation, if a simulated network has engines on other machines; `None` if any
    /// dilation is possible.
    least_dilation: Option<f64>,
    /// True if time skips in the plan's time mode.
    may_skip: bool,
    stepped: Option<Granter>,
    /// Channel by which users' pauses reach other nodes, if the pause bus does not do that.
    peers: Option<Arc<dyn UserPauses>>,
    /// Number of the last hold of a user.
    holds: AtomicU64,
    /// Directory of the run's results.
    directory: PathBuf,
    /// Context of commands that enter the run's hosts; unset until there is a network.
    exec_context: OnceLock<ExecContext>,
    /// Engines of the simulated network that may leave and join; unset if no engine may.
    engines: OnceLock<Arc<EngineConnections>>,
    /// Links that clients can change; unset until there is a network.
    links: OnceLock<Arc<RunLinks>>,
    /// Attacks that clients can start and stop; unset until there is a network.
    attacks: OnceLock<Arc<RunAttacks>>,
    /// Components that the run's time may wait for.
    components: Components,
}

/// Hold of the other nodes for a user, until it is dropped.
struct PeerHold {
    peers: Arc<dyn UserPauses>,
    number: u64,
}

impl Drop for PeerHold {
    fn drop(&mut self) {
        self.peers.release(self.number);
    }
}

/// Number of the hold of `timeloom pause`.
const BY_HAND: u64 = 0;
const BY_HAND_REASON: &str = "timeloom pause";
/// Requester of the holds and stops of the user's commands.
pub(crate) const USER: &str = "user";
/// Requester of the holds and stops of a granter.
const GRANTER: &str = "granter";

/// Context in which commands from outside enter a run's hosts.
pub(crate) struct ExecContext {
    /// Network namespaces, by host name.
    networks: BTreeMap<String, OwnedFd>,
    /// Directories of timelines, by host name; only hosts that keep timelines are listed.
    timelines: BTreeMap<String, PathBuf>,
    /// Roots of containers, by host name.
    roots: BTreeMap<String, Arc<ContainerRoot>>,
    /// Host names and name service files of the hosts.
    identities: Identities,
    /// Hosts of the plan, from which the rights of their programs are taken.
    hosts: BTreeMap<String, Host>,
    run_recorder: RunRecorder,
}

impl ExecContext {
    /// Returns the context for a run whose network has been created.
    pub(crate) fn of(
        plan: &Plan,
        fabric: &Fabric,
        keepers: &[TimelineDaemon],
        (roots, identities): (BTreeMap<String, Arc<ContainerRoot>>, &Identities),
        run_recorder: &RunRecorder,
    ) -> Result<Self, RunError> {
        let mut networks = BTreeMap::new();
        for name in plan.system.hosts.keys() {
            if let Some(station) = fabric.station(name) {
                let network = station.as_fd().try_clone_to_owned();
                let network = network
                    .map_err(|error| RunError::Start(format!("namespace of {name}: {error}")))?;
                networks.insert(name.clone(), network);
            }
        }
        let place = |keeper: &TimelineDaemon| (keeper.host.clone(), keeper.directory.clone());
        Ok(Self {
            networks,
            timelines: keepers.iter().map(place).collect(),
            roots,
            identities: identities.clone(),
            hosts: plan.system.hosts.clone(),
            run_recorder: run_recorder.clone(),
        })
    }
}

/// Participant that holds the pause of a stepped run until time is granted.
struct Granter {
    grants: Arc<Grants>,
    hold: Mutex<Option<Hold>>,
}

impl ControlEndpoint {
    /// Creates the control. With `grants`, virtual time advances only by grants.
    pub(crate) fn new(
        session: Arc<Session>,
        (bus, membership): (Bus, &dyn Membership),
        may_skip: bool,
        grants: Option<Arc<Grants>>,
        directory: &Path,
    ) -> Self {
        let peers = membership.user_pauses();
        Self {
            session,
            bus,
            peers,
            holds: AtomicU64::new(BY_HAND),
            hold: Mutex::new(None),
            begun: Mutex::new(false),
            agreed: membership.is_agreed(),
            least_dilation: membership.least_dilation(),
            may_skip,
            stepped: grants.map(|grants| Granter {
                grants,
                hold: Mutex::new(None),
            }),
            // Clients have other working directories.
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
            exec_context: OnceLock::new(),
            engines: OnceLock::new(),
            links: OnceLock::new(),
            attacks: OnceLock::new(),
            components: Components::default(),
        }
    }

    /// Returns the components that the run's time may wait for.
    pub(crate) fn components(&self) -> &Components {
        &self.components
    }

    /// Allows the engines to leave and join from now on.
    pub(crate) fn admit(&self, engines: Arc<EngineConnections>) {
        // This method is called only once.
        let _ = self.engines.set(engines);
    }

    /// Allows clients to change links from now on.
    pub(crate) fn have_links(&self, links: &Arc<RunLinks>) {
        // This method is called only once.
        let _ = self.links.set(Arc::clone(links));
    }

    /// Allows clients to start and stop attacks from now on.
    pub(crate) fn have_attacks(&self, attacks: &Arc<RunAttacks>) {
        // This method is called only once.
        let _ = self.attacks.set(Arc::clone(attacks));
    }

    /// Returns the engines that may leave and join. Fails if the run has not begun, or no engine
    /// may.
    fn engines(&self) -> Result<&EngineConnections, HoldError> {
        self.has_begun()?;
        let engines = self.engines.get();
        engines
            .map(|engines| &**engines)
            .ok_or_else(|| HoldError::other(ControlEndpointError::NoEngines))
    }

    /// Allows commands to enter the run's hosts from now on.
    pub(crate) fn open(&self, exec_context: ExecContext) {
        // This method is called only once.
        let _ = self.exec_context.set(exec_context);
    }

    /// Starts the run: `go` starts its clock, or the clock stays stopped until time is granted.
    /// From then on the user may pause the run. A run in periods stops at the end of the first one.
    pub(crate) fn begin(
        &self,
        period: Option<Duration>,
        membership: &dyn Membership,
        go: impl FnOnce() -> Result<(), HoldError>,
    ) -> Result<(), HoldError> {
        // The lock is held until the end of this function. The clock already runs before then, and
        // a client that has noticed this may pause the run.
        let mut begun = self.begun.lock();
        let went = match &self.stepped {
            // The first grant starts the clocks of all machines.
            Some(_) if self.agreed => go().and_then(|()| {
                let stands = self.stand();
                membership.release_start();
                stands
            }),
            Some(_) => self.stand(),
            None => match period {
                Some(period) => self.begin_period(Instant::ZERO + period, membership, go),
                None => go(),
            },
        };
        *begun = true;
        drop(begun);
        if let Some(peers) = &self.peers {
            peers.begin(self.bus.clone());
        }
        self.components.enter(None);
        if let Some(stepped) = &self.stepped {
            stepped.grants.open();
        }
        went
    }

    /// Starts the clock with a stop at `end`. If pauses are agreed on, `go` holds the line from the
    /// start.
    fn begin_period(
        &self,
        end: Instant<Virtual>,
        membership: &dyn Membership,
        go: impl FnOnce() -> Result<(), HoldError>,
    ) -> Result<(), HoldError> {
        if self.agreed {
            go()?;
        }
        let hold = self.bus.hold(PERIOD, "the first period");
        membership.release_start();
        let hold = hold.map_err(HoldError::other)?;
        let asked = self.bus.stop_at(&hold, PERIOD, end);
        asked.map_err(HoldError::other)
    }

    /// Fails if the run has not begun. Waits if [`Self::begin`] is in progress.
    fn has_begun(&self) -> Result<(), HoldError> {
        match *self.begun.lock() {
            true => Ok(()),
            false => Err(HoldError::other(ControlEndpointError::GettingReady)),
        }
    }

    /// Returns the object that grants virtual time; `None` if the run is not stepped.
    pub(crate) fn grants(&self) -> Option<&Arc<Grants>> {
        self.stepped.as_ref().map(|stepped| &stepped.grants)
    }

    /// Releases the holds of the user and of the granter at the end of a run.
    pub(crate) fn release(&self) {
        drop(take(&self.hold));
        drop(self.stepped.as_ref().map(|stepped| take(&stepped.hold)));
    }
}

impl ControlEndpoint {
    fn granter(&self) -> &Granter {
        self.stepped
            .as_ref()
            .expect("only a run that is stepped is asked")
    }
}

fn take(hold: &Mutex<Option<Hold>>) -> Option<Hold> {
    hold.lock().take()
}

impl Stepped for ControlEndpoint {
    fn grants(&self) -> &Arc<Grants> {
        &self.granter().grants
    }

    fn go(&self, until: Instant<Virtual>) -> Result<(), HoldError> {
        let mut held = self.granter().hold.lock();
        if let Some(hold) = held.as_ref().filter(|_| self.agreed) {
            let asked = self.bus.stop_at(hold, GRANTER, until);
            asked.map_err(HoldError::other)?;
        }
        drop(held.take());
        Ok(())
    }

    fn stand(&self) -> Result<(), HoldError> {
        let granter = self.granter();
        let mut hold = granter.hold.lock();
        if hold.is_none() {
            let held = self.bus.hold(GRANTER, &granter.grants.granter());
            *hold = Some(held.map_err(HoldError::other)?);
        }
        // The request has had its effect, and would keep the clocks of all machines here.
        if self.agreed {
            self.bus.forget_stop(GRANTER);
        }
        Ok(())
    }
}

impl Controlled for ControlEndpoint {
    fn pause(&self) -> Result<(), HoldError> {
        self.has_begun()?;
        let mut hold = self.hold.lock();
        if hold.is_none() {
            *hold = Some(
                self.bus
                    .hold(USER, BY_HAND_REASON)
                    .map_err(HoldError::other)?,
            );
            if let Some(peers) = &self.peers {
                peers.hold(BY_HAND, BY_HAND_REASON);
            }
        }
        Ok(())
    }

    fn resume(&self) -> Result<(), HoldError> {
        // The lock is kept, so that the other nodes receive pauses and ends in their order.
        let mut held = self.hold.lock();
        match (held.take(), &self.stepped) {
            (Some(hold), _) => {
                drop(hold);
                if let Some(peers) = &self.peers {
                    peers.release(BY_HAND);
                }
            }
            (None, Some(_)) => return Err(HoldError::NotByHand),
            (None, None) => return Err(HoldError::other(ControlEndpointError::NotPaused)),
        }
        Ok(())
    }

    fn hold(&self, requester: &str, reason: &str) -> Result<Box<dyn Send>, HoldError> {
        self.has_begun()?;
        let hold = self.bus.hold(requester, reason);
        let hold = hold.map_err(HoldError::other)?;
        let peers = self.peers.clone().map(|peers| {
            let number = self.holds.fetch_add(1, Ordering::Relaxed) + 1;
            peers.hold(number, &format!("{requester}: {reason}"));
            PeerHold { peers, number }
        });
        Ok(Box::new((hold, peers)))
    }

    fn share_stop(&self, target: Instant<Virtual>) -> Result<(), HoldError> {
        match &self.peers {
            Some(peers) => {
                self.pause()?;
                peers.stop_at(Some(target));
                Ok(())
            }
            None if self.agreed => {
                self.pause()?;
                match &*self.hold.lock() {
                    Some(hold) => self
                        .bus
                        .stop_at(hold, USER, target)
                        .map_err(HoldError::other),
                    None => Err(HoldError::other(ControlEndpointError::NotPaused)),
                }
            }
            None => Ok(()),
        }
    }

    fn end_shared_stop(&self) {
        match &self.peers {
            Some(peers) => peers.stop_at(None),
            None if self.agreed => self.bus.forget_stop(USER),
            None => {}
        }
    }

    fn is_held(&self) -> bool {
        let hold = self.hold.lock();
        hold.is_some()
    }

    fn dilate(&self, factor: f64) -> Result<(), HoldError> {
        if !self.agreed {
            return Ok(self.session.dilate(factor)?);
        }
        self.has_begun()?;
        if let Some(least) = self.least_dilation.filter(|least| factor < *least) {
            return Err(HoldError::other(ControlEndpointError::EnginesOfAgents {
                least,
            }));
        }
        dilate_all(&self.session, &self.bus, factor)
    }

    fn skip(self: Arc<Self>, on: bool) -> Result<(), HoldError> {
        // Only if time may skip does the session know which packets are in flight.
        if !self.may_skip {
            return Err(HoldError::other(ControlEndpointError::CannotSkip));
        }
        if !on && self.session.clock().compute() == Compute::None {
            return Err(HoldError::other(ControlEndpointError::MovesOnlyBySkipping));
        }
        self.session.set_skipping(on);
        Ok(())
    }

    fn leave(&self, engine: &str) -> Result<(), HoldError> {
        self.engines()?.leave(engine).map_err(HoldError::other)
    }

    fn join(&self, engine: &str) -> Result<(), HoldError> {
        self.engines()?.join(engine).map_err(HoldError::other)
    }

    fn change_attack(&self, id: &str, start: bool) -> Result<(), HoldError> {
        self.has_begun()?;
        let attacks = self.attacks.get();
        let attacks =
            attacks.ok_or_else(|| HoldError::other(ControlEndpointError::GettingReady))?;
        let action = match start {
            true => AttackAction::Start,
            false => AttackAction::Stop,
        };
        attacks.request(id, action).map_err(HoldError::other)
    }

    fn change_link(&self, link: &str, change: &LinkProperties) -> Result<(), HoldError> {
        self.has_begun()?;
        let links = self.links.get();
        let links = links.ok_or_else(|| HoldError::other(ControlEndpointError::GettingReady))?;
        links.change(link, change).map_err(HoldError::other)
    }

    fn is_agreed(&self) -> bool {
        self.agreed
    }

    fn stepped(&self) -> Option<&dyn Stepped> {
        self.stepped.as_ref().map(|_| self as &dyn Stepped)
    }

    fn session(&self) -> &Session {
        &self.session
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn welcome(&self, host: &str) -> Result<Welcome, HoldError> {
        let exec_context = self.exec_context.get();
        let exec_context =
            exec_context.ok_or_else(|| HoldError::other(ControlEndpointError::GettingReady))?;
        let network = exec_context.networks.get(host).map(OwnedFd::try_clone);
        let timelines = exec_context.timelines.get(host);
        let root = exec_context.roots.get(host).cloned();
        let place = timelines.map(|place| match root {
            Some(_) => TIMELINES.into(),
            None => place.into(),
        });
        let place = place.map(|place| ("TIMELOOM_TIMELINES".into(), place));
        Ok(Welcome {
            network: network.transpose().map_err(HoldError::other)?,
            root,
            identity: exec_context.identities.get(host).cloned(),
            env: place.into_iter().collect(),
            rights: match exec_context.hosts.get(host) {
                Some(host) => rights::of_host(host).map_err(HoldError::other)?,
                None => HostRights::Supervisors,
            },
        })
    }

    fn holds(&self) -> Vec<HoldText> {
        holds_of(&self.bus)
    }

    fn awaited(&self) -> Vec<ComponentText> {
        self.components.awaited(self.session.is_skipping())
    }

    fn flush(&self) {
        if let Some(exec_context) = self.exec_context.get() {
            exec_context.run_recorder.flush();
        }
    }

    fn acted(&self, requester: &str, effect: &str) {
        if let Some(exec_context) = self.exec_context.get() {
            let text = format!("by {requester}: {effect}");
            exec_context
                .run_recorder
                .own_event("clock", "control", &text);
        }
    }

    fn came_in(&self, host: &str, command: &str, what: &str, how: &str) {
        if let Some(exec_context) = self.exec_context.get() {
            let source = format!("from outside: {command}");
            exec_context.run_recorder.event(host, &source, what, how);
        }
    }
}

/// Returns the holds on a bus as texts, the longest first.
pub(crate) fn holds_of(bus: &Bus) -> Vec<HoldText> {
    let now = wall_now();
    let text = |holder: Holder| HoldText {
        held_ns: (now - holder.since).as_ns(),
        requester: holder.requester,
        reason: holder.reason,
    };
    bus.holders().into_iter().map(text).collect()
}

/// Reason why the run rejects a request on its control socket.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum ControlEndpointError {
    #[error("this run is still being prepared")]
    GettingReady,
    #[error("this run was not paused by hand")]
    NotPaused,
    #[error(
        "the simulated network of this run has engines on several agents, whose bounds are for a \
         dilation of {least} or more; set a smaller `time.dilation` in its scenario"
    )]
    EnginesOfAgents { least: f64 },
    #[error(
        "this run cannot skip; set mode = \"skip\" under [time] in its scenario, or stepped = {{ \
         skip = true }}"
    )]
    CannotSkip,
    #[error(
        "the time of this run advances only by skipping (compute = \"none\"); `timeloom pause` \
         stops it"
    )]
    MovesOnlyBySkipping,
    #[error(
        "this run has no engines that can leave it; engines can leave if they are processes of one \
         machine (network.engines.processes = true)"
    )]
    NoEngines,
}
