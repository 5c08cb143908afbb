//! Messages in the kernel's log about programs whose signals did not fit onto their alternate
//! stacks. The kernel ends such a program with SIGSEGV, and reports the reason nowhere else.
//!
//! This is more likely in a session than natively, since a call that reads time or waits occupies a
//! signal's frame on that stack while it lasts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Kernel log, from the instant at which it was opened.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// Opens the log for messages from now on. Returns `None` if this process may not read it.
    pub(crate) fn from_now_on() -> Option<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut file = options.open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// Returns the name of the last thread, since the last call, whose signal did not fit onto its
    /// stack.
    pub(crate) fn overflowed(&mut self) -> Option<String> {
        let mut last = None;
        // Each read returns one record.
        let mut record = [0; LONGEST_RECORD];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return last,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    last = overflowed_process(&text).map(str::to_owned).or(last);
                }
                // The kernel has overwritten records meanwhile. They are skipped.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return last,
            }
        }
    }
}

/// Parses `PRIORITY,NUMBER,TIME,…;signal: NAME[THREAD] overflowed sigaltstack`. Returns the name.
fn overflowed_process(record: &str) -> Option<&str> {
    let (_, text) = record.lines().next()?.split_once(';')?;
    let (name, _) = text
        .strip_suffix("] overflowed sigaltstack")?
        .rsplit_once('[')?;
    // The prefix names the kernel's subsystem, in kernels that add it.
    Some(name.strip_prefix("signal: ").unwrap_or(name))
}

/// Buffer size for a record, larger than the kernel's maximum (PRINTK_MESSAGE_MAX).
const LONGEST_RECORD: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_kernels_names_the_thread() {
        let record = "6,1339,5140900,-;small_stack[31] overflowed sigaltstack\n SUBSYSTEM=x\n";
        assert_eq!(overflowed_process(record), Some("small_stack"));
        let record = "6,1339,5140900,-;signal: a: [b][31] overflowed sigaltstack\n";
        assert_eq!(overflowed_process(record), Some("a: [b]"));
        for other in [
            "",
            ";",
            "6,1,2,-;a[1]: segfault at 0\n",
            "a[1] overflowed sigaltstack",
        ] {
            assert_eq!(overflowed_process(other), None, "{other:?}");
        }
    }
}
