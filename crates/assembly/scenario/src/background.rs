//! Background traffic of a simulated network: conversion of the plan's entries to those of the
//! model.

use timeloom_net::{
    BuildError, Control, FlowId, FluidConfig, FluidId, FluidPattern, Node, Pattern, Size, SourceId,
    TcpConfig, TrafficConfig, World,
};
use timeloom_time::{Duration, Instant};

use crate::plan::{Traffic, TrafficKind, TrafficModel};

/// Handle of one traffic entry in the model.
#[derive(Clone, Copy, Debug)]
pub enum Background {
    /// TCP flow.
    Flow(FlowId),
    /// Source of datagrams.
    Source(SourceId),
    /// Fluid flow.
    Fluid(FluidId),
}

impl Background {
    /// Returns the source host and the destination host.
    pub fn ends(self, world: &World) -> [Node; 2] {
        match self {
            Self::Flow(flow) => world.flow_ends(flow),
            Self::Source(source) => world.source_ends(source),
            Self::Fluid(flow) => world.fluid_ends(flow),
        }
    }
}

/// Mistake in a traffic entry: the wrong key, the message and the fix.
pub(crate) type Wrong = (&'static str, String, String);

/// Adds this traffic to `world`, from the first of `ends` to the second.
pub(crate) fn add(
    traffic: &Traffic,
    ends: [Node; 2],
    world: &mut World,
) -> Result<Background, Wrong> {
    let [from, to] = ends;
    let start = Instant::ZERO + traffic.start;
    let fluid = traffic.model == TrafficModel::Fluid;
    if fluid && traffic.ecn {
        let message = "fluid flows do not support congestion marks (ECN)".to_owned();
        return Err(("ecn", message, "leave out `ecn` or `model`".to_owned()));
    }
    let control = match traffic.kind {
        TrafficKind::Reno => Some(Control::NewReno),
        TrafficKind::Cubic => Some(Control::Cubic),
        TrafficKind::Cubic8312 => Some(Control::Cubic8312),
        TrafficKind::Bbr => Some(Control::Bbr),
        TrafficKind::Dctcp => Some(Control::Dctcp),
        _ => None,
    };
    if fluid && matches!(traffic.kind, TrafficKind::Bbr | TrafficKind::Dctcp) {
        let message = format!("there is no fluid model of `{}`", traffic.kind.word());
        let help = "leave out `model`, or choose the kind `reno` or `cubic`";
        return Err(("model", message, help.to_owned()));
    }
    let pattern = pattern(traffic)?;
    let added = match (fluid, pattern, control) {
        (true, Some(pattern), _) => {
            let mut config = FluidConfig::new(fluid_of(&pattern, traffic));
            config.packet_bytes = traffic.bytes;
            config.start = start;
            world.add_fluid(from, to, config).map(Background::Fluid)
        }
        (true, None, control) => {
            let mut config = FluidConfig::tcp(control.unwrap_or(Control::NewReno));
            config.start = start;
            world.add_fluid(from, to, config).map(Background::Fluid)
        }
        (false, Some(pattern), _) => {
            let mut config = TrafficConfig::udp(pattern, Size::Fixed(traffic.bytes));
            config.start = start;
            world.add_traffic(from, to, config).map(Background::Source)
        }
        (false, None, control) => {
            let config = TcpConfig {
                control: control.unwrap_or(Control::NewReno),
                ecn: traffic.ecn,
                start,
                ..TcpConfig::default()
            };
            world.add_tcp(from, to, config).map(Background::Flow)
        }
    };
    added.map_err(|error| match error {
        BuildError::FluidQueue(..) => {
            let help =
                "give the link no `jitter` and the `discipline` `drop-tail` or `red`, or use `model = \"packet\"`";
            ("model", error.to_string(), help.to_owned())
        }
        error => {
            let help = "traffic must begin and end at hosts that reach one another";
            ("from", error.to_string(), help.to_owned())
        }
    })
}

/// Returns the sending pattern of a datagram source; `None` for TCP.
fn pattern(traffic: &Traffic) -> Result<Option<Pattern>, Wrong> {
    if traffic.kind.is_tcp() {
        return Ok(None);
    }
    let Some(rate) = traffic.rate else {
        let message = "a source of datagrams needs a `rate`".to_owned();
        let help = "add `rate`, as in `rate = \"10 Mbit/s\"`".to_owned();
        return Err(("kind", message, help));
    };
    let rate_bps = rate.as_bits_per_s();
    Ok(Some(match traffic.kind {
        TrafficKind::Poisson => {
            let bits = i64::from(traffic.bytes) * 8;
            let mean_ns = bits as f64 * 1e9 / rate_bps as f64;
            Pattern::Poisson {
                mean: Duration::from_ns(mean_ns.max(1.0) as i64),
            }
        }
        TrafficKind::OnOff => {
            let (Some(mean_on), Some(mean_off)) = (traffic.on, traffic.off) else {
                let message = "bursts and silences need a mean length".to_owned();
                let help =
                    "add `on` and `off`, as in `on = \"50 ms\", off = \"200 ms\"`".to_owned();
                return Err(("kind", message, help));
            };
            Pattern::OnOff {
                rate_bps,
                mean_on,
                mean_off,
            }
        }
        _ => Pattern::Constant { rate_bps },
    }))
}

/// Converts a packet pattern to a fluid pattern, which has a rate and no packets.
fn fluid_of(pattern: &Pattern, traffic: &Traffic) -> FluidPattern {
    let rate_bps = traffic.rate.map_or(0, |rate| rate.as_bits_per_s());
    match pattern {
        Pattern::Poisson { .. } => FluidPattern::Poisson { rate_bps },
        Pattern::OnOff {
            mean_on, mean_off, ..
        } => FluidPattern::OnOff {
            rate_bps,
            mean_on: *mean_on,
            mean_off: *mean_off,
        },
        Pattern::Constant { .. } | Pattern::Trace { .. } => FluidPattern::Constant { rate_bps },
    }
}
