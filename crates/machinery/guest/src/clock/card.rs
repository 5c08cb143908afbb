//! Network card of a host: the source of its stamps, and the file that represents its clock.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use timeloom_clock::host::HostOscillator;
use timeloom_time::{Duration, Instant, Virtual};

/// Deviations of a card's clock from an ideal one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CardOptions {
    /// Oscillator that the card counts.
    pub oscillator: HostOscillator,
    /// Seed of the random numbers of the oscillator.
    pub seed: u64,
    /// The card's clock minus true civil time at the start.
    pub offset: Duration,
}

/// Answer about a frame that has not departed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotYet;

/// Instants at which frames passed a card.
pub trait FrameStamps: Send + Sync {
    /// Starts or ends the stamping of frames.
    fn set_stamping(&self, on: bool);

    /// Returns the instant at which a frame arrived that the kernel stamped with `kernel_ns` of the
    /// machine's CLOCK_REALTIME, and of which a program received `data`.
    fn arrival(&self, kernel_ns: i64, data: &[u8]) -> Option<Instant<Virtual>>;

    /// Returns the instant at which a frame departed that begins with `data`, and that the kernel
    /// stamped with `kernel_ns`; `None` if the card does not stamp it. Must not wait.
    ///
    /// # Errors
    /// Fails if the frame has not departed yet.
    fn departure(&self, kernel_ns: i64, data: &[u8]) -> Result<Option<Instant<Virtual>>, NotYet>;
}

/// Card of a host.
pub(crate) struct Card {
    /// File that represents the card's clock.
    pub(crate) device: File,
    pub(crate) stamps: Arc<dyn FrameStamps>,
    /// Type of transmit stamps and filter of receive stamps, as a program has set them.
    pub(crate) setting: Mutex<[u32; 2]>,
}

impl Card {
    pub(crate) fn new(stamps: Arc<dyn FrameStamps>) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let device = memfd_create(c"timeloom-card", flags)?;
        // Programs store nothing in it, and one that has it for reading cannot open it for writing.
        fchmod(&device, Mode::RUSR | Mode::WUSR)?;
        let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL;
        fcntl_add_seals(&device, seals)?;
        Ok(Self {
            device: device.into(),
            stamps,
            setting: Mutex::new([0; 2]),
        })
    }

    /// Returns true if the file is the card's clock.
    pub(crate) fn is(&self, file: &File) -> bool {
        let place = |file: &File| file.metadata().map(|it| (it.dev(), it.ino())).ok();
        place(&self.device).is_some_and(|own| place(file) == Some(own))
    }
}
