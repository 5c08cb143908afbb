//! Processors that do not fall asleep.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// While this lives, no processor of the machine sleeps deeper than that it
/// could run at once: Linux' "PM quality of service" for latency, as `cyclictest`
/// and others that must be in time use it. An idle processor then turns in a
/// loop; whoever has work for it does not notice, but for being served sooner.
#[derive(Debug)]
pub struct Awake {
    /// The kernel takes the wish back when it is closed.
    _wish: File,
}

impl Awake {
    /// `None` where that is not allowed, or there is no such thing.
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
