//! What the kernel's log says of programs whose signals found no room on their alternate
//! stacks: it ends them with SIGSEGV, and says why nowhere else.
//!
//! Under the clock that is nearer than natively, since a call that tells time or waits takes
//! a signal's frame of that stack while it lasts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The log from some instant on.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// From now on. `None` where it may not be read.
    pub(crate) fn from_now_on() -> Option<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut file = options.open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// The name of the thread whose signals found no room last, since it was asked last.
    pub(crate) fn overflowed(&mut self) -> Option<String> {
        let mut last = None;
        // A read is a record.
        let mut record = [0; LONGEST_RECORD];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return last,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    last = who_overflowed(&text).map(str::to_owned).or(last);
                }
                // What was overwritten meanwhile is skipped.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return last,
            }
        }
    }
}

/// `PRIORITY,NUMBER,TIME,…;signal: NAME[THREAD] overflowed sigaltstack`
fn who_overflowed(record: &str) -> Option<&str> {
    let (_, text) = record.lines().next()?.split_once(';')?;
    let (name, _) = text
        .strip_suffix("] overflowed sigaltstack")?
        .rsplit_once('[')?;
    // Which part of the kernel says it, where it says that.
    Some(name.strip_prefix("signal: ").unwrap_or(name))
}

/// As the kernel has it (PRINTK_MESSAGE_MAX), and more.
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
