//! A write to a device, as recorded in the events of a run.

use std::fmt;
use std::str::FromStr;

/// Text of an event of kind [`DeviceWrite::KIND`], which describes the writer and the change. Users
/// read the text; the report converts it back by `parse`:
///
/// ```
/// use timeloom_results::DeviceWrite;
/// let text = "grid.storage.1.kw: 12 → 30.5 (holding 0) by plc at 10.0.0.1";
/// let write: DeviceWrite = text.parse().unwrap();
/// assert_eq!((write.old, write.new, &*write.writer), (Some(12.0), 30.5, "plc"));
/// assert_eq!(write.to_string(), text);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceWrite {
    /// Written signal, as `PLANT.SIGNAL`.
    pub signal: String,
    /// Previous value in the signal's unit; `None` if it could not be read.
    pub old: Option<f64>,
    /// New value in the signal's unit.
    pub new: f64,
    /// Table and address of the written register.
    pub register: String,
    /// Host that sent the request, with its program if the host has only one.
    pub writer: String,
    /// Source address of the request, without the port, which the kernel chooses anew in every run.
    pub from: String,
}

impl DeviceWrite {
    /// Kind of the events with such a text.
    pub const KIND: &str = "write";
}

impl fmt::Display for DeviceWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.signal)?;
        match self.old {
            Some(old) => write!(f, "{old}")?,
            None => f.write_str("?")?,
        }
        write!(
            f,
            " → {} ({}) by {} at {}",
            self.new, self.register, self.writer, self.from
        )
    }
}

/// Error for a text that does not have the form of a [`DeviceWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDeviceWrite;

impl FromStr for DeviceWrite {
    type Err = NoDeviceWrite;

    fn from_str(text: &str) -> Result<Self, NoDeviceWrite> {
        let parts = || {
            let (signal, rest) = text.split_once(": ")?;
            let (old, rest) = rest.split_once(" → ")?;
            let (new, rest) = rest.split_once(" (")?;
            let (register, rest) = rest.split_once(") by ")?;
            let (writer, from) = rest.rsplit_once(" at ")?;
            Some(Self {
                signal: signal.to_owned(),
                old: old.parse().ok(),
                new: new.parse().ok()?,
                register: register.to_owned(),
                writer: writer.to_owned(),
                from: from.to_owned(),
            })
        };
        parts().ok_or(NoDeviceWrite)
    }
}
