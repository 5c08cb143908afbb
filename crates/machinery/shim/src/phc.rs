//! PTP hardware clocks (`/dev/ptpN`): they show the session's time, as measured by the device.
//!
//! The kernel reads the device, and the machine's clocks before and after. The supervisor knows the
//! session's time at those instants. It converts the device's reading to true virtual time, and the
//! readings of the machine's clocks to the clocks of this host.

use timeloom_abi::calls::{CARD_IOCTLS, ImageCall};

use crate::abi::{NS_PER_S, Timespec};
use crate::clock::{monotonic_ns, page};
use crate::sys::{ask, errno, nr, syscall};

/// Returns true if the clock is a device. Its identifier then contains a file descriptor.
pub(crate) fn is_device(id: u32) -> bool {
    (id as i32) < 0 && id & 3 == CLOCK_BY_DESCRIPTOR
}

/// Handles `clock_gettime(id, out)` of a hardware clock.
pub(crate) fn clock_gettime(id: u32, out: *mut Timespec) -> isize {
    let before_ns = monotonic_ns();
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::CLOCK_GETTIME, [id as usize, out as usize, 0, 0, 0, 0]) };
    if result == errno::EINVAL && page().has_card() {
        return crate::card::clock_gettime(id, out);
    }
    if result != 0 || page().is_released() {
        return result;
    }
    let wall_ns = before_ns.wrapping_add(monotonic_ns().wrapping_sub(before_ns) / 2);
    // SAFETY: the kernel has just written there.
    let device = unsafe { out.read_unaligned() };
    let device_ns = device.s.wrapping_mul(NS_PER_S).wrapping_add(device.ns);
    let wall_ns = wall_ns as i64;
    let shown = ask(ImageCall::PhcTime { device_ns, wall_ns });
    if shown < 0 {
        return errno::EOPNOTSUPP;
    }
    // SAFETY: as above.
    unsafe { out.write_unaligned(Timespec::from_ns(shown as i64)) };
    0
}

/// Handles `ioctl(fd, command, argument)` for the commands that compare a hardware clock with the
/// machine's clocks.
pub(crate) fn ioctl(args: [usize; 6]) -> isize {
    if page().has_card()
        && let Some(result) = crate::card::ioctl(args)
    {
        return result;
    }
    // SAFETY: the program's own call; the kernel checks the pointer.
    let result = unsafe { syscall(nr::IOCTL, args) };
    if result < 0 {
        return result;
    }
    let (command, stamps) = (args[1] as u32, args[2]);
    if CARD_IOCTLS.contains(&command) {
        return result;
    }
    match ask(ImageCall::PhcStamps { command, stamps }) {
        0 => result,
        // An error is better than the machine's time: programs have a fallback.
        _ => errno::EOPNOTSUPP,
    }
}

/// CLOCKFD: value of the lowest bits of an identifier that contains a file descriptor.
const CLOCK_BY_DESCRIPTOR: u32 = 3;
