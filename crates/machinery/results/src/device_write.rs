//! A write to a device, as the events of a run tell it.

use std::fmt;
use std::str::FromStr;

/// Who wrote what: the text of an event of kind [`DeviceWrite::KIND`]. It is both for people
/// and, by `parse`, for the report:
///
/// ```
/// use timeloom_results::DeviceWrite;
/// let text = "grid.storage.1.kw: 12 → 30.5 (holding 0) by plc at 10.0.0.1";
/// let write: DeviceWrite = text.parse().unwrap();
/// assert_eq!((write.old, write.new, &*write.who), (Some(12.0), 30.5, "plc"));
/// assert_eq!(write.to_string(), text);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceWrite {
    /// The signal, as `PLANT.SIGNAL`.
    pub signal: String,
    /// What it was, in its unit; `None` where it could not be read.
    pub old: Option<f64>,
    /// What it became.
    pub new: f64,
    /// The table and address of the register.
    pub register: String,
    /// The host that has the address, with its program where it has one only.
    pub who: String,
    /// The address that the request came from. Its port is left out: the kernel chooses one,
    /// and another in every run.
    pub from: String,
}

impl DeviceWrite {
    /// The kind of such events.
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
            self.new, self.register, self.who, self.from
        )
    }
}

/// The text is of no such event.
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
            let (who, from) = rest.rsplit_once(" at ")?;
            Some(Self {
                signal: signal.to_owned(),
                old: old.parse().ok(),
                new: new.parse().ok()?,
                register: register.to_owned(),
                who: who.to_owned(),
                from: from.to_owned(),
            })
        };
        parts().ok_or(NoDeviceWrite)
    }
}
