//! Command `timeloom link`: a link of a running experiment's network changes.

use std::process::ExitCode;

use clap::Args;
use timeloom_guest::{LinkProperties, Request, parse_span};
use timeloom_run::exit::Failure;
use timeloom_scenario::BitRate;
use timeloom_time::Duration;

use super::control::Target;

/// Change a link of a running experiment's network
///
/// The change applies to both directions, from the present virtual instant on; properties that are
/// not given stay as they are. Packets in flight keep their delay, and no packet overtakes another.
/// A link that goes down loses the packets in its queue and all that follow. A simulated network
/// changes in all of these ways, a network of the kernel in rate and state.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom link wan --delay 200ms --loss 0.1   timeloom link wan --down"
)]
pub(crate) struct Link {
    /// Name of the link in the scenario, or its two nodes as A-B
    link: String,
    /// New propagation delay, e.g. 200ms
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    delay: Option<Duration>,
    /// New maximum of the additional random delay
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    jitter: Option<Duration>,
    /// New probability that a packet is lost, from 0 to 1
    #[arg(long, value_name = "PROBABILITY")]
    loss: Option<f64>,
    /// New bit rate of each direction, e.g. 10Mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<BitRate>,
    /// The link loses all packets from now on
    #[arg(long, conflicts_with = "up")]
    down: bool,
    /// The link transmits again
    #[arg(long)]
    up: bool,
    #[command(flatten)]
    target: Target,
}

impl Link {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let change = LinkProperties {
            rate_bps: self.rate.map(BitRate::as_bits_per_s),
            delay_ns: self.delay.map(Duration::as_ns),
            jitter_ns: self.jitter.map(Duration::as_ns),
            loss: self.loss,
            up: (self.down || self.up).then_some(self.up),
        };
        if change.is_empty() {
            let what =
                "nothing is to change: give --delay, --jitter, --loss, --rate, --down or --up";
            return Err(Failure::usage(what));
        }
        let link = self.link;
        self.target.send(&Request::Link { link, change })
    }
}

/// Parses a bit rate; the unit may lack `/s`.
fn parse_rate(text: &str) -> Result<BitRate, String> {
    let whole = match text.trim().ends_with("bit") {
        true => format!("{}/s", text.trim()),
        false => text.to_owned(),
    };
    whole.parse().map_err(|error| format!("{error}"))
}
