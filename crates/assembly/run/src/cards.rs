//! Network cards of the hosts at a simulated network: their clocks in the session, and the stamps of
//! their frames, which the engines record.

use std::collections::BTreeMap;
use std::sync::Arc;

use timeloom_emulation::{FrameDeparture, StampLog};
use timeloom_guest::{CardOptions, FrameStamps, NotYet, Session};
use timeloom_scenario::Plan;
use timeloom_time::{Instant, Virtual};

use crate::error::RunError;
use crate::hosts::{Hosts, oscillator_of, seed_of};

/// Logs of the frames that passed the cards, by host.
pub(crate) type Cards = BTreeMap<String, Arc<StampLog>>;

/// Creates the cards of the plan's hosts. Programs of these hosts must be started afterwards.
pub(crate) fn add(plan: &Plan, session: &Session, hosts: &Hosts) -> Result<Cards, RunError> {
    let mut cards = Cards::new();
    for (name, host) in &plan.system.hosts {
        let Some(clock) = &host.card else { continue };
        let log = StampLog::new();
        let log = Arc::new(log.map_err(|error| {
            RunError::Start(format!(
                "the network card of host {name}: cannot open a socket: {error}"
            ))
        })?);
        let options = CardOptions {
            oscillator: oscillator_of(clock),
            // The card's oscillator is independent of the host's.
            seed: seed_of(plan.seed, &format!("{name}.card")),
            offset: clock.offset,
        };
        session.add_card(&hosts[name], &options, Arc::new(Stamps(Arc::clone(&log))))?;
        cards.insert(name.clone(), log);
    }
    Ok(cards)
}

/// Log of a card, as the session asks it.
struct Stamps(Arc<StampLog>);

impl FrameStamps for Stamps {
    fn set_stamping(&self, on: bool) {
        self.0.set_stamping(on);
    }

    fn arrival(&self, kernel_ns: i64, data: &[u8]) -> Option<Instant<Virtual>> {
        self.0.arrival(kernel_ns, data)
    }

    fn departure(&self, kernel_ns: i64, data: &[u8]) -> Result<Option<Instant<Virtual>>, NotYet> {
        match self.0.departure(kernel_ns, data) {
            FrameDeparture::Pending => Err(NotYet),
            FrameDeparture::At(at) => Ok(Some(at)),
            FrameDeparture::None => Ok(None),
        }
    }
}
