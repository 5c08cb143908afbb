//! Events of an emulator's monitor (QMP) about stops and resumptions of its machine, which displace
//! the guest's counter.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde::Deserialize;

/// Calls `displaced` whenever the machine was stopped, resumed, reset or migrated. Returns when the
/// emulator ends.
///
/// The emulator sends the event of a stop when the machine has stopped. The stop is therefore known
/// before the guest continues to count, unless another client resumes the machine at once.
///
/// # Errors
/// Fails if the emulator does not speak QMP.
pub fn watch(mut stream: UnixStream, mut displaced: impl FnMut()) -> io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?);
    stream.write_all(b"{\"execute\":\"qmp_capabilities\"}\n")?;
    follow(lines, &mut displaced)
}

/// Implements [`watch`] for the lines that an emulator sends.
pub(crate) fn follow(mut lines: impl BufRead, displaced: &mut dyn FnMut()) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(MOST_LINE).read_line(&mut line)?;
        if read == 0 {
            return Ok(());
        }
        let said: MonitorLine = serde_json::from_str(&line).map_err(io::Error::other)?;
        if said.event.as_deref().is_some_and(moves_the_counter) {
            displaced();
        }
    }
}

/// Line of the monitor: an event, or another message.
#[derive(Debug, Deserialize)]
struct MonitorLine {
    event: Option<String>,
}

fn moves_the_counter(event: &str) -> bool {
    let events = [
        "STOP",
        "RESUME",
        "RESET",
        "SUSPEND",
        "SUSPEND_DISK",
        "WAKEUP",
        "MIGRATION",
    ];
    events.contains(&event)
}

/// Maximum length of a line in bytes. Lines of an emulator are far shorter.
const MOST_LINE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_seen_and_other_events_are_not() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut emulator = theirs.try_clone().unwrap();
        let said = [
            r#"{"QMP": {"version": {}, "capabilities": []}}"#,
            r#"{"return": {}}"#,
            r#"{"timestamp": {"seconds": 1}, "event": "STOP"}"#,
            r#"{"event": "RTC_CHANGE", "data": {"offset": 78}}"#,
            r#"{"event": "RESUME"}"#,
        ];
        for line in said {
            writeln!(emulator, "{line}").unwrap();
        }
        drop((emulator, theirs.shutdown(std::net::Shutdown::Write)));
        let mut seen = 0;
        watch(ours, || seen += 1).unwrap();
        assert_eq!(seen, 2);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"login: \n").unwrap();
        assert!(watch(ours, || ()).is_err());
    }
}
