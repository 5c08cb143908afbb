//! Steps of fluid flows: each evaluates the fluid of the last step and sends that of the next.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::convert::number_of;
use timeloom_time::{Duration, Instant, Virtual};

use crate::error::BuildError;
use crate::fluid::{
    Account, FlowHop, Fluid, FluidConfig, FluidFlow, FluidId, FluidLinkStats, FluidPattern,
    FluidStats, Inflow, LEAST_STEP, Source, flow_random, queue_random,
};
use crate::ids::{Node, Token};
use crate::link::Link;
use crate::packet::{NIL, PortId};
use crate::run::fluid_cut::{Stretch, Word};
use crate::tcp::HEADER_BYTES;
use crate::world::World;

impl World {
    /// Adds a fluid flow between two hosts. Must be called before [`World::start`].
    ///
    /// # Errors
    ///
    /// Fails if one of them is not a host, if there is no route between them, if the configuration
    /// is invalid, or if a link on the path decides about each packet separately. Fluid is
    /// supported by drop-tail queues and RED without jitter or reordering.
    pub fn add_fluid(
        &mut self,
        from: Node,
        to: Node,
        config: FluidConfig,
    ) -> Result<FluidId, BuildError> {
        if let Some(fault) = config.fault() {
            return Err(BuildError::BadTraffic(fault));
        }
        let ends = self.ends(from, to)?;
        self.links.prepare();
        let index = number_of(self.fluid.flows.len());
        let name = |node: Node| self.names[node.0 as usize].clone();
        let way = |from, to| self.path(from, to, index);
        let (Some(path), Some(back)) = (way(ends.0, ends.1), way(ends.1, ends.0)) else {
            return Err(BuildError::NoRoute(name(from), name(to)));
        };
        for port in &path {
            if !self.links[*port].takes_fluid() {
                let link = self.ports[*port];
                let (a, b) = (Node(link.node), Node(link.peer_node));
                return Err(BuildError::FluidQueue(name(a), name(b)));
            }
        }
        let time = |ports: &[PortId], bytes: u16| -> Duration {
            let links = ports.iter().map(|port| &self.links[*port]);
            links
                .map(|link| link.delay() + link.time_of_bytes(bytes))
                .sum()
        };
        let base = time(&path, config.packet_bytes) + time(&back, HEADER_BYTES);
        let first_hop = number_of(self.fluid.hops.len());
        for port in &path {
            let account = self.account(*port);
            self.fluid.hops.push(FlowHop {
                account,
                cut: NIL,
                waiting: 0.0,
            });
        }
        let source = Source::new(&config, base, flow_random(self.seed, index));
        self.fluid.flows.push(FluidFlow {
            source,
            from: ends.0,
            to: ends.1,
            first_hop,
            hop_count: number_of(path.len()),
            packet_bytes: config.packet_bytes,
            poisson: matches!(config.pattern, FluidPattern::Poisson { .. }),
            is_elsewhere: false,
            sent: 0.0,
            delivered: 0.0,
            lost: 0.0,
        });
        if matches!(config.pattern, FluidPattern::Tcp { .. }) && self.fluid.step.is_none() {
            let quarter = Duration::from_ns(base.as_ns() / 4);
            self.fluid.running = self.fluid.running.min(quarter.max(LEAST_STEP));
        }
        Ok(FluidId(index))
    }

    /// Returns the index of a link's account; the link gets one if it has none.
    fn account(&mut self, port: PortId) -> u32 {
        let fluid = &mut self.fluid;
        fluid.account_of.resize(self.ports.len(), 0);
        let known = fluid.account_of[port.index()];
        if known > 0 {
            return known - 1;
        }
        let random = queue_random(self.seed, port);
        let (overhead, wire_loss) = self.links[port].add_fluid(random);
        fluid.accounts.push(Account {
            port,
            overhead: f64::from(overhead),
            wire_loss,
            smooth: Inflow::default(),
            poisson: Inflow::default(),
            waiting: 0.0,
            lost: 0.0,
            loss: 0.0,
            passed: 1.0,
            wait_ns: 0.0,
        });
        fluid.account_of[port.index()] = number_of(fluid.accounts.len());
        number_of(fluid.accounts.len()) - 1
    }

    /// Sets the length of a step, after which rates change. By default it is a millisecond, or a
    /// quarter of the shortest round-trip time of a fluid TCP flow if that is shorter, but at least
    /// 0.1 ms.
    pub fn set_fluid_step(&mut self, step: Duration) {
        let step = step.max(Duration::from_us(1));
        (self.fluid.step, self.fluid.running) = (Some(step), step);
    }

    /// Returns the length of a step, after which rates change.
    pub fn fluid_step(&self) -> Duration {
        self.fluid.step.unwrap_or(self.fluid.running).min(LONGEST)
    }

    /// Schedules the first step.
    pub(crate) fn start_fluid<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        if self.fluid.flows.iter().any(|flow| !flow.is_elsewhere) {
            agenda.schedule(agenda.now(), STEPS, Token::FLUID);
        }
    }

    pub(crate) fn handle_fluid_step<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        let (now, step) = (agenda.now(), self.fluid_step());
        self.close_step(now);
        self.send_fluid(now, step);
        self.open_step(step);
        agenda.schedule(now + step, STEPS, Token::FLUID);
    }

    /// Ends a step: evaluates the fluid on each link.
    fn close_step(&mut self, now: Instant<Virtual>) {
        for account in &mut self.fluid.accounts {
            let link = self.links.get_mut(account.port);
            let measured = link.and_then(|link| link.measure_fluid(now, &self.packets));
            let Some(measured) = measured else {
                continue;
            };
            account.wait_ns = measured.wait_ns;
            let smooth = core::mem::take(&mut account.smooth);
            let poisson = core::mem::take(&mut account.poisson);
            let came = smooth.bytes + poisson.bytes;
            account.loss = if !measured.up {
                1.0
            } else if came > 0.0 {
                ((measured.lost - account.lost) / came).clamp(0.0, 1.0)
            } else {
                0.0
            };
            let here = account.waiting + came * (1.0 - account.loss);
            account.passed = if here > 0.0 {
                (1.0 - measured.waiting / here).clamp(0.0, 1.0)
            } else {
                1.0
            };
        }
    }

    /// Sends the fluid of each flow, and fluid from other engines, along the links of its path.
    fn send_fluid(&mut self, now: Instant<Virtual>, step: Duration) {
        let mut fluid = core::mem::take(&mut self.fluid);
        for number in 0..number_of(fluid.flows.len()) {
            if !fluid.flows[number as usize].is_elsewhere {
                self.send_fluid_of(&mut fluid, number, now, step);
            }
        }
        self.fluid = fluid;
    }

    /// Returns true if this engine has the node of a port.
    fn has(&self, port: PortId) -> bool {
        self.crossings.owns(self.ports[port].node)
    }

    fn send_fluid_of(
        &mut self,
        fluid: &mut Fluid,
        number: u32,
        now: Instant<Virtual>,
        step: Duration,
    ) {
        let flow = &mut fluid.flows[number as usize];
        let mut stretch = self.has(flow.from).then(|| {
            let packets = flow.source.sends(now, step);
            flow.sent += packets;
            Stretch::from(packets)
        });
        let first = flow.first_hop as usize;
        for (place, hop) in (0..).zip(&mut fluid.hops[first..first + flow.hop_count as usize]) {
            let account = &mut fluid.accounts[hop.account as usize];
            if let Some(stretch) = &mut stretch {
                stretch.pass(flow, hop, account);
            }
            let Some(cut) = fluid.cuts.get_mut(hop.cut as usize) else {
                continue;
            };
            // The link is cut: this engine has one of its ends, or neither.
            if let Some(before) = stretch.take() {
                let packets = before.packets;
                let told = before.beyond(cut);
                self.tell_of_fluid(account.port, number, place, Word::Came(packets), now);
                self.end_stretch(flow, number, told, now);
            } else if self.has(account.port.peer()) {
                let came = core::mem::take(&mut cut.came);
                stretch = Some(Stretch::behind(came, place, account.port));
            }
        }
        if let Some(stretch) = stretch {
            flow.delivered += stretch.packets;
            self.end_stretch(flow, number, stretch, now);
        }
    }

    /// Begins a step: sets the arrivals of all queues until the next step.
    fn open_step(&mut self, step: Duration) {
        for account in &self.fluid.accounts {
            if let Some(link) = self.links.get_mut(account.port) {
                link.set_fluid(account.smooth, account.poisson, step);
            }
        }
    }

    /// Returns the source and the destination host of a fluid flow.
    pub fn fluid_ends(&self, flow: FluidId) -> [Node; 2] {
        let flow = &self.fluid.flows[flow.0 as usize];
        [flow.from, flow.to].map(|port| self.node_of(port))
    }

    /// Returns the results of a fluid flow.
    pub fn fluid(&self, flow: FluidId) -> FluidStats {
        let flow = &self.fluid.flows[flow.0 as usize];
        let bytes = f64::from(flow.packet_bytes);
        let first = flow.first_hop as usize;
        let hops = &self.fluid.hops[first..first + flow.hop_count as usize];
        let waiting: f64 = hops.iter().map(|hop| hop.waiting).sum();
        let window = flow.source.window();
        let round_trip_ns = window.map_or(0.0, |window| window.round_trip_ns);
        FluidStats {
            sent_bytes: flow.sent * bytes,
            delivered_bytes: flow.delivered * bytes,
            lost_bytes: flow.lost * bytes,
            waiting_bytes: waiting * bytes,
            window: window.map_or(0.0, |window| window.window),
            round_trip: Duration::from_ns_f64(round_trip_ns),
            slowed: window.map_or(0, |window| window.slowed),
        }
    }

    /// Returns the counters of the fluid on the link out of `port`, as of the last step.
    pub fn fluid_link(&self, port: PortId) -> FluidLinkStats {
        let link = self.links.get(port);
        link.map(Link::fluid_stats).unwrap_or_default()
    }

    /// Returns true if fluid passes the link out of `port`.
    pub fn has_fluid(&self, port: PortId) -> bool {
        let account = self.fluid.account_of.get(port.index());
        account.is_some_and(|account| *account > 0)
    }

    /// Returns the number of fluid flows.
    pub fn fluid_count(&self) -> usize {
        self.fluid.flows.len()
    }
}

/// Node under which steps are scheduled. Steps belong to no node; all engines must use the same
/// number, so that the order among events of one instant is the same.
const STEPS: NodeId = NodeId(0);

/// Maximum length of a step, whatever [`World::set_fluid_step`] requested.
const LONGEST: Duration = Duration::from_s(1);
