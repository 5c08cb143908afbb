//! Spans, instants and factors as users write them, on the command line and in the live view.

use timeloom_time::{Duration, ParseTimeError};

use crate::control::protocol::Request;

/// Instant of a session's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Time since the session began, or from now.
    pub at: Duration,
    /// True if it is counted from now.
    pub relative: bool,
}

/// Mistake in a span, an instant or a factor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WordError {
    /// Text that is no time.
    #[error(transparent)]
    Time(#[from] ParseTimeError),
    /// Span that is not more than zero.
    #[error("a span to run must be more than zero")]
    NoSpan,
    /// Text that is no number.
    #[error("write a number, such as `10` or `0.5`, or `inf`")]
    NoNumber,
}

/// Parses a span of virtual time, such as `10 ms`.
///
/// # Errors
/// Fails for a text that is no time, and for a span that is not more than zero.
pub fn parse_span(text: &str) -> Result<Duration, WordError> {
    match text.parse()? {
        span if span <= Duration::ZERO => Err(WordError::NoSpan),
        span => Ok(span),
    }
}

/// Parses an instant: the time since the session began, or with `+` a span from now.
///
/// # Errors
/// Fails for a text that is neither.
pub fn parse_instant(text: &str) -> Result<When, WordError> {
    let (at, relative) = match text.strip_prefix('+') {
        Some(span) => (parse_span(span)?, true),
        None => (text.parse()?, false),
    };
    Ok(When { at, relative })
}

/// Parses a dilation. Impossible factors are refused later, with the range that is possible there.
///
/// # Errors
/// Fails for a text that is no number.
pub fn parse_factor(text: &str) -> Result<f64, WordError> {
    text.parse().map_err(|_| WordError::NoNumber)
}

impl Request {
    /// Returns the request for a dilation by `factor`: an infinite one is a pause, and with zero
    /// time skips while all threads wait.
    pub fn dilate(factor: f64) -> Self {
        match factor {
            f64::INFINITY => Self::Pause,
            0.0 => Self::Skip { on: true },
            factor => Self::Dilate { factor },
        }
    }
}
