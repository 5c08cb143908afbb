//! Spans, instants and factors as users write them, on the command line and in the live view.

use timeloom_time::{Duration, ParseTimeError};

use crate::control::protocol::Request;

/// Instant of a session's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Time since the session began, or from now.
    pub at: Duration,
    /// True if `at` is counted from now.
    pub relative: bool,
}

/// Mistake in a span, an instant or a factor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WordError {
    /// The text is not a length of time.
    #[error(transparent)]
    Time(#[from] ParseTimeError),
    /// The span is zero or negative.
    #[error("a span to run must be positive")]
    NoSpan,
    /// The text is not a number.
    #[error("write a number, such as `10` or `0.5`, or `inf`")]
    NoNumber,
}

/// Parses a span of virtual time, such as `10 ms`.
///
/// # Errors
/// Fails for a text that is not a length of time, and for a span that is zero or negative.
pub fn parse_span(text: &str) -> Result<Duration, WordError> {
    match text.parse()? {
        span if span <= Duration::ZERO => Err(WordError::NoSpan),
        span => Ok(span),
    }
}

/// Parses an instant: the time since the session began, or with `+` a span from now.
///
/// # Errors
/// Fails for a text of another form.
pub fn parse_instant(text: &str) -> Result<When, WordError> {
    let (at, relative) = match text.strip_prefix('+') {
        Some(span) => (parse_span(span)?, true),
        None => (text.parse()?, false),
    };
    Ok(When { at, relative })
}

/// Parses a dilation. The session refuses an impossible factor, and its message states the possible
/// range.
///
/// # Errors
/// Fails for a text that is not a number.
pub fn parse_factor(text: &str) -> Result<f64, WordError> {
    text.parse().map_err(|_| WordError::NoNumber)
}

impl Request {
    /// Returns the request for a dilation by `factor`. An infinite factor is a pause; with factor
    /// zero, time skips while all threads wait.
    pub fn dilate(factor: f64) -> Self {
        match factor {
            f64::INFINITY => Self::Pause,
            0.0 => Self::Skip { on: true },
            factor => Self::Dilate { factor },
        }
    }
}
