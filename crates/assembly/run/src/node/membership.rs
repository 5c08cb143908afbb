//! Membership of a node in its run.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use timeloom_bus::BusBuilder;
use timeloom_emulation::{Tunnels, TurnStreams};
use timeloom_fabric::{Fabric, MacAddress};
use timeloom_guest::{Clock, HoldError, Session, SharedOrder};
use timeloom_net::Owner;
use timeloom_results::ClockAction;
use timeloom_scenario::{Plan, Simulated, TunnelEnd};
use timeloom_time::Duration;

use super::name::NodeName;
use super::ready_board::ReadyBoard;
use super::samples::SampleChannel;
use super::user_pauses::UserPauses;
use crate::awaited::{AwaitedPeers, Components};
use crate::error::RunError;
use crate::record::RunRecorder;

/// Membership of a node in its run. The provided methods are those of a node without peers.
pub(crate) trait Membership {
    /// Returns the name of the node.
    fn name(&self) -> NodeName;

    /// Returns the board of the programs that are ready, on all nodes.
    fn ready(&self) -> &ReadyBoard;

    /// Returns the plan of the whole run, of which the node executes `share`.
    fn whole<'a>(&'a self, share: &'a Plan) -> &'a Plan {
        share
    }

    /// Returns this node's ends of the links to other nodes.
    fn ends(&self) -> &[TunnelEnd] {
        &[]
    }

    /// Returns the hardware addresses that stations must have because of other nodes, by station.
    fn macs(&self) -> BTreeMap<String, MacAddress> {
        BTreeMap::new()
    }

    /// Returns true if this node stores the inputs of the run.
    fn stores_inputs(&self) -> bool {
        true
    }

    /// Returns the number of this node's engine; `None` if the node has all engines.
    ///
    /// # Errors
    /// Returns an error if the network has no engine for this node.
    fn engine(&self, _simulated: &Simulated) -> Result<Option<Owner>, RunError> {
        Ok(None)
    }

    /// Takes the connections of this node's engine to those of other nodes; `None` if the node has
    /// all engines. Must be called at most once.
    fn engine_lines(&self) -> Option<EngineLines> {
        None
    }

    /// Returns the channel by which the nodes combine the samples of a simulated network; `None` if
    /// each node records its own.
    fn samples(&self) -> Option<Arc<dyn SampleChannel>> {
        None
    }

    /// Registers a function that is called whenever this node's turn begins, if the nodes act in
    /// turns.
    fn on_turn(&self, _ring: Box<dyn Fn() + Send + Sync>) {}

    /// Connects the links that lead to other nodes to the run's network.
    ///
    /// # Errors
    /// Returns an error if a link cannot be connected.
    fn lay_tunnels(
        &self,
        _fabric: &Fabric,
        _clock: &Arc<Clock>,
    ) -> Result<Option<Tunnels>, RunError> {
        Ok(None)
    }

    /// Connects the pause bus to those of other nodes.
    fn wire(&self, bus: BusBuilder) -> BusBuilder {
        bus
    }

    /// Returns true if pauses are agreed on with other nodes.
    fn is_agreed(&self) -> bool {
        false
    }

    /// Returns the least dilation during the run; `None` if any dilation is possible.
    fn least_dilation(&self) -> Option<f64> {
        None
    }

    /// Returns a function that lists the other nodes for which a pause waits.
    fn awaited(&self) -> AwaitedPeers {
        Box::new(Vec::new)
    }

    /// Returns the order of the events of all nodes; `None` if the nodes share none.
    fn order(&self) -> Option<Arc<dyn SharedOrder>> {
        None
    }

    /// Returns what connects the nodes, and the reason why the other nodes have stopped for good;
    /// `None` if they have not.
    fn halted(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Records that virtual time is about to begin.
    fn get_ready(&self, run_recorder: &RunRecorder, _components: &Components) {
        run_recorder.clock_edge(ClockAction::Start);
    }

    /// Connects to the other nodes, if that is not part of the start.
    ///
    /// # Errors
    /// Returns an error if a node is missing, or if the run is interrupted.
    fn meet(
        &self,
        _session: &Session,
        _run_recorder: &RunRecorder,
        _interrupted: &AtomicBool,
    ) -> Result<(), HoldError> {
        Ok(())
    }

    /// Returns the channel by which users' pauses reach the other nodes; `None` if the pause bus
    /// does that, or if there are no others.
    fn user_pauses(&self) -> Option<Arc<dyn UserPauses>> {
        None
    }

    /// Returns true if this node is granted virtual time, in a run whose time is granted.
    fn is_granted_time(&self) -> bool {
        true
    }

    /// Starts virtual time, together with that of all other nodes.
    ///
    /// # Errors
    /// Returns an error if a node is missing, or if the run is interrupted before time begins.
    fn begin(
        &self,
        session: &Arc<Session>,
        _run_recorder: &RunRecorder,
        _interrupted: &AtomicBool,
    ) -> Result<(), HoldError> {
        session.resume().map_err(HoldError::from)
    }

    /// Ends the hold of the start of time, if [`Self::begin`] has taken one: a hold on the pause bus
    /// has replaced it.
    fn release_start(&self) {}

    /// Tells the other nodes that virtual time has ended on this one. The programs still exist, and
    /// the session is paused.
    fn leave(&self) {}
}

/// Membership of the only node of a run.
#[derive(Default)]
pub(crate) struct SoleNode {
    ready: ReadyBoard,
}

impl Membership for SoleNode {
    fn name(&self) -> NodeName {
        NodeName::local()
    }

    fn ready(&self) -> &ReadyBoard {
        &self.ready
    }
}

/// Connections of a node's engine to those of the other nodes.
pub(crate) enum EngineLines {
    /// Sockets, by the name of the other node, and their common key.
    Sockets(BTreeMap<String, EngineLine>, [u8; 32]),
    /// Streams between nodes that act in turns, and the numbers of the other nodes there.
    Streams(Arc<dyn TurnStreams>, BTreeMap<String, usize>),
}

/// Connection of a node's engine to the engine of another node.
pub(crate) struct EngineLine {
    pub(crate) socket: UdpSocket,
    pub(crate) remote: SocketAddr,
    /// Maximum offset between the clocks of the two machines. It is computed from the error bounds
    /// that both stated while the run was prepared.
    pub(crate) clocks_apart: Duration,
}
