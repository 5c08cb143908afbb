//! The world that is searched: hosts, what was said, and what must be true.

use std::collections::VecDeque;

use timeloom_clock::Timeline;
use timeloom_time::{Instant, Virtual};

use super::search::Scope;
use crate::agreement::{Agreement, Order};
use crate::hosts::{HostId, Hosts};
use crate::record::{Record, Resumed, Stage};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A program of this host wants to hold the line.
    Claim(usize),
    /// It has held it for long enough.
    Release(usize),
    /// This host hears that record of another: how many it skips.
    Hear(usize, usize, usize),
    /// This host's clock shows so much more than at least when its ceiling comes.
    Close(usize, i64),
    /// This host's clock has come to the ceiling; or it goes on.
    Act(usize),
    /// It is gone.
    Crash(usize),
    /// The first has not heard the second, which is gone, for too long.
    Lost(usize, usize),
}

/// One host, and what is around its agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) agreement: Agreement,
    /// What it was told to do and has not done yet.
    pub(super) orders: VecDeque<Order>,
    /// What it said that somebody has not heard, the newest last.
    pub(super) said: VecDeque<Record>,
    /// How many of these are news to each other host.
    pub(super) news: Vec<usize>,
    requests: usize,
    asks: bool,
    holds: bool,
    runs: bool,
    pub(super) shows: Instant<Virtual>,
    pub(super) crashed: bool,
}

impl Host {
    /// Whether it has come and does not take part yet.
    fn waits(&self) -> bool {
        matches!(self.agreement.record().stage, Stage::Joining)
    }

    /// Whether anything can happen at it.
    pub(super) fn acts(&self) -> bool {
        !self.crashed && !self.agreement.is_stopped()
    }

    /// Forgets what it was, but for what it said and that it asked.
    pub(super) fn bury(&mut self) {
        self.agreement = self.agreement.anew();
        self.orders.clear();
        (self.requests, self.runs, self.shows) = (0, false, Instant::ZERO);
    }
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) hosts: Vec<Host>,
    crashes: usize,
    slow: bool,
    under_way: usize,
    /// Where all stand, by pause, and how it ended, as the first one had it. Kept for
    /// as long as somebody is still in it.
    pub(super) stands: Agreements<Instant<Virtual>>,
    pub(super) ends: Agreements<Resumed>,
}

/// What was agreed, by pause, and whether each host says so.
pub(super) type Agreements<T> = VecDeque<(u64, T, Hosts)>;

/// This host says that this was agreed.
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
        Some((_, _, who)) => {
            *who = who.with(id(host));
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
        .for_each(|(_, _, who)| *who = who.without(gone));
    told.retain(|(_, _, who)| !who.is_empty());
}

/// What is wrong, in words.
pub(super) type Wrong = String;

impl World {
    pub(super) fn new(scope: &Scope) -> Self {
        let ids: Vec<HostId> = (0..scope.hosts as u8).filter_map(HostId::new).collect();
        let joiner = scope.joins.then_some(ids[scope.hosts - 1]);
        let members: Hosts = ids
            .iter()
            .copied()
            .filter(|id| Some(*id) != joiner)
            .collect();
        let hosts = ids.iter().map(|id| {
            let mut agreement = match Some(*id) == joiner {
                true => Agreement::joining(*id, scope.on_silence),
                false => Agreement::new(*id, members, scope.on_silence),
            };
            agreement.flaw = scope.flaw;
            Host {
                said: VecDeque::from([agreement.record()]),
                agreement,
                orders: VecDeque::new(),
                news: vec![1; scope.hosts],
                requests: scope.requests[id.number() as usize],
                asks: false,
                holds: false,
                runs: false,
                shows: Instant::ZERO,
                crashed: false,
            }
        });
        let mut world = Self {
            hosts: hosts.collect(),
            crashes: scope.crashes,
            slow: scope.slow,
            under_way: scope.under_way,
            stands: VecDeque::new(),
            ends: VecDeque::new(),
        };
        for host in 0..scope.hosts {
            world.settle(host).expect("nothing has happened yet");
        }
        world
    }

    /// All that may happen next.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            if host.crashed || host.agreement.is_stopped() {
                continue;
            }
            // A late one waits for a pause of the others.
            if host.requests > 0 && !host.asks && !host.waits() {
                events.push(Event::Claim(index));
            }
            if host.holds {
                events.push(Event::Release(index));
            }
            match host.orders.front() {
                Some(Order::Close { .. }) => {
                    events.extend([0, 2].map(|more| Event::Close(index, more)));
                }
                Some(_) => events.push(Event::Act(index)),
                None => {}
            }
            if self.crashes > 0 {
                events.push(Event::Crash(index));
            }
            for (other, them) in self.hosts.iter().enumerate().filter(|it| it.0 != index) {
                let id = id(other);
                if them.crashed
                    && host.agreement.members().contains(id)
                    && !host.agreement.silent().contains(id)
                {
                    events.push(Event::Lost(index, other));
                }
                if !host.agreement.silent().contains(id) {
                    let news = them.news[index];
                    events.extend((0..news).map(|skip| Event::Hear(index, other, skip)));
                }
            }
        }
        events
    }

    /// Lets it happen.
    pub(super) fn happen(&mut self, event: Event) -> Result<(), Wrong> {
        let index = match event {
            Event::Claim(index)
            | Event::Release(index)
            | Event::Hear(index, ..)
            | Event::Close(index, _)
            | Event::Act(index)
            | Event::Crash(index)
            | Event::Lost(index, _) => index,
        };
        let soonest = self.soonest(index);
        let heard = match event {
            Event::Hear(_, other, skip) => {
                let them = &mut self.hosts[other];
                let at = them.said.len() - them.news[index] + skip;
                them.news[index] -= skip + 1;
                Some(them.said[at])
            }
            _ => None,
        };
        let host = &mut self.hosts[index];
        match event {
            Event::Claim(_) => {
                host.requests -= 1;
                host.asks = true;
                host.agreement.claim(soonest);
            }
            Event::Release(_) => {
                (host.asks, host.holds) = (false, false);
                host.agreement.release(soonest);
            }
            Event::Hear(_, other, _) => {
                let record = heard.ok_or("nothing was said")?;
                host.agreement.heard(id(other), record, soonest);
            }
            Event::Close(_, more) => self.close(index, more)?,
            Event::Act(_) => self.act(index)?,
            Event::Crash(_) => {
                self.crashes -= 1;
                host.crashed = true;
                host.holds = false;
                host.orders.clear();
                // What it alone knew binds nobody.
                forget_of(&mut self.stands, index);
                forget_of(&mut self.ends, index);
                // Who is heard no more hears no more.
                for them in &mut self.hosts {
                    them.news[index] = 0;
                }
            }
            Event::Lost(_, other) => {
                host.agreement.lost(id(other), soonest);
                self.hosts[other].news[index] = 0;
            }
        }
        self.settle(index)?;
        self.holders_see_a_standing_world()
    }

    /// Everybody names another instant: the latest is the last host's.
    fn soonest(&self, index: usize) -> Instant<Timeline> {
        let pause = self.hosts[index].agreement.record().pause as i64;
        Instant::from_ns(10 * pause + index as i64)
    }

    fn close(&mut self, index: usize, more: i64) -> Result<(), Wrong> {
        let claimed = self.hosts.iter().any(|host| host.asks);
        let soonest = self.soonest(index);
        let host = &mut self.hosts[index];
        let Some(Order::Close { at_least }) = host.orders.pop_front() else {
            return Err("no ceiling was ordered".to_owned());
        };
        if !claimed {
            return Err(format!("host {index} pauses and nobody holds or wants to"));
        }
        let next = host.agreement.record().pause as i64 + 1;
        host.shows = Instant::from_ns(10 * next + more);
        let ceiling = host.shows.max(at_least.unwrap_or(Instant::ZERO));
        host.agreement.closed(ceiling, soonest);
        Ok(())
    }

    fn act(&mut self, index: usize) -> Result<(), Wrong> {
        let soonest = self.soonest(index);
        let host = &mut self.hosts[index];
        let pause = host.agreement.record().pause;
        match host.orders.pop_front() {
            Some(Order::Stand { at }) => {
                if at < host.shows {
                    return Err(format!("host {index} is past {at:?} already"));
                }
                (host.shows, host.runs) = (at, false);
                host.agreement.stood(soonest);
                agreed(&mut self.stands, index, pause, at)
            }
            Some(Order::Resume(resumed)) => {
                let began = host.agreement.record();
                let joins = host.shows == Instant::ZERO;
                if resumed.from != host.shows && !joins {
                    return Err(format!("host {index} jumps to {resumed:?}"));
                }
                (host.shows, host.runs) = (resumed.from, true);
                let pause = match began.stage {
                    Stage::Closing { .. } => began.pause - 1,
                    _ => began.pause,
                };
                agreed(&mut self.ends, index, pause, resumed)
            }
            order => Err(format!("{order:?} is no act")),
        }
    }

    /// Takes over what the agreement says and orders, does what takes no time, and
    /// forgets what nobody needs any more.
    fn settle(&mut self, index: usize) -> Result<(), Wrong> {
        self.take_orders(index)?;
        while !self.slow && !self.hosts[index].orders.is_empty() {
            match self.hosts[index].orders.front() {
                Some(Order::Close { .. }) => {
                    // Everybody's clock shows something else.
                    self.close(index, (index as i64 + 1) % 3 * 2)?;
                }
                _ => self.act(index)?,
            }
            self.take_orders(index)?;
        }
        let host = &mut self.hosts[index];
        let record = host.agreement.record();
        if host.said.back() != Some(&record) && !host.crashed {
            host.said.push_back(record);
            let most = self.under_way;
            host.news
                .iter_mut()
                .for_each(|news| *news = (*news + 1).min(most));
        }
        host.news[index] = 0;
        self.forget();
        Ok(())
    }

    fn take_orders(&mut self, index: usize) -> Result<(), Wrong> {
        let host = &mut self.hosts[index];
        while let Some(order) = host.agreement.next_order() {
            match order {
                Order::HoldAlone => {}
                Order::Halt(_) => {
                    host.orders.clear();
                    (host.runs, host.holds) = (false, false);
                }
                Order::Grant { at } => {
                    if host.shows != at || host.runs {
                        return Err(format!("host {index} holds and does not stand"));
                    }
                    host.holds = true;
                }
                order => host.orders.push_back(order),
            }
        }
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        for index in 0..self.hosts.len() {
            let unheard = self.hosts[index].news.iter().copied().max().unwrap_or(0);
            let host = &mut self.hosts[index];
            // The last one is what the next is compared with.
            while host.said.len() > unheard.max(1) {
                host.said.pop_front();
            }
        }
        let alive = self.hosts.iter().filter(|host| !host.crashed);
        let least = alive.map(|host| host.agreement.record().pause).min();
        let least = least.unwrap_or(0).saturating_sub(1);
        self.stands.retain(|(pause, ..)| *pause >= least);
        self.ends.retain(|(pause, ..)| *pause >= least);
    }

    /// While one host was granted the line, no clock and no process runs.
    fn holders_see_a_standing_world(&self) -> Result<(), Wrong> {
        let Some(holder) = self.hosts.iter().find(|host| host.holds && !host.crashed) else {
            return Ok(());
        };
        let alive = self.hosts.iter().enumerate().filter(|host| !host.1.crashed);
        for (index, host) in alive {
            let member = holder.agreement.members().contains(id(index));
            if member && (host.runs || host.shows != holder.shows) {
                return Err(format!("host {index} runs while another holds"));
            }
        }
        Ok(())
    }

    /// What must be true when nothing more happens by itself.
    pub(super) fn rests(&self, scope: &Scope) -> Result<(), Wrong> {
        let alive = || self.hosts.iter().filter(|host| !host.crashed);
        if alive().any(|host| host.agreement.is_stopped()) {
            let all = alive().all(|host| host.agreement.is_stopped());
            return match (all, self.crashes < scope.crashes) {
                (true, true) => Ok(()),
                (true, false) => Err("all have stopped, and nobody is gone".to_owned()),
                (false, _) => Err("some have stopped, some have not".to_owned()),
            };
        }
        if alive().any(|host| host.holds) {
            return match alive().all(|host| host.holds || !host.asks) {
                true => Ok(()),
                false => Err("somebody waits for another to let go".to_owned()),
            };
        }
        match alive().all(|host| host.waits() || (host.runs && !host.asks)) {
            true => Ok(()),
            false => Err("it stands, and nobody holds".to_owned()),
        }
    }
}

pub(super) fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("a few hosts")
}
