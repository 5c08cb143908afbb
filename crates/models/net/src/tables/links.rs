//! Links of a network: their configurations, and the state of those that this engine has.

use core::ops::{Index, IndexMut};
use std::collections::BTreeSet;
use std::sync::Arc;

use timeloom_time::convert::number_of;
use timeloom_time::{Instant, Virtual};

use timeloom_engine::Random;

use crate::config::LinkConfig;
use crate::link::Link;
use crate::packet::PortId;
use crate::tables::slab::Slab;
use crate::tables::sparse::Sparse;

/// Links out of all ports. Engines share the configurations. The state of a link exists, from the
/// start on, in the engines that have one of its ends.
#[derive(Debug)]
pub(crate) struct Links {
    seed: u64,
    /// Distinct configurations of links.
    kinds: Arc<[LinkConfig]>,
    /// Index into `kinds` by port.
    kind_of: Arc<[u32]>,
    /// State of links by port; empty before [`Links::prepare`].
    states: Sparse<Link>,
    /// Links for which changes are planned.
    changing: BTreeSet<PortId>,
}

impl Links {
    /// Returns the table without states. `kind_of` is the index into `kinds` for the link out of
    /// each port.
    pub(crate) fn new(seed: u64, kinds: Vec<LinkConfig>, kind_of: Vec<u32>) -> Self {
        Self {
            seed,
            kinds: kinds.into(),
            kind_of: kind_of.into(),
            states: Sparse::default(),
            changing: BTreeSet::new(),
        }
    }

    /// Records that a change of a link is planned.
    pub(crate) fn expect_changes(&mut self, port: PortId) {
        self.changing.insert(port);
        if let Some(link) = self.states.get_mut(port.0) {
            let random = Random::new(self.seed, u64::from(port.0));
            let config = &self.kinds[self.kind_of[port.index()] as usize];
            link.expect_changes(config, random);
        }
    }

    /// Makes a link whose packets are in the slab ready for changes; see [`Link::begin_changes`].
    pub(crate) fn begin_changes(
        &mut self,
        port: PortId,
        now: Instant<Virtual>,
        packets: &mut Slab,
    ) -> Option<Instant<Virtual>> {
        let random = Random::new(self.seed, u64::from(port.0));
        let config = &self.kinds[self.kind_of[port.index()] as usize];
        let link = self.states.get_mut(port.0)?;
        link.begin_changes(now, (config, random), packets)
    }

    pub(crate) fn config(&self, port: PortId) -> &LinkConfig {
        &self.kinds[self.kind_of[port.index()] as usize]
    }

    /// Returns the state of a link; `None` before the start, and for links of other engines.
    pub(crate) fn get(&self, port: PortId) -> Option<&Link> {
        self.states.get(port.0)
    }

    pub(crate) fn get_mut(&mut self, port: PortId) -> Option<&mut Link> {
        self.states.get_mut(port.0)
    }

    fn fresh(&self, port: u32) -> Link {
        let random = || Random::new(self.seed, u64::from(port));
        let config = self.config(PortId(port));
        let mut link = Link::new(config, random());
        if self.changing.contains(&PortId(port)) {
            link.expect_changes(config, random());
        }
        link
    }

    /// Creates the states; must be called before anything is sent.
    #[inline]
    pub(crate) fn prepare(&mut self) {
        if self.states.len() != self.kind_of.len() {
            self.make();
        }
    }

    #[cold]
    fn make(&mut self) {
        let ports = 0..number_of(self.kind_of.len());
        let fresh: Vec<Link> = ports.map(|port| self.fresh(port)).collect();
        self.states = fresh.into();
    }

    /// Returns the part of the table with the links for which `wanted` is true.
    pub(crate) fn part(&self, wanted: impl Fn(PortId) -> bool) -> Self {
        let make = |port| match self.states.get(port) {
            Some(link) => link.clone(),
            None => self.fresh(port),
        };
        let count = number_of(self.kind_of.len());
        Self {
            seed: self.seed,
            kinds: Arc::clone(&self.kinds),
            kind_of: Arc::clone(&self.kind_of),
            changing: self.changing.clone(),
            states: Sparse::some(count, |port| wanted(PortId(port)), make),
        }
    }

    /// Returns the size of the states in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.states.bytes()
    }
}

impl Index<PortId> for Links {
    type Output = Link;
    #[inline]
    fn index(&self, port: PortId) -> &Link {
        &self.states[port.0]
    }
}

impl IndexMut<PortId> for Links {
    #[inline]
    fn index_mut(&mut self, port: PortId) -> &mut Link {
        &mut self.states[port.0]
    }
}
