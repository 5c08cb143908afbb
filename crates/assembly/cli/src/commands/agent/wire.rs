//! Agent's end of a wire between machines.

use std::sync::Arc;

use clap::Args;
use timeloom_guest::parse_span;
use timeloom_run::agent::{
    AgreedSession, GpioPins, LineSettings, MachineWire, NetworkedWire, StandaloneWire, Udp,
};
use timeloom_run::exit::{Failure, note};
use timeloom_time::Duration;

/// Timeouts of an agent for its end of the wire.
#[derive(Args)]
pub(super) struct Patience {
    /// Ignore an edge that follows another one within this span as contact bounce
    #[arg(long = "gpio-debounce", default_value = "20 us", value_name = "SPAN",
          value_parser = parse_span, requires = "gpio")]
    debounce: Duration,
    /// Maximum time for which the wire may differ from the level that the machines drive; then it
    /// counts as stuck, and all stop or continue by the network alone (--on-silence)
    #[arg(long = "gpio-stuck", default_value = "1 s", value_name = "SPAN",
          value_parser = parse_span, requires = "gpio")]
    stuck: Duration,
}

impl Patience {
    pub(super) fn stuck(&self) -> Duration {
        self.stuck
    }

    fn settings(&self) -> LineSettings {
        LineSettings {
            debounce: self.debounce,
            stuck: self.stuck,
        }
    }

    /// Uses the wire together with the network.
    pub(super) fn beside(&self, udp: Udp, pins: GpioPins) -> Result<Arc<dyn MachineWire>, Failure> {
        let warn = Box::new(|text: &str| note!("timeloom: {text}"));
        let wired = NetworkedWire::start(udp, Arc::new(pins), self.settings(), warn);
        Ok(Arc::new(wired.map_err(failed)?))
    }

    /// Uses the wire without a network. Holds the wire for the time `assembly`, so that other
    /// machines can join.
    pub(super) fn alone(
        &self,
        pins: GpioPins,
        testbed: Arc<AgreedSession>,
        assembly: Duration,
    ) -> Result<Arc<dyn MachineWire>, Failure> {
        note!(
            "timeloom: no network: this machine pauses at the instant at which it detects an edge \
             of the wire; the instants of the others are unknown"
        );
        let alone =
            StandaloneWire::start(Arc::new(pins), self.settings(), testbed).map_err(failed)?;
        let wire = Arc::new(alone);
        let its = Arc::clone(&wire);
        let hold = std::time::Duration::from_nanos(assembly.as_ns().unsigned_abs());
        std::thread::Builder::new()
            .name("assembly".to_owned())
            .spawn(move || {
                std::thread::sleep(hold);
                if let Err(error) = its.let_go() {
                    note!("timeloom: cannot release the wire: {error}");
                }
            })
            .map_err(|error| Failure::machine(format!("starting a thread: {error}")))?;
        Ok(wire)
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::machine(format!("the wire: {error}"))
}
