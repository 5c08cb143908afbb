//! Unpredictable random numbers of the kernel.

use std::fs::File;
use std::io::Read;

use timeloom_ptp::RandomSource;

use crate::PtpError;

/// Random numbers of the kernel, read in small batches.
#[derive(Debug)]
pub struct KernelRandom {
    source: File,
    lot: [u8; 256],
    used: usize,
}

impl KernelRandom {
    /// Opens the kernel's random device.
    ///
    /// # Errors
    /// Fails if `/dev/urandom` cannot be opened.
    pub fn open() -> Result<Self, PtpError> {
        let source = File::open("/dev/urandom").map_err(PtpError::file("/dev/urandom"))?;
        Ok(Self {
            source,
            lot: [0; 256],
            used: 256,
        })
    }

    /// Returns 32 octets, for a key.
    pub fn key(&mut self) -> [u8; 32] {
        std::array::from_fn(|_| self.next_u64() as u8)
    }
}

impl RandomSource for KernelRandom {
    fn next_u64(&mut self) -> u64 {
        if self.used == self.lot.len() {
            self.source
                .read_exact(&mut self.lot)
                .expect("/dev/urandom never ends");
            self.used = 0;
        }
        let (taken, rest) = self.lot[self.used..]
            .split_first_chunk::<8>()
            .expect("lots are whole words");
        debug_assert!(rest.len().is_multiple_of(8));
        self.used += 8;
        u64::from_ne_bytes(*taken)
    }
}
