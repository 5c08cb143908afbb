//! Options `--auth` and `--policy` of PTP clocks.

use std::str::FromStr;

use clap::ValueEnum;
use timeloom_ptp_io::{SignatureChannel, Suite, TimeInterval, VerificationPolicy};
use timeloom_run::exit::Failure;
use timeloom_time::{Duration, ParseTimeError};

/// Way in which corrections are protected.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AuthName {
    /// No protection
    Off,
    /// Every hop signs, in one aggregate signature on Follow_Up
    InlineBls,
    /// Every hop signs, in one aggregate signature of which nearly all is computed before the
    /// Follow_Up arrives
    InlineBlsOnce,
    /// Every hop signs, by a chain of signatures on Follow_Up
    InlineEd25519,
    /// Every hop signs, by statements on a second network
    Secondary,
    /// A group shares one key, for the standard's AUTHENTICATION TLV; this excludes others, but
    /// each member can forge everything
    Group,
}

impl AuthName {
    pub(super) const fn channel(self) -> Option<SignatureChannel> {
        match self {
            Self::Off | Self::Group => None,
            Self::InlineBls => Some(SignatureChannel::Inline(Suite::Bls)),
            Self::InlineBlsOnce => Some(SignatureChannel::Inline(Suite::BlsOnce)),
            Self::InlineEd25519 => Some(SignatureChannel::Inline(Suite::Ed25519)),
            Self::Secondary => Some(SignatureChannel::Secondary),
        }
    }

    /// Returns the kind of keys that a laboratory creates for this protection; `None` if it needs
    /// none.
    pub(super) const fn suite(self) -> Option<Suite> {
        match self {
            Self::Off | Self::Group => None,
            Self::InlineBls => Some(Suite::Bls),
            Self::InlineBlsOnce => Some(Suite::BlsOnce),
            Self::InlineEd25519 | Self::Secondary => Some(Suite::Ed25519),
        }
    }

    pub(super) fn is_secondary(self) -> bool {
        self == Self::Secondary
    }
}

/// Argument such as `strict`, `monitor` or `mixed=100 us`.
#[derive(Clone, Copy)]
pub(super) struct PolicyArgument(pub(super) VerificationPolicy);

impl FromStr for PolicyArgument {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let policy = match text.split_once('=') {
            None if text == "strict" => VerificationPolicy::Strict,
            None if text == "monitor" => VerificationPolicy::Monitor,
            Some(("mixed", budget)) => {
                let budget: Duration = budget
                    .parse()
                    .map_err(|error: ParseTimeError| Failure::usage(error))?;
                VerificationPolicy::Mixed {
                    budget: TimeInterval::from_ns(budget.as_ns()),
                }
            }
            _ => {
                return Err(Failure::usage(
                    "write strict, monitor, or mixed=DURATION (what unsigned clocks may add in all)",
                ));
            }
        };
        Ok(Self(policy))
    }
}
