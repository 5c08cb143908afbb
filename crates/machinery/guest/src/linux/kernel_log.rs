//! Messages in the kernel's log about programs whose signals found no room on their alternate
//! stacks: the kernel ends them with SIGSEGV, and reports the reason nowhere else.
//!
//! Under the clock this is more likely than natively, since a call that reads time or waits uses a
//! signal's frame of that stack while it lasts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Kernel log from some instant on.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// Opens the log from now on. Returns `None` if it may not be read.
    pub(crate) fn from_now_on() -> Option<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut file = options.open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// Returns the name of the last thread whose signals found no room since the last call.
    pub(crate) fn overflowed(&mut self) -> Option<String> {
        let mut last = None;
        // Each read returns one record.
        let mut record = [0; LONGEST_RECORD];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return last,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    last = who_overflowed(&text).map(str::to_owned).or(last);
                }
                // Records overwritten meanwhile are skipped.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return last,
            }
        }
    }
}

/// Parses `PRIORITY,NUMBER,TIME,…;signal: NAME[THREAD] overflowed sigaltstack`.
fn who_overflowed(record: &str) -> Option<&str> {
    let (_, text) = record.lines().next()?.split_once(';')?;
    let (name, _) = text
        .strip_suffix("] overflowed sigaltstack")?
        .rsplit_once('[')?;
    // Prefix of the kernel's subsystem, in kernels that add it.
    Some(name.strip_prefix("signal: ").unwrap_or(name))
}

/// More than the kernel's maximum (PRINTK_MESSAGE_MAX).
const LONGEST_RECORD: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_kernels_names_the_thread() {
        let record = "6,1339,5140900,-;small_stack[31] overflowed sigaltstack\n SUBSYSTEM=x\n";
        assert_eq!(who_overflowed(record), Some("small_stack"));
        let record = "6,1339,5140900,-;signal: a: [b][31] overflowed sigaltstack\n";
        assert_eq!(who_overflowed(record), Some("a: [b]"));
        for other in [
            "",
            ";",
            "6,1,2,-;a[1]: segfault at 0\n",
            "a[1] overflowed sigaltstack",
        ] {
            assert_eq!(who_overflowed(other), None, "{other:?}");
        }
    }
}
