//! Hardware clock of a network card (`/dev/ptp*`), compared with the system clock.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// PTP hardware clock (PHC), opened for reading.
#[derive(Debug)]
pub struct Phc {
    device: File,
}

/// Reading of the hardware clock between two readings of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcLook {
    /// CLOCK_REALTIME before the hardware clock was read, in nanoseconds.
    pub before_ns: i64,
    /// Reading of the hardware clock, in nanoseconds.
    pub phc_ns: i64,
    /// CLOCK_REALTIME after the hardware clock was read, in nanoseconds.
    pub after_ns: i64,
}

/// The kernel's `struct ptp_clock_time` (linux/ptp_clock.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ClockTime {
    s: i64,
    ns: u32,
    reserved: u32,
}

/// The kernel's `struct ptp_sys_offset_extended`.
#[repr(C)]
struct SysOffsetExtended {
    samples: u32,
    reserved: [u32; 3],
    stamps: [[ClockTime; 3]; 25],
}

/// The kernel's `struct ptp_sys_offset`.
#[repr(C)]
struct SysOffset {
    samples: u32,
    reserved: [u32; 3],
    stamps: [ClockTime; 51],
}

const _: () = assert!(size_of::<SysOffsetExtended>() == 16 + 25 * 3 * 16);
const _: () = assert!(size_of::<SysOffset>() == 16 + 51 * 16);

/// Number of samples that one reading requests; the one with the shortest interval is used.
const SAMPLES: u32 = 9;

impl Phc {
    /// Opens the clock's device file.
    ///
    /// # Errors
    /// Fails if there is no such device, or if access is denied.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            device: File::open(path)?,
        })
    }

    /// Takes several samples and returns the one with the shortest interval.
    /// PTP_SYS_OFFSET_EXTENDED is used if the device supports it, because it reads the system clock
    /// immediately around the register. The alternative is PTP_SYS_OFFSET.
    ///
    /// # Errors
    /// Fails if the device supports neither request, or is not a PTP clock.
    pub fn look(&self) -> std::io::Result<PhcLook> {
        let looks = self.extended().or_else(|_| self.plain())?;
        let closest = looks
            .into_iter()
            .min_by_key(|look| look.after_ns - look.before_ns);
        closest.ok_or_else(|| std::io::Error::other("the clock gave no reading"))
    }

    fn extended(&self) -> std::io::Result<Vec<PhcLook>> {
        let mut request = SysOffsetExtended {
            samples: SAMPLES,
            reserved: [0; 3],
            stamps: [[ClockTime::default(); 3]; 25],
        };
        // SAFETY: `request` has the type that this ioctl reads and writes, and lives until the call
        // returns.
        let done = unsafe { libc::ioctl(self.device.as_raw_fd(), EXTENDED, &raw mut request) };
        if done != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let look = |[before, phc, after]: &[ClockTime; 3]| PhcLook {
            before_ns: ns(before),
            phc_ns: ns(phc),
            after_ns: ns(after),
        };
        Ok(request.stamps[..SAMPLES as usize]
            .iter()
            .map(look)
            .collect())
    }

    fn plain(&self) -> std::io::Result<Vec<PhcLook>> {
        let mut request = SysOffset {
            samples: SAMPLES,
            reserved: [0; 3],
            stamps: [ClockTime::default(); 51],
        };
        // SAFETY: as above.
        let done = unsafe { libc::ioctl(self.device.as_raw_fd(), PLAIN, &raw mut request) };
        if done != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // The order of the timestamps is system, hardware, system, hardware, …, system.
        let all = &request.stamps[..2 * SAMPLES as usize + 1];
        let look = |three: &[ClockTime]| PhcLook {
            before_ns: ns(&three[0]),
            phc_ns: ns(&three[1]),
            after_ns: ns(&three[2]),
        };
        Ok(all.windows(3).step_by(2).map(look).collect())
    }
}

fn ns(time: &ClockTime) -> i64 {
    time.s
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(time.ns))
}

/// Request `_IOWR('=', 9, struct ptp_sys_offset_extended)`.
const EXTENDED: libc::Ioctl = request(3, 9, size_of::<SysOffsetExtended>());
/// Request `_IOW('=', 5, struct ptp_sys_offset)`.
const PLAIN: libc::Ioctl = request(1, 5, size_of::<SysOffset>());

/// Encodes an ioctl request in the generic form (asm-generic/ioctl.h); powerpc and mips have
/// another one.
const fn request(direction: u32, number: u32, size: usize) -> libc::Ioctl {
    ((direction << 30) | ((size as u32) << 16) | ((b'=' as u32) << 8) | number) as libc::Ioctl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernels_numbers_and_other_devices_refuse_them() {
        // These values are from a C program that includes linux/ptp_clock.h.
        assert_eq!((EXTENDED as u32, PLAIN as u32), (0xc4c0_3d09, 0x4340_3d05));
        let none = Phc::open(Path::new("/dev/null")).unwrap().look();
        assert_eq!(none.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn a_clock_of_this_machine_lies_between_the_two_readings() {
        let Ok(phc) = Phc::open(Path::new("/dev/ptp0")) else {
            return; // Not on this machine.
        };
        let look = phc.look().unwrap();
        assert!(
            look.before_ns <= look.after_ns && look.phc_ns > 0,
            "{look:?}"
        );
    }
}
