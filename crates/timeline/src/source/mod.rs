//! What knows the time, as a keeper understands it.
//!
//! An adapter turns another program's or device's words into an [`Exchange`] or
//! a [`Bound`]: where the timeline lay at an instant of the core clock, at worst.
//! What the other side says of its own error is taken as a promise; what it
//! cannot promise (how it drifts between its looks at *its* source) is a figure
//! of the configuration.

mod ptp4l;
mod ptp4l_words;
mod realtime_line;
mod sides;
mod system_clock;

use core::fmt;
use std::sync::Arc;

use timeloom_clock::timeline::{Bound, Era, Exchange};

use crate::HostClock;
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
}

/// Why a source tells nothing; for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untold(pub String);

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Untold {}

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
    clock: &Arc<HostClock>,
) -> Result<Box<dyn Source>, Untold> {
    let clock = clock.clone();
    Ok(match source {
        SourceConfig::SystemClock(config) => {
            Box::new(system_clock::System::new(config.clone(), timeline, clock))
        }
        SourceConfig::Ptp4l(config) => {
            Box::new(ptp4l::Ptp4l::new(config.clone(), timeline, clock)?)
        }
    })
}
