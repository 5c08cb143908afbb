//! Reads of this process's own memory at addresses that may be unmapped.

use std::io::{self, Read};
use std::os::fd::AsRawFd;

/// Maximum number of bytes that a pipe accepts in one atomic write.
const PIPE_BUF: usize = 512;

/// Copies up to 512 bytes at `address` of this process's memory to `into`. Returns false if the
/// memory there is not readable.
///
/// The kernel copies the bytes into a pipe, and returns an error where a load instruction would end
/// the process. This needs neither a privilege nor /proc.
///
/// # Errors
/// Fails if no pipe can be created.
///
/// # Panics
/// Panics if `into` is longer than 512 bytes.
pub fn copy_own(address: u64, into: &mut [u8]) -> io::Result<bool> {
    assert!(into.len() <= PIPE_BUF, "{} bytes", into.len());
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: the kernel checks the address, and only reads from it.
    let written = unsafe {
        libc::write(
            writer.as_raw_fd(),
            address as *const libc::c_void,
            into.len(),
        )
    };
    match usize::try_from(written) {
        Ok(length) if length == into.len() => reader.read_exact(into).map(|()| true),
        Ok(_) => Ok(false),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(false),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_copied_and_unmapped_memory_is_refused() {
        let there = [7u8; 24];
        let mut copy = [0; 24];
        assert!(copy_own(there.as_ptr() as u64, &mut copy).unwrap());
        assert_eq!(copy, there);
        assert!(!copy_own(0x1000, &mut copy).unwrap());
        assert!(!copy_own(u64::MAX - 4095, &mut copy).unwrap());
    }
}
