//! Sources of time, from which an estimator receives samples.
//!
//! An adapter converts the output of another program or device to an [`Exchange`] or a [`Bound`],
//! which limits the timeline at an instant of the core clock. The error that a source states is
//! trusted. The error that a source cannot state, such as its drift between two readings of its own
//! reference, is a value of the configuration.

mod bracket;
mod chrony;
mod chrony_codec;
mod chrony_link;
mod fed_sync;
pub(crate) mod fuzzing;
mod page_codec;
mod pages;
pub(crate) mod peer;
pub(crate) mod peer_codec;
mod phc;
mod ptp;
mod ptp4l;
mod ptp4l_codec;
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
    /// Sends a request and waits for the answer, for at most a second.
    ///
    /// The answer must not use data from an era before `era`.
    ///
    /// # Errors
    /// Fails if there is no answer, or if the answer contains no information about time.
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure>;

    /// Returns a text about the contradiction between the source's TAI offset and the
    /// configuration, if the table of leap seconds disproved the source's value in the last answer.
    fn contradiction(&self) -> Option<String> {
        None
    }
}

/// Answer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceSample {
    /// Exchange with four timestamps.
    Exchange(Exchange),
    /// Bound computed from several messages.
    Bound {
        /// Era for which the source was asked.
        era: Era,
        /// Limits of the timeline at an instant of the core clock.
        bound: Bound,
        /// True if the messages were authenticated.
        authenticated: bool,
    },
    /// The source answered, but its statement is not authenticated. Used by sources whose
    /// unauthenticated statements never count, whatever the timeline demands of other sources.
    Unproven {
        /// Era for which the source was asked.
        era: Era,
    },
}

/// Text that says why a source gives no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceFailure(pub String);

impl SourceFailure {
    pub(crate) fn because(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// Creates the adapter of a configured source.
///
/// # Errors
/// Fails if the source can never work as configured. A daemon that is not running is no error,
/// because it may start later.
pub fn open(
    source: &SourceConfig,
    timeline: &TimelineConfig,
    clock: &Arc<LocalClock>,
) -> Result<Box<dyn Source>, SourceFailure> {
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
            let key = timeline.key().map_err(SourceFailure::because)?;
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
