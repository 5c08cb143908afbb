//! The three pins that connect a machine to the line, used through the kernel's character device.

use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration as StdDuration;

use gpiocdev::Request;
use gpiocdev::line::{EdgeDetection, EdgeKind, EventClock, Value};
use gpiocdev::request::Config;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant};

use super::line::{Edge, Levels};

/// Output and inputs of a machine on the line.
pub trait Pins: Send + Sync {
    /// Drives the line high, or releases it.
    ///
    /// # Errors
    /// Fails if the output cannot be set.
    fn drive(&self, high: bool) -> io::Result<()>;

    /// Reads both inputs.
    ///
    /// # Errors
    /// Fails if the inputs cannot be read.
    fn levels(&self) -> io::Result<Levels>;

    /// Returns the next edge; `None` if none comes within this time.
    ///
    /// # Errors
    /// Fails if the edges cannot be read.
    fn next_edge(&self, within: StdDuration) -> io::Result<Option<Edge>>;
}

/// Names of the three pins, written as `gpiochip0:17,27,22`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinNames {
    /// Path of the chip's character device, or its name below `/dev`.
    pub chip: PathBuf,
    /// Line numbers on the chip: the output, the input for rising edges, and the input for falling
    /// edges.
    pub lines: [u32; 3],
}

/// Error for a text that does not name three pins; its message shows the syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPins {
    /// The text is not a chip and three line numbers.
    #[error("write it like {LIKE}")]
    Form,
    /// A line number is not a number.
    #[error("{0}; write it like {LIKE}")]
    Number(#[from] ParseIntError),
    /// The same line number is used twice.
    #[error("three different lines: one has edges of one kind only")]
    Shared,
}

const LIKE: &str = "gpiochip0:17,27,22 (output, rising input, falling input)";

impl FromStr for PinNames {
    type Err = NoPins;

    fn from_str(text: &str) -> Result<Self, NoPins> {
        let (chip, lines) = text.rsplit_once(':').ok_or(NoPins::Form)?;
        let lines: Result<Vec<u32>, _> = lines.split(',').map(str::parse).collect();
        let lines: [u32; 3] = lines?.try_into().map_err(|_| NoPins::Form)?;
        let [output, rising, falling] = lines;
        if output == rising || rising == falling || output == falling {
            return Err(NoPins::Shared);
        }
        if chip.is_empty() {
            return Err(NoPins::Form);
        }
        let chip = match chip.contains('/') {
            true => PathBuf::from(chip),
            false => PathBuf::from("/dev").join(chip),
        };
        Ok(Self { chip, lines })
    }
}

impl fmt::Display for PinNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [output, rising, falling] = self.lines;
        write!(
            f,
            "{}:{output},{rising},{falling}",
            self.chip.to_string_lossy()
        )
    }
}

/// Pins of a chip of this machine. To release the line, the output becomes an input, which does not
/// drive the line at all. Several outputs on one line are therefore joined by OR, as on the paper's
/// boards, and the chip need not support open-source outputs.
pub struct GpioPins {
    output: Request,
    drives: Config,
    lets_go: Config,
    inputs: Request,
    lines: [u32; 3],
}

impl GpioPins {
    /// Requests the pins from the kernel. The line is not driven.
    ///
    /// # Errors
    /// Fails if there is no such chip or line number, or if a pin is in use.
    pub fn open(names: &PinNames) -> io::Result<Self> {
        let [output, rising, falling] = names.lines;
        let chip = &names.chip;
        let inputs = Request::builder()
            .on_chip(chip)
            .with_consumer(CONSUMER)
            .with_kernel_event_buffer_size(EVENTS)
            .with_line(rising)
            .as_input()
            .with_edge_detection(EdgeDetection::RisingEdge)
            .with_event_clock(EventClock::Monotonic)
            .with_line(falling)
            .as_input()
            .with_edge_detection(EdgeDetection::FallingEdge)
            .with_event_clock(EventClock::Monotonic)
            .request();
        let output_request = Request::builder()
            .on_chip(chip)
            .with_consumer(CONSUMER)
            .with_line(output)
            .as_input()
            .request();
        let (mut drives, mut lets_go) = (Config::default(), Config::default());
        drives.with_line(output).as_output(Value::Active);
        lets_go.with_line(output).as_input();
        Ok(Self {
            drives,
            lets_go,
            output: output_request.map_err(failed)?,
            inputs: inputs.map_err(failed)?,
            lines: names.lines,
        })
    }
}

impl Pins for GpioPins {
    fn drive(&self, high: bool) -> io::Result<()> {
        let config = if high { &self.drives } else { &self.lets_go };
        self.output.reconfigure(config).map_err(failed)
    }

    fn levels(&self) -> io::Result<Levels> {
        let [_, rising, falling] = self.lines;
        let read = |line| self.inputs.value(line).map_err(failed);
        Ok(Levels {
            rising: read(rising)? == Value::Active,
            falling: read(falling)? == Value::Active,
        })
    }

    fn next_edge(&self, within: StdDuration) -> io::Result<Option<Edge>> {
        if !self.inputs.wait_edge_event(within).map_err(failed)? {
            return Ok(None);
        }
        // The buffer has space for one edge. `read_edge_event` of gpiocdev 0.8 is not used, because
        // it takes up to eight edges out of the kernel's queue and returns the first one only.
        let mut room = vec![0; self.inputs.edge_event_u64_size()];
        let read = self.inputs.read_edge_events_into_slice(&mut room);
        let event = self
            .inputs
            .edge_event_from_slice(&room[..read.map_err(failed)?]);
        let event = event.map_err(failed)?;
        Ok(Some(Edge {
            rising: event.kind == EdgeKind::Rising,
            at: Instant::from_ns(i64::try_from(event.timestamp_ns).unwrap_or(i64::MAX)),
            number: event.line_seqno,
        }))
    }
}

impl Drop for GpioPins {
    fn drop(&mut self) {
        // A pin that is returned to the kernel keeps its level until it is set again.
        let _ = self.drive(false);
    }
}

/// Tests whether the three pins are on one line: drives the line while it is low, reads it with
/// both inputs, and releases it. Returns `false` if another machine drives the line, because the
/// test would prove nothing.
///
/// # Errors
/// Fails if the inputs do not follow the output within `patience`.
pub fn prove(pins: &dyn Pins, patience: Duration) -> io::Result<bool> {
    let levels = pins.levels()?;
    if levels.rising || levels.falling {
        return Ok(false);
    }
    pins.drive(true)?;
    let began = wall_now();
    let risen = loop {
        let levels = pins.levels()?;
        if (levels.rising && levels.falling) || wall_now() - began > patience {
            break levels;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    pins.drive(false)?;
    let low = |wrong: &str| {
        io::Error::other(format!(
            "the output was driven, and {wrong} stayed low: are all three on one line?"
        ))
    };
    match (risen.rising, risen.falling) {
        (true, true) => {
            // These edges are caused by the test. Later edges of other machines are kept.
            while pins.next_edge(LOOK_EVERY)?.is_some() {}
            Ok(true)
        }
        (true, false) => Err(low("the input for falling edges")),
        (false, true) => Err(low("the input for rising edges")),
        (false, false) => Err(low("both inputs")),
    }
}

fn failed(error: gpiocdev::Error) -> io::Error {
    io::Error::other(error)
}

/// Interval between readings in the test.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(1);

/// Name of the pins' user, as `gpioinfo` shows it.
const CONSUMER: &str = "timeloom";

/// Number of edges that the kernel stores until they are read.
const EVENTS: u32 = 256;
