//! What knows the time, as a keeper understands it.
//!
//! An adapter turns another program's or device's words into an [`Exchange`] or
//! a [`Bound`]: where the timeline lay at an instant of the core clock, at worst.
//! What the other side says of its own error is taken as a promise; what it
//! cannot promise (how it drifts between its looks at *its* source) is a figure
//! of the configuration.

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

/// Something that can be asked for the time.
pub trait Source: Send {
    /// Asks and waits for the answer, for a second at most.
    ///
    /// What was learned in an earlier era must not come into the answer.
    ///
    /// # Errors
    /// When there is no answer or it tells nothing.
    fn ask(&mut self, era: Era) -> Result<Sample, Untold>;
}

/// What a source has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// By four stamps.
    Exchange(Exchange),
    /// As a bound that was made of several messages.
    Bound {
        /// As given by the question.
        era: Era,
        /// The bound.
        bound: Bound,
        /// Whether the messages were proved to come from the source.
        authenticated: bool,
    },
    /// The source was heard and nobody vouches for what it said. For sources of
    /// which an unproved word never counts, whatever the timeline demands.
    Unproven {
        /// As given by the question.
        era: Era,
    },
}

/// Why a source tells nothing; for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Untold(pub String);

impl Untold {
    pub(crate) fn because(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// Makes the adapter.
///
/// # Errors
/// When it can never work as configured. A daemon that does not run yet is no
/// error: it may come.
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
