//! Cards that stamp (timestamping.rst, section 3): whose clock it is, and
//! switching its stamps on.

use crate::interface::{any_socket, ioctl, request_for};
use crate::{Interface, PtpError};

/// The card's clock, as in `/dev/ptpN`. Ports whose numbers differ are stamped
/// by different clocks.
///
/// # Errors
/// [`PtpError::Unsupported`] when the card has none.
pub(crate) fn clock_of(interface: &Interface) -> Result<u32, PtpError> {
    /// `struct ethtool_ts_info`, linux/ethtool.h.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        command: u32,
        so_timestamping: u32,
        phc_index: i32,
        tx_types: u32,
        tx_reserved: [u32; 3],
        rx_filters: u32,
        rx_reserved: [u32; 3],
    }
    const _: () = assert!(size_of::<Info>() == 44);
    const ETHTOOL_GET_TS_INFO: u32 = 0x41;
    const SIOCETHTOOL: libc::Ioctl = 0x8946;

    let none = || {
        PtpError::Unsupported(format!(
            "{} has no clock of its own to stamp with; use --stamps software",
            interface.name
        ))
    };
    let socket = any_socket().map_err(PtpError::doing("open a socket"))?;
    let mut info = Info {
        command: ETHTOOL_GET_TS_INFO,
        phc_index: -1,
        ..Info::default()
    };
    let mut request = request_for(&interface.name).ok_or_else(none)?;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    ioctl(&socket, SIOCETHTOOL, &mut request).map_err(|_| none())?;
    u32::try_from(info.phc_index).map_err(|_| none())
}

/// Tells the card to stamp PTP messages both ways.
pub(super) fn enable(interface: &Interface) -> Result<(), PtpError> {
    /// `struct hwtstamp_config`, linux/net_tstamp.h.
    #[repr(C)]
    struct Config {
        flags: libc::c_int,
        tx_type: libc::c_int,
        rx_filter: libc::c_int,
    }
    const TX_ON: libc::c_int = 1;
    /// All event messages of version 2, by any transport; then everything.
    const RX_FILTERS: [libc::c_int; 2] = [12, 1];
    const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;

    clock_of(interface)?;
    let socket = any_socket().map_err(PtpError::doing("open a socket"))?;
    let mut last = None;
    for rx_filter in RX_FILTERS {
        let mut config = Config {
            flags: 0,
            tx_type: TX_ON,
            rx_filter,
        };
        let mut request =
            request_for(&interface.name).expect("the interface was found by this name");
        request.ifr_ifru.ifru_data = (&raw mut config).cast();
        match ioctl(&socket, SIOCSHWTSTAMP, &mut request) {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    let why = last.expect("two filters were tried");
    Err(match why.raw_os_error() {
        Some(libc::EPERM) => {
            PtpError::doing(format!("switch on the stamps of {}", interface.name))(why)
        }
        _ => PtpError::Unsupported(format!(
            "{} does not stamp PTP ({why}); use --stamps software",
            interface.name
        )),
    })
}
