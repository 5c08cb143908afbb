//! Keeping processors out of sleep states.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// Guard that keeps all processors of the machine out of sleep states with a wake-up latency.
///
/// It uses the kernel's "PM quality of service" interface for latency, as do `cyclictest` and other
/// programs with deadlines. While the guard exists, an idle processor polls in a loop. Programs
/// notice only that the kernel wakes them sooner.
#[derive(Debug)]
pub struct Awake {
    /// Open file that holds the request; the kernel withdraws the request when the file is closed.
    _wish: File,
}

impl Awake {
    /// Requests a latency of zero and returns the guard; `None` if the kernel does not permit or
    /// does not support the request.
    pub fn keep() -> Option<Self> {
        let mut wish = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")
            .ok()?;
        // The format is a 32-bit number of µs (the kernel's
        // Documentation/power/pm_qos_interface.rst).
        wish.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Self { _wish: wish })
    }
}
