//! Sources of time, as used by a keeper.
//!
//! An adapter converts the output of another program or device to an [`Exchange`] or a [`Bound`]:
//! the limits of the timeline at an instant of the core clock. The error that a source states is
//! taken as a promise; the error that it cannot state (its drift between readings of *its* source)
//! is a value of the configuration.

mod bracket;
mod chrony;
mod chrony_link;
mod chrony_words;
mod fed_sync;
pub(crate) mod fuzzing;
mod page_words;
mod pages;
pub(crate) mod peer;
pub(crate) mod peer_words;
mod phc;
mod ptp;
mod ptp4l;
mod ptp4l_words;
pub(crate) mod realtime_line;
mod simulated;
mod system_clock;
mod tai_offset;
mod thread;

pub(crate) use tai_offset::FromUtc;
pub(crate) use thread::SourceThread;

use core::fmt;
use std::sync::Arc;

use timeloom_clock::timeline::{Bound, Era, Exchange};

use crate::LocalClock;
use crate::config::{SourceConfig, TimelineConfig};

/// Source of time.
pub trait Source: Send {
    /// Sends a request and waits for the answer, for a second at most.
    ///
    /// Data from an earlier era must not enter the answer.
    ///
    /// # Errors
    /// Fails if there is no answer or it has no information.
    fn ask(&mut self, era: Era) -> Result<Sample, Untold>;
}

/// Answer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Exchange with four timestamps.
    Exchange(Exchange),
    /// Bound that was made of several messages.
    Bound {
        /// Era of the request.
        era: Era,
        /// The bound.
        bound: Bound,
        /// True if the messages were authenticated.
        authenticated: bool,
    },
    /// The source was heard, and its statement is not authenticated. For sources whose
    /// unauthenticated statements never count, whatever the timeline demands.
    Unproven {
        /// Era of the request.
        era: Era,
    },
}

/// Reason why a source gives no time, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Untold(pub String);

impl Untold {
    pub(crate) fn because(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// Creates the adapter.
///
/// # Errors
/// Fails if the source can never work as configured. A daemon that does not run yet is not an
/// error: it may start.
pub fn open(
    source: &SourceConfig,
    timeline: &TimelineConfig,
    clock: &Arc<LocalClock>,
) -> Result<Box<dyn Source>, Untold> {
    let clock = clock.clone();
    Ok(match source {
        SourceConfig::SystemClock(config) => {
            Box::new(system_clock::System::new(config.clone(), timeline, clock))
        }
        SourceConfig::Chrony(config) => {
            Box::new(chrony::Chrony::new(config.clone(), timeline, clock))
        }
        SourceConfig::ClockBound(config) => {
            Box::new(pages::ClockBound(pages::Page::new(config, timeline, clock)))
        }
        SourceConfig::Vmclock(config) => Box::new(pages::VmclockPage(pages::Page::new(
            config, timeline, clock,
        ))),
        SourceConfig::Phc(config) => {
            Box::new(phc::HardwareClock::new(config.clone(), timeline, clock))
        }
        SourceConfig::Timeline(config) => Box::new(pages::OtherTimeline::new(config, clock)),
        SourceConfig::Peer(config) => {
            let key = timeline.key().map_err(Untold::because)?;
            Box::new(peer::Peer::new(
                &config.address,
                timeline.timeline(),
                key,
                clock,
            ))
        }
        SourceConfig::Simulated(config) => {
            Box::new(simulated::Simulated::new(config.clone(), clock))
        }
        SourceConfig::Ptp(config) => Box::new(ptp::Ptp::new(config.clone(), timeline, clock)?),
        SourceConfig::Ptp4l(config) => {
            Box::new(ptp4l::Ptp4l::new(config.clone(), timeline, clock)?)
        }
    })
}
