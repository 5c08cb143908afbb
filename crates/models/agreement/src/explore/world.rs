//! World that is searched: stations, agreed instants, and the invariants.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant, Virtual};

use super::host::{Facts, ReportedInstant};
use super::search::Scope;
use super::stations::{Event, NOTHING, Outcome, Stations};
use super::table::{Map, Table};
use super::{HOSTS, Wrong, id};
use crate::hosts::Hosts;
use crate::record::Resumption;

/// State of the world, as the numbers of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) stations: [u32; HOSTS],
    agreed: u32,
    /// Number of crashes that may still happen.
    crashes: u8,
}

impl World {
    /// Returns the whole state as one number.
    pub(super) fn number(self) -> u128 {
        let [a, b, c] = self.stations.map(u128::from);
        assert!(
            self.agreed < 1 << 24,
            "numbers of what was agreed have 24 bits"
        );
        a | b << 32 | c << 64 | u128::from(self.agreed) << 96 | u128::from(self.crashes) << 120
    }

    /// Returns the state that [`Self::number`] has encoded.
    pub(super) fn of(number: u128) -> Self {
        let word = |at: u32| (number >> at) as u32;
        Self {
            stations: [word(0), word(32), word(64)],
            agreed: word(96) & 0xff_ffff,
            crashes: (number >> 120) as u8,
        }
    }
}

/// Instants at which each pause begins and ends, as first reported by any host. They are kept while
/// any host is still in that pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Agreed {
    pub(super) stands: Agreements<Instant<Virtual>>,
    pub(super) ends: Agreements<Resumption>,
}

/// Agreed values: the number of the pause, the value, and the hosts that have reported it.
pub(super) type Agreements<T> = VecDeque<(u64, T, Hosts)>;

/// Records that `host` reports a value as agreed; fails if another host has reported another value.
fn agreed<T: Copy + PartialEq + std::fmt::Debug>(
    told: &mut Agreements<T>,
    host: usize,
    pause: u64,
    what: T,
) -> Result<(), Wrong> {
    match told.iter_mut().find(|(number, ..)| *number == pause) {
        Some((_, other, _)) if *other != what => Err(format!(
            "host {host} says {what:?} of pause {pause}, others {other:?}"
        )),
        Some((_, _, hosts)) => {
            *hosts = hosts.with(id(host));
            Ok(())
        }
        None => {
            told.push_back((pause, what, Hosts::NONE.with(id(host))));
            Ok(())
        }
    }
}

fn forget_of<T>(told: &mut Agreements<T>, host: usize) {
    let gone = Hosts::NONE.with(id(host));
    told.iter_mut()
        .for_each(|(_, _, hosts)| *hosts = hosts.without(gone));
    told.retain(|(_, _, hosts)| !hosts.is_empty());
}

/// Inputs that determine a change of the agreed values: the number of the previous values, the
/// number of the report, the reporting host, true if that host crashed, the smallest pause number
/// of any host, and the hosts at which events are possible.
type Account = (u32, u32, u8, bool, u64, Hosts);

/// All worlds of one scope, with the tables of their parts.
pub(super) struct Worlds {
    pub(super) stations: Stations,
    agreed: Table<Agreed>,
    accounts: Map<Account, u32>,
    least_agreed: Vec<u64>,
    shifted: Map<(u32, u64), u32>,
}

impl Worlds {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            stations: Stations::new(scope),
            agreed: Table::default(),
            accounts: Map::default(),
            least_agreed: Vec::new(),
            shifted: Map::default(),
        }
    }

    fn scope(&self) -> &Scope {
        &self.stations.scope
    }

    pub(super) fn start(&mut self) -> Result<World, Wrong> {
        let (stations, said) = self.stations.start()?;
        let mut world = World {
            stations,
            agreed: self.keep(Agreed::default()),
            crashes: self.scope().crashes as u8,
        };
        for (host, said) in said.into_iter().enumerate() {
            world.agreed = self.account(&world, host, said, false)?;
        }
        Ok(self.shifted(world))
    }

    pub(super) fn facts(&self, world: &World) -> [&Facts; HOSTS] {
        world.stations.map(|station| self.stations.facts(station))
    }

    /// Returns the event at index `place` of the host's list; `None` past the end of the list.
    pub(super) fn outcome(&mut self, world: &World, host: usize, place: usize) -> Option<Outcome> {
        let outcomes = self.stations.outcomes(world.stations[host]);
        outcomes.get(place).copied()
    }

    /// Returns true if the event can happen in this world.
    pub(super) fn may(&self, world: &World, outcome: &Outcome) -> bool {
        match outcome.event {
            Event::Crash => world.crashes > 0,
            event => event
                .misses()
                .is_none_or(|other| self.stations.facts(world.stations[other]).crashed),
        }
    }

    /// Applies an event of `host` to the world, and checks the invariants.
    pub(super) fn happen(
        &mut self,
        world: &World,
        host: usize,
        outcome: &Outcome,
    ) -> Result<World, Wrong> {
        if let Some(wrong) = outcome.local.wrong {
            return Err(self.stations.wrong(wrong).clone());
        }
        let is_gone = outcome.event == Event::Crash;
        let mut next = *world;
        next.stations[host] = outcome.next;
        next.crashes -= u8::from(is_gone);
        if outcome.local.closed && !self.facts(&next).iter().any(|it| it.asks) {
            return Err(format!(
                "host {host} pauses although no host holds or requests a hold"
            ));
        }
        if let Some(record) = outcome.local.record {
            for other in (0..HOSTS).filter(|other| *other != host) {
                let station = next.stations[other];
                next.stations[other] = self.stations.push(station, host, record);
            }
        }
        next.agreed = self.account(&next, host, outcome.local.said, is_gone)?;
        self.holders_see_a_standing_world(&next)?;
        Ok(self.shifted(next))
    }

    /// Returns the agreed values after `host` has reported or crashed, without the values that no
    /// host can contradict any more.
    fn account(
        &mut self,
        world: &World,
        host: usize,
        said: u32,
        is_gone: bool,
    ) -> Result<u32, Wrong> {
        let facts = self.facts(world);
        let alive = facts.iter().filter(|it| !it.crashed);
        let least = alive.map(|it| it.pause).min();
        let least = least.unwrap_or(0).saturating_sub(1);
        let acts = |at: &usize| !facts[*at].crashed && !facts[*at].stopped;
        let acting: Hosts = (0..HOSTS).filter(acts).map(id).collect();
        // A host that reports nothing and does not crash has no effect, so its number is left out.
        let reporter = match said == NOTHING && !is_gone {
            true => 0,
            false => host as u8,
        };
        let key = (world.agreed, said, reporter, is_gone, least, acting);
        if let Some(number) = self.accounts.get(&key) {
            return Ok(*number);
        }
        let mut all = self.agreed.get(world.agreed).clone();
        for said in self.stations.said(said) {
            match *said {
                ReportedInstant::Stands(pause, at) => agreed(&mut all.stands, host, pause, at)?,
                ReportedInstant::Ended(pause, how) => agreed(&mut all.ends, host, pause, how)?,
            }
        }
        if is_gone {
            // Values that only the crashed host has reported do not bind any other host.
            forget_of(&mut all.stands, host);
            forget_of(&mut all.ends, host);
        }
        let merges = self.scope().merges;
        let is_kept = |pause: u64, hosts: Hosts| {
            pause >= least && !(merges && acting.without(hosts).is_empty())
        };
        all.stands
            .retain(|(pause, _, hosts)| is_kept(*pause, *hosts));
        all.ends.retain(|(pause, _, hosts)| is_kept(*pause, *hosts));
        let number = self.keep(all);
        self.accounts.insert(key, number);
        Ok(number)
    }

    fn keep(&mut self, agreed: Agreed) -> u32 {
        let stands = agreed.stands.iter().map(|(pause, ..)| *pause);
        let ends = agreed.ends.iter().map(|(pause, ..)| *pause);
        let least = stands.chain(ends).min().unwrap_or(u64::MAX);
        let number = self.agreed.number(agreed);
        if number as usize == self.least_agreed.len() {
            self.least_agreed.push(least);
        }
        number
    }

    /// Returns the representative of all worlds that differ only in the number of past pauses.
    pub(super) fn shifted(&mut self, mut world: World) -> World {
        if !self.scope().merges {
            return world;
        }
        let known = self.facts(&world).into_iter().map(|it| it.least);
        let least = known.fold(self.least_agreed[world.agreed as usize], u64::min);
        let by = match least {
            u64::MAX => 0,
            least => least.saturating_sub(super::canonical::FIRST),
        };
        if by == 0 {
            return world;
        }
        let span = Duration::from_ns(10 * by as i64);
        for station in &mut world.stations {
            *station = self.stations.shift(*station, by, span);
        }
        if let Some(agreed) = self.shifted.get(&(world.agreed, by)) {
            world.agreed = *agreed;
            return world;
        }
        let mut agreed = self.agreed.get(world.agreed).clone();
        agreed.shift(by, span);
        let number = self.keep(agreed);
        self.shifted.insert((world.agreed, by), number);
        world.agreed = number;
        world
    }

    /// Returns the representative, in these worlds, of a world of another scope. If `bare` is true,
    /// the hosts' knowledge and the records under way are left out. `known` maps that scope's
    /// stations to stations here.
    pub(super) fn adopt(
        &mut self,
        other: &Self,
        mut world: World,
        bare: bool,
        known: &mut Map<u32, u32>,
    ) -> World {
        for station in &mut world.stations {
            let here = known.entry(*station);
            *station =
                *here.or_insert_with_key(|it| self.stations.adopt(&other.stations, *it, bare));
        }
        world.agreed = self.keep(other.agreed.get(world.agreed).clone());
        let agreed = self.account(&world, 0, NOTHING, false);
        world.agreed = agreed.expect("nothing is said");
        self.shifted(world)
    }

    /// Checks that no clock and no process runs while any host is granted the line.
    fn holders_see_a_standing_world(&self, world: &World) -> Result<(), Wrong> {
        let facts = self.facts(world);
        let Some(holder) = facts.iter().find(|host| host.holds && !host.crashed) else {
            return Ok(());
        };
        for (index, host) in facts.iter().enumerate().filter(|it| !it.1.crashed) {
            let member = holder.members.contains(id(index));
            if member && (host.runs || host.shows != holder.shows) {
                return Err(format!("host {index} runs while another holds"));
            }
        }
        Ok(())
    }

    /// Returns true if no event remains other than a claim, a release or a crash.
    pub(super) fn is_at_rest(&mut self, world: &World) -> bool {
        let gone = self.facts(world).map(|it| it.crashed);
        let newest = self.facts(world).map(|it| it.record);
        world.stations.iter().all(|station| {
            let outcomes = self.stations.outcomes(*station);
            let misses = |it: &Outcome| it.event.misses().is_some_and(|other| gone[other]);
            if outcomes.iter().any(misses) {
                return false;
            }
            self.stations.is_idle(*station, newest)
        })
    }

    /// Checks the invariants of a world in which no event remains.
    pub(super) fn rests(&self, world: &World) -> Result<(), Wrong> {
        let facts = self.facts(world);
        let alive = || facts.iter().filter(|host| !host.crashed);
        if alive().any(|host| host.stopped) {
            let all = alive().all(|host| host.stopped);
            return match (all, usize::from(world.crashes) < self.scope().crashes) {
                (true, true) => Ok(()),
                (true, false) => Err("all have stopped, and no host has crashed".to_owned()),
                (false, _) => Err("some have stopped, some have not".to_owned()),
            };
        }
        if alive().any(|host| host.holds) {
            return match alive().all(|host| host.holds || !host.asks) {
                true => Ok(()),
                false => Err("a host waits for another to release its hold".to_owned()),
            };
        }
        match alive().all(|host| host.waits || (host.runs && !host.asks)) {
            true => Ok(()),
            false => Err("it is paused, and no host holds".to_owned()),
        }
    }
}
