//! What a slave does to the machine's clock: nothing, unless asked.

use std::io;

use timeloom_time::Duration;

/// A clock that can be disciplined.
pub trait Steering: Send {
    /// Adds `length`, once.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn step(&mut self, length: Duration) -> io::Result<()>;
    /// Runs it this many parts per billion faster than its oscillator.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn frequency(&mut self, ppb: f64) -> io::Result<()>;
}

/// The machine's civil clock, which all its programs live by.
#[derive(Debug)]
pub struct SystemClock(());

impl SystemClock {
    /// Takes the clock in hand. Nothing is changed yet.
    ///
    /// # Errors
    /// Without CAP_SYS_TIME.
    pub fn take() -> io::Result<Self> {
        // Reading needs no right; setting the frequency to what it is does.
        let mut now = blank();
        adjust(&mut now)?;
        let mut same = blank();
        same.modes = libc::ADJ_FREQUENCY;
        same.freq = now.freq;
        adjust(&mut same)?;
        Ok(Self(()))
    }
}

impl Steering for SystemClock {
    fn step(&mut self, length: Duration) -> io::Result<()> {
        adjust(&mut step(length))
    }

    fn frequency(&mut self, ppb: f64) -> io::Result<()> {
        adjust(&mut frequency(ppb))
    }
}

fn blank() -> libc::timex {
    // SAFETY: plain old data; zero is a valid value of every field.
    unsafe { std::mem::zeroed() }
}

fn adjust(request: &mut libc::timex) -> io::Result<()> {
    // SAFETY: a complete timex, alive through the call.
    let answer = unsafe { libc::clock_adjtime(libc::CLOCK_REALTIME, std::ptr::from_mut(request)) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// With ADJ_NANO the kernel reads `tv_usec` as nanoseconds, from 0 up also
/// when the seconds are negative.
fn step(length: Duration) -> libc::timex {
    let mut request = blank();
    request.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
    request.time.tv_sec = length.as_ns().div_euclid(1_000_000_000);
    request.time.tv_usec = length.as_ns().rem_euclid(1_000_000_000);
    request
}

/// Frequencies are parts per million, 16 bits after the point; the kernel
/// takes at most 500 of them.
fn frequency(ppb: f64) -> libc::timex {
    let mut request = blank();
    request.modes = libc::ADJ_FREQUENCY;
    request.freq = (ppb.clamp(-500_000.0, 500_000.0) * 65.536).round() as i64;
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_is_asked_for() {
        let back = step(Duration::from_ns(-1));
        assert_eq!((back.time.tv_sec, back.time.tv_usec), (-1, 999_999_999));
        let on = step(Duration::from_ns(1_500_000_000));
        assert_eq!((on.time.tv_sec, on.time.tv_usec), (1, 500_000_000));
        assert_eq!(frequency(1000.0).freq, 65_536);
        assert_eq!(frequency(-1e9).freq, -500 * 65_536);
    }
}
