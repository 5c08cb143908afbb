//! Prevention of processor sleep states.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// Guard that keeps all processors of the machine out of sleep states with a wake-up latency:
/// Linux' "PM quality of service" for latency, as used by `cyclictest` and other programs with
/// deadlines. An idle processor then polls in a loop; programs notice only that they are woken
/// sooner.
#[derive(Debug)]
pub struct Awake {
    /// The kernel removes the request when the file is closed.
    _wish: File,
}

impl Awake {
    /// Returns the guard; `None` if the kernel does not permit or support it.
    pub fn keep() -> Option<Self> {
        let mut wish = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")
            .ok()?;
        // A 32-bit number of µs (the kernel's Documentation/power/pm_qos_interface.rst).
        wish.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Self { _wish: wish })
    }
}
