//! Network card of a host at a simulated network, as guests see it: a clock that is opened as
//! `/dev/ptp0`, and hardware stamps of frames.
//!
//! The card's clock is a model ([`timeloom_clock::card`]). The component that simulates the network
//! knows when a frame passed the card ([`FrameStamps`](crate::FrameStamps)); the stamp is the reading of the card's
//! clock at that instant, whatever the machine did meanwhile. The image passes each call for the
//! card to the supervisor, and none reaches the kernel.
//!
//! The device is an empty file in memory that belongs to the card. A descriptor of that file in a
//! guest is the card's clock.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::clock::Clock;
use crate::linux::remote::Alleged;
use crate::phc;
use crate::supervise::asker::Asker;
use crate::supervise::notify::Answer;

/// Returns the descriptor of the card's clock that a clock identifier contains. Returns `None` if
/// the asker's host has no card, or the identifier contains something else.
pub(crate) fn device(asker: &Asker<'_>, clock: libc::clockid_t) -> Option<OwnedFd> {
    device_at(asker, !(clock >> 3))
}

fn device_at(asker: &Asker<'_>, descriptor: i32) -> Option<OwnedFd> {
    let card = asker.host().card()?;
    let file = File::from(asker.descriptor(descriptor).ok()?);
    card.is(&file).then(|| file.into())
}

/// Returns true if the descriptor was opened for writing. The kernel requires that for every change
/// of a clock device.
pub(crate) fn is_writable(device: impl AsFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(device);
    flags.is_ok_and(|flags| flags.intersects(rustix::fs::OFlags::RDWR | rustix::fs::OFlags::WRONLY))
}

/// Opens the card's clock for the asker. The device belongs to root, as usual.
pub(crate) fn open(asker: &Asker<'_>, flags: u64) -> Answer {
    const CAP_DAC_OVERRIDE: u64 = 1 << 1;
    let Some(card) = asker.host().card() else {
        return Answer::Error(libc::ENOENT);
    };
    match asker.has_capability(CAP_DAC_OVERRIDE) {
        Ok(true) => {}
        Ok(false) => return Answer::Error(libc::EACCES),
        Err(errno) => return Answer::Error(errno),
    }
    let writes = flags as i32 & libc::O_ACCMODE != libc::O_RDONLY;
    let path = format!("/proc/self/fd/{}", card.device.as_raw_fd());
    let opened = File::options().read(true).write(writes).open(path);
    match opened {
        Ok(file) => asker.give(file.as_fd(), flags as i32 & libc::O_CLOEXEC != 0),
        Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EMFILE)),
    }
}

/// Writes the time of the card's clock to the asker's memory.
pub(crate) fn time(
    clock: &Clock,
    asker: &Asker<'_>,
    id: libc::clockid_t,
    time: Alleged<[i64; 2]>,
) -> Result<i64, i32> {
    device(asker, id).ok_or(libc::EINVAL)?;
    let sample = clock.card_sample(asker.host(), libc::CLOCK_REALTIME);
    let shown_ns = sample.ok_or(libc::EINVAL)?.card_ns;
    let shown = [shown_ns.div_euclid(NS_PER_S), shown_ns.rem_euclid(NS_PER_S)];
    asker.write(time, &shown).map(|()| 0)
}

/// Returns the card's stamp of a frame, in nanoseconds; 0 if the card has not stamped the frame.
///
/// # Errors
/// Fails with EAGAIN if a sent frame has not left the host yet. The asker waits in virtual time and
/// asks again: this thread serves other programs, too, and the frame may leave only after a pause.
pub(crate) fn stamp_ns(
    clock: &Clock,
    asker: &Asker<'_>,
    kernel_ns: i64,
    (data, length): (Alleged<u8>, usize),
    is_sent: bool,
) -> Result<i64, i32> {
    let Some(card) = asker.host().card() else {
        return Ok(0);
    };
    let [transmits, receives] = *card.setting.lock();
    let mut bytes = [0; MOST_DATA];
    let bytes = &mut bytes[..length.min(MOST_DATA)];
    if !bytes.is_empty() {
        asker.read_all(data, bytes)?;
    }
    let at = match is_sent {
        true if transmits == TX_OFF => None,
        true => {
            let departure = card.stamps.departure(kernel_ns, bytes);
            departure.map_err(|_| libc::EAGAIN)?
        }
        false if receives == FILTER_NONE => None,
        false => card.stamps.arrival(kernel_ns, bytes),
    };
    let stamp_ns = at.and_then(|at| clock.card_stamp_ns(asker.host(), at));
    Ok(stamp_ns.unwrap_or(0))
}

/// Executes an `ioctl` that may be for the card or its clock.
///
/// # Errors
/// Fails with the error of the call; with ENOTTY if the call is for something else.
pub(crate) fn ioctl(
    clock: &Clock,
    asker: &Asker<'_>,
    (descriptor, command): (i32, u32),
    argument: Alleged<u8>,
) -> Result<i64, i32> {
    let card = asker.host().card().ok_or(libc::ENOTTY)?;
    match command {
        SIOCETHTOOL => {
            let data = request(asker, argument)?;
            let [command] = asker.read(Alleged::<[u32; 1]>::at(data))?;
            if command != ETHTOOL_GET_TS_INFO {
                return Err(libc::ENOTTY);
            }
            let mut info = [0u32; 11];
            info[0] = command;
            info[1] = STAMPING;
            info[3] = 1 << TX_OFF | 1 << TX_ON;
            info[7] = 1 << FILTER_NONE | 1 << FILTER_ALL;
            asker.write(Alleged::at(data), &info).map(|()| 0)
        }
        SIOCGHWTSTAMP | SIOCSHWTSTAMP => {
            let data = request(asker, argument)?;
            let mut setting = *card.setting.lock();
            if command == SIOCSHWTSTAMP {
                const CAP_NET_ADMIN: u64 = 1 << 12;
                if !asker.has_capability(CAP_NET_ADMIN)? {
                    return Err(libc::EPERM);
                }
                let [flags, transmits, receives] = asker.read(Alleged::<[u32; 3]>::at(data))?;
                if flags != 0 {
                    return Err(libc::EINVAL);
                }
                if transmits > TX_ON || receives > GREATEST_FILTER {
                    return Err(libc::ERANGE);
                }
                let receives = if receives == FILTER_NONE {
                    FILTER_NONE
                } else {
                    FILTER_ALL
                };
                setting = [transmits, receives];
                *card.setting.lock() = setting;
                card.stamps.set_stamping(setting != [TX_OFF, FILTER_NONE]);
            }
            let [transmits, receives] = setting;
            asker
                .write(Alleged::at(data), &[0, transmits, receives])
                .map(|()| 0)
        }
        _ => {
            device_at(asker, descriptor).ok_or(libc::ENOTTY)?;
            match command {
                PTP_CLOCK_GETCAPS | PTP_CLOCK_GETCAPS2 => {
                    let mut caps = [0i32; 20];
                    caps[0] = timeloom_clock::card::GREATEST_OFFSET_PPB as i32;
                    // Readings of the card and the host's clock at one instant.
                    caps[6] = 1;
                    let bytes: Vec<u8> = caps.iter().flat_map(|it| it.to_ne_bytes()).collect();
                    asker.write_all(argument, &bytes).map(|()| 0)
                }
                _ => phc::sample_card(clock, asker, command, argument),
            }
        }
    }
}

/// Reads a `struct ifreq`, and returns the address of its data.
///
/// # Errors
/// Fails with ENOTTY if the request is for another interface than the card's.
fn request(asker: &Asker<'_>, address: Alleged<u8>) -> Result<u64, i32> {
    let mut request = [0; 24];
    asker.read_all(address, &mut request)?;
    if !request.starts_with(INTERFACE) {
        return Err(libc::ENOTTY);
    }
    let data: [u8; 8] = request[16..].try_into().expect("eight bytes");
    Ok(u64::from_ne_bytes(data))
}

/// Name of the interface of a host at a simulated network, with the zero at its end.
const INTERFACE: &[u8] = b"eth0\0";
/// Number of bytes of a message by which its frame is found.
const MOST_DATA: usize = 256;
const NS_PER_S: i64 = 1_000_000_000;

// Constants of linux/sockios.h, linux/ethtool.h, linux/net_tstamp.h and linux/ptp_clock.h.
const SIOCETHTOOL: u32 = 0x8946;
const SIOCSHWTSTAMP: u32 = 0x89b0;
const SIOCGHWTSTAMP: u32 = 0x89b1;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const PTP_CLOCK_GETCAPS: u32 = 0x8050_3d01;
const PTP_CLOCK_GETCAPS2: u32 = 0x8050_3d0a;
/// Stamps of frames in both directions, by the card and by the kernel.
const STAMPING: u32 = 0x5f;
const TX_OFF: u32 = 0;
const TX_ON: u32 = 1;
const FILTER_NONE: u32 = 0;
const FILTER_ALL: u32 = 1;
/// HWTSTAMP_FILTER_NTP_ALL.
const GREATEST_FILTER: u32 = 15;
