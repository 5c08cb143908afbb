//! Network cards that take timestamps (timestamping.rst, section 3): finding their clock and
//! enabling timestamps.

use rustix::io::Errno;
use timeloom_sys::interface::{self, Arrivals};

use crate::{PtpError, PtpInterface};

/// Returns the number of the card's hardware clock, N in `/dev/ptpN`. Ports with different numbers
/// have timestamps of different clocks.
///
/// # Errors
/// Fails with [`PtpError::Unsupported`] if the card has no clock.
pub(crate) fn clock_of(interface: &PtpInterface) -> Result<u32, PtpError> {
    let number = open(interface)?.clock_number();
    number.ok().flatten().ok_or_else(|| {
        PtpError::Unsupported(format!(
            "{} has no clock of its own to stamp with; use --stamps software",
            interface.name
        ))
    })
}

/// Configures the card to timestamp PTP messages in both directions.
pub(super) fn enable(interface: &PtpInterface) -> Result<(), PtpError> {
    clock_of(interface)?;
    let card = open(interface)?;
    let stamped = card
        .stamp(Arrivals::PtpEvents)
        .or_else(|_| card.stamp(Arrivals::All));
    stamped.map_err(|why| match Errno::from_io_error(&why) {
        Some(Errno::PERM) => {
            PtpError::doing(format!("switch on the stamps of {}", interface.name))(why)
        }
        _ => PtpError::Unsupported(format!(
            "{} does not stamp PTP ({why}); use --stamps software",
            interface.name
        )),
    })
}

fn open(interface: &PtpInterface) -> Result<interface::Interface, PtpError> {
    interface::Interface::named(&interface.name).map_err(PtpError::doing("open a socket"))
}
