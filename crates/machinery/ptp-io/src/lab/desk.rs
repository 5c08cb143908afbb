//! Requests for attacks on a running laboratory, over a socket in its directory.
//!
//! Any process that may write to the socket may request an attack, and only a laboratory with a
//! tapped cable can be attacked. There is one attack at a time. It ends after the requested
//! duration, when the requester's connection ends, or when the laboratory ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration as StdDuration;

use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};
use timeloom_sys::wall_now;
use timeloom_time::Duration;

use super::attack::{Attack, Orders};
use super::{Lines, report};
use crate::{PtpError, Wake};

/// Result of an attack, with the reactions of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackResult {
    /// Number of messages that the attacker changed or created.
    pub attacked: u64,
    /// Number of violations during the attack, by `who: what and where`.
    pub violations: BTreeMap<String, usize>,
}

/// Request for an attack, sent as a line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    attack: String,
    for_ns: i64,
}

/// Answer to a request, sent as a line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Done(AttackResult),
    Refused(String),
}

/// Maximum length of a request, in bytes.
const REQUEST_AT_MOST: u64 = 256;
/// Maximum duration of an attack.
const ATTACK_AT_MOST: Duration = Duration::from_s(3_600);
/// Time after an attack during which its effects may still be reported, such as the verdict on a
/// Sync.
const TRACES: StdDuration = StdDuration::from_millis(500);
const LOOK_EVERY: StdDuration = StdDuration::from_millis(20);

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("attack.sock")
}

/// Attacks the laboratory that runs in `directory`, for the duration `length`.
///
/// # Errors
/// Fails if no laboratory runs there, if it has no tapped cable, or if the attack is not one on a
/// cable.
pub fn attack(
    directory: &Path,
    attack: Attack,
    length: Duration,
) -> Result<AttackResult, PtpError> {
    let path = socket_in(directory);
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => PtpError::usage(format!(
            "no laboratory with a tapped wire runs in {}: start `timeloom ptp lab --tap HOP` first, with this directory as --out",
            directory.display()
        )),
        _ => PtpError::file(&path)(error),
    })?;
    let request = Request {
        attack: attack.name().to_owned(),
        for_ns: length.as_ns(),
    };
    let mut line = serde_json::to_string(&request).expect("plain data");
    line.push('\n');
    stream
        .write_all(line.as_bytes())
        .map_err(PtpError::file(&path))?;
    let mut text = String::new();
    BufReader::new(stream)
        .read_line(&mut text)
        .map_err(PtpError::file(&path))?;
    match serde_json::from_str(&text) {
        Ok(Answer::Done(attacked)) => Ok(attacked),
        Ok(Answer::Refused(why)) => Err(PtpError::usage(why)),
        Err(_) => Err(PtpError::file(&path)(io::Error::other(
            "the laboratory ended before it answered",
        ))),
    }
}

/// Thread that accepts requests while the laboratory runs. Dropping the value ends the attack under
/// way and removes the socket.
pub(super) struct Desk {
    path: PathBuf,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    pub(super) fn open(directory: &Path, orders: Orders, lines: Lines) -> Result<Self, PtpError> {
        let path = socket_in(directory);
        if UnixStream::connect(&path).is_ok() {
            return Err(PtpError::usage(format!(
                "another laboratory runs in {}: give this one its own --out",
                directory.display()
            )));
        }
        // The file may be left from a laboratory that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(PtpError::file(&path))?;
        listener
            .set_nonblocking(true)
            .map_err(PtpError::file(&path))?;
        let wake = Wake::new().map_err(PtpError::doing("open a socket pair"))?;
        let told = wake.clone();
        let thread = spawn(move || serve(&listener, &orders, &lines, &told));
        Ok(Self {
            path,
            wake,
            thread: Some(thread),
        })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, orders: &Orders, lines: &Lines, wake: &Wake) {
    while !wake.is_stopped() {
        match listener.accept() {
            // A requester that has disconnected needs no answer.
            Ok((stream, _)) => drop(answer(stream, orders, lines, wake)),
            Err(_) => sleep(LOOK_EVERY),
        }
    }
}

fn answer(mut stream: UnixStream, orders: &Orders, lines: &Lines, wake: &Wake) -> io::Result<()> {
    // A connection that sends nothing must not block others.
    stream.set_read_timeout(Some(StdDuration::from_secs(1)))?;
    stream.set_write_timeout(Some(StdDuration::from_secs(1)))?;
    let mut text = String::new();
    BufReader::new((&stream).take(REQUEST_AT_MOST)).read_line(&mut text)?;
    let answer = match read(&text) {
        Ok((attack, length)) => {
            let seen = lines.with(|lines| lines.len());
            let before = orders.attacked();
            let attacked = orders.attack(attack);
            let end = wall_now() + length;
            while attacked.is_ok() && wall_now() < end && !wake.is_stopped() && is_there(&stream) {
                sleep(LOOK_EVERY);
            }
            let ceased = orders.cease();
            sleep(TRACES);
            match attacked.and(ceased) {
                Ok(()) => Answer::Done(AttackResult {
                    attacked: orders.attacked() - before,
                    violations: lines.with(|lines| report::violations(&lines[seen..])),
                }),
                Err(error) => Answer::Refused(error.to_string()),
            }
        }
        Err(refused) => Answer::Refused(refused.to_string()),
    };
    let mut line = serde_json::to_string(&answer).expect("plain data");
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Reason why a request is refused.
#[derive(Debug, thiserror::Error)]
enum AttackRefusal {
    #[error("a request is a line with `attack` and `for_ns`: {0}")]
    Form(#[from] serde_json::Error),
    #[error(transparent)]
    Unknown(#[from] PtpError),
    #[error(
        "the attack `lie` is one of a hop, not of a wire: start the laboratory with `--attack \
        lie@HOP`"
    )]
    Lie,
    #[error("the duration of an attack must be positive and at most one hour")]
    Length,
}

fn read(text: &str) -> Result<(Attack, Duration), AttackRefusal> {
    let request: Request = serde_json::from_str(text)?;
    let attack = Attack::named(&request.attack)?;
    if attack == Attack::Lie {
        return Err(AttackRefusal::Lie);
    }
    let length = Duration::from_ns(request.for_ns);
    if length <= Duration::ZERO || length > ATTACK_AT_MOST {
        return Err(AttackRefusal::Length);
    }
    Ok((attack, length))
}

/// Returns true if the peer has not closed the connection.
fn is_there(stream: &UnixStream) -> bool {
    let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    !matches!(recv(stream, &mut [0u8], look), Ok((0, _)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_and_sensible_requests_are_taken() {
        let good = r#"{"attack":"flood","for_ns":1000}"#;
        let taken = read(good).expect("it is one");
        assert_eq!(taken, (Attack::Flood, Duration::from_ns(1000)));
        for (text, why) in [
            ("", "a line with"),
            (r#"{"attack":"flood"}"#, "for_ns"),
            (r#"{"attack":"flood","for_ns":1,"more":1}"#, "more"),
            (r#"{"attack":"rain","for_ns":1}"#, "no attack `rain`"),
            (r#"{"attack":"lie","for_ns":1}"#, "one of a hop"),
            (r#"{"attack":"flood","for_ns":0}"#, "must be positive"),
            (r#"{"attack":"flood","for_ns":9000000000000}"#, "one hour"),
        ] {
            let refused = read(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
