//! The three pins of a machine on the line, by the kernel's character device.

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

/// Output and inputs of a line.
pub trait Pins: Send + Sync {
    /// Drives the line high, or releases it.
    ///
    /// # Errors
    /// Fails if that is not possible.
    fn drive(&self, high: bool) -> io::Result<()>;

    /// Reads both inputs.
    ///
    /// # Errors
    /// Fails if that is not possible.
    fn levels(&self) -> io::Result<Levels>;

    /// Returns the next edge, if one comes within this time.
    ///
    /// # Errors
    /// Fails if that is not possible.
    fn next_edge(&self, within: StdDuration) -> io::Result<Option<Edge>>;
}

/// Names of the pins: `gpiochip0:17,27,22`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinNames {
    /// Character device, or its name below `/dev`.
    pub chip: PathBuf,
    /// The output, the input for rising and that for falling edges.
    pub lines: [u32; 3],
}

/// Text that names no pins, with the correct syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPins {
    /// Not a chip and three lines.
    #[error("write it like {LIKE}")]
    Form,
    /// A line is not a number.
    #[error("{0}; write it like {LIKE}")]
    Number(#[from] ParseIntError),
    /// The same line has two roles.
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

/// Pins of a chip of this machine. The output drives high or, as an input, not at all, so that
/// several on one line are joined by OR: as on the paper's boards, and without requiring
/// open-source outputs of the chip.
pub struct GpioPins {
    output: Request,
    drives: Config,
    lets_go: Config,
    inputs: Request,
    lines: [u32; 3],
}

impl GpioPins {
    /// Requests the pins from the kernel; the line is not driven.
    ///
    /// # Errors
    /// Fails if there is no such chip or line, or if it is in use.
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
        // Space for one: gpiocdev 0.8's `read_edge_event` takes up to eight out of the kernel's
        // queue and returns the first.
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
        // A line that is returned to the kernel keeps its level until it is set again.
        let _ = self.drive(false);
    }
}

/// Drives a line that is low, reads it back by both inputs, and releases it: a test if its three
/// pins are on one line. Returns `false` if another machine drives it, which proves nothing.
///
/// # Errors
/// Fails if the inputs do not follow within `patience`.
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
            // These edges are its own. Later edges of others are kept.
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

/// Interval of readings in a proof.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(1);

/// Name of the consumer, as shown by `gpioinfo`.
const CONSUMER: &str = "timeloom";

/// Number of edges that the kernel keeps until they are read.
const EVENTS: u32 = 256;
