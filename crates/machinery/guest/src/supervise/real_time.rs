//! Calls that are executed in real time: the check that they concern time, and the names under
//! which they are reported.
//!
//! Such a call starts an activity that continues without further calls that could be trapped: a
//! counter, the stream of a device, a limit that the kernel enforces.

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use timeloom_abi::calls::{IOCTLS, SOCKET_OPTIONS, TCP_CONGESTION, TCP_KEEPIDLE};

use crate::linux::remote::Alleged;
use crate::supervise::asker::Asker;
use crate::supervise::notify::Answer;

/// Call that may have to be executed in real time.
pub(crate) enum RealTime {
    /// Call that is executed in real time with any arguments.
    Call { name: &'static str },
    /// `ioctl` with one of the table's commands.
    Device {
        command: u32,
        argument: Alleged<Terminal>,
    },
    /// `setsockopt` of one of the table's options.
    SocketOption {
        socket: i32,
        place: (u32, u32),
        value: Alleged<u8>,
        length: u64,
    },
    /// Limit of processor time.
    CpuLimit { limit: Alleged<[i64; 2]> },
    /// `sched_setattr`.
    Schedule { attributes: Alleged<[u32; 2]> },
}

/// Pacing of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pacing<'a> {
    /// As the kernel does, by its own timers.
    ByTheKernel,
    /// By acknowledgements alone, because time skips over the kernel's timers.
    ByAcknowledgements {
        /// Name of the congestion control that is CUBIC in virtual time.
        cubic: Option<&'a str>,
    },
}

/// Outcome of a request for CUBIC if connections are paced by acknowledgements alone.
pub const PACED_ALIKE: &str = "not done: where time skips over the kernel's timers all connections \
                           are paced by acknowledgements alone (reno, about as fast as cubic)";

/// Outcome of a request for another congestion control, such as BBR, whose speed differs from that
/// of the assigned one.
pub const PACED_OTHERWISE: &str = "not done: where time skips over the kernel's timers all \
                                   connections are paced by acknowledgements alone (reno)";

/// Text to report, and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    /// `None` if there is nothing to report.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) answer: Answer,
}

impl RealTime {
    /// Returns `None` if the arguments request nothing that concerns time.
    pub(crate) fn verdict(self, asker: &Asker<'_>, pacing: Pacing<'_>) -> Option<Verdict> {
        match self {
            Self::Call { name } => Some(done(name)),
            Self::Device { command, argument } => {
                let ioctl = IOCTLS.iter().find(|ioctl| ioctl.command == command)?;
                if ioctl.is_refused {
                    return Some(Verdict {
                        outcome: Some("refused, since it would set the machine's"),
                        answer: Answer::Error(libc::EOPNOTSUPP),
                        ..done(ioctl.name)
                    });
                }
                let counts = match ioctl.only {
                    Some(_) => asker.read(argument).is_ok_and(|terminal| waits(&terminal)),
                    None => true,
                };
                counts.then_some(done(ioctl.name))
            }
            Self::SocketOption {
                socket,
                place,
                value,
                length,
            } => {
                let option = SOCKET_OPTIONS.iter().find(|option| option.place == place)?;
                match (*option, pacing) {
                    (TCP_CONGESTION, Pacing::ByAcknowledgements { cubic }) => {
                        congestion(asker, cubic, (socket, value, length))
                    }
                    (TCP_KEEPIDLE, Pacing::ByAcknowledgements { .. }) => {
                        let mut seconds = [0; 4];
                        asker.read_all(value, &mut seconds).ok()?;
                        let seconds = u32::from_ne_bytes(seconds);
                        if seconds > 0 {
                            asker.host().note_keep_alive(seconds);
                        }
                        None
                    }
                    (TCP_CONGESTION | TCP_KEEPIDLE, Pacing::ByTheKernel) => None,
                    _ => Some(done(option.name)),
                }
            }
            Self::CpuLimit { limit } => {
                let limit = asker.read(limit).ok()?;
                let limits = limit != [libc::RLIM_INFINITY as i64; 2];
                limits.then_some(done("setrlimit(RLIMIT_CPU, RLIMIT_RTTIME)"))
            }
            Self::Schedule { attributes } => {
                // Second word of `struct sched_attr`.
                let [_, policy] = asker.read(attributes).ok()?;
                (policy == SCHED_DEADLINE).then_some(done("sched_setattr(SCHED_DEADLINE)"))
            }
        }
    }
}

/// Answers a request for a congestion control where connections are paced by acknowledgements
/// alone. Returns `None` if the kernel is to execute it.
fn congestion(
    asker: &Asker<'_>,
    cubic: Option<&str>,
    (socket, value, length): (i32, Alleged<u8>, u64),
) -> Option<Verdict> {
    let answered = |outcome, answer| {
        Some(Verdict {
            name: TCP_CONGESTION.name,
            outcome,
            answer,
        })
    };
    // The kernel reads the length as an `int`, and the name up to its zero byte.
    let length = usize::try_from(length as i32)
        .ok()
        .filter(|length| *length > 0)?;
    let mut name = Vec::new();
    while name.len() < length.min(LONGEST_NAME) && name.last() != Some(&0) {
        let mut byte = [0];
        asker.read_all(value.after(name.len()), &mut byte).ok()?;
        name.extend(byte);
    }
    let name = name.strip_suffix(&[0]).unwrap_or(&name);
    let wanted = match (name, cubic) {
        (SELF_CLOCKING, _) => SELF_CLOCKING_NAME,
        (CUBIC, Some(cubic)) => cubic,
        // A program may copy the name that it has read from another connection.
        (name, Some(cubic)) if name == cubic.as_bytes() => cubic,
        // Reno takes its place, so that a wrong descriptor fails as natively.
        _ => SELF_CLOCKING_NAME,
    };
    match select(asker, socket, wanted) {
        Ok(()) => asker.host().note_congestion_request(),
        Err(error @ (libc::EBADF | libc::ENOTSOCK | libc::ENOPROTOOPT | libc::EOPNOTSUPP)) => {
            return answered(None, Answer::Error(error));
        }
        // The call was interrupted, and the program makes it again.
        Err(libc::EINTR) => return answered(None, Answer::Error(libc::EINTR)),
        Err(_) => return answered(Some(PACED_OTHERWISE), Answer::Value(0)),
    }
    let outcome = match name {
        SELF_CLOCKING => None,
        _ if wanted != SELF_CLOCKING_NAME => None,
        CUBIC => Some(PACED_ALIKE),
        _ => Some(PACED_OTHERWISE),
    };
    answered(outcome, Answer::Value(0))
}

/// Selects a congestion control for a socket of the asking thread. The error is a number.
fn select(asker: &Asker<'_>, socket: i32, name: &str) -> Result<(), i32> {
    let socket = asker.descriptor(socket)?;
    set_tcp_congestion(&socket, name).map_err(Errno::raw_os_error)
}

fn done(name: &'static str) -> Verdict {
    Verdict {
        name,
        outcome: Some("done in real time"),
        answer: Answer::Continue,
    }
}

/// The kernel's `struct termios`, the common part of both of its versions: four words of flags, a
/// byte, and the characters.
type Terminal = [u32; 9];

/// Returns true if a read of the terminal may end because of VTIME.
fn waits(terminal: &Terminal) -> bool {
    const LOCAL_FLAGS: usize = 3;
    const CHARACTERS: usize = 17;
    let place = CHARACTERS + libc::VTIME;
    let tenths = terminal[place / 4].to_ne_bytes()[place % 4];
    terminal[LOCAL_FLAGS] & libc::ICANON == 0 && tenths != 0
}

const SCHED_DEADLINE: u32 = 6;

/// Congestion control without time measurements. Hosts use it if computing takes no time or if time
/// skips.
const SELF_CLOCKING_NAME: &str = "reno";
const SELF_CLOCKING: &[u8] = SELF_CLOCKING_NAME.as_bytes();
/// Congestion control for which there is a replacement in virtual time.
const CUBIC: &[u8] = b"cubic";
/// Maximum length of the name of a congestion control (TCP_CA_NAME_MAX minus the final zero).
const LONGEST_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_waits_by_time_only_where_it_is_asked_to() {
        let terminal = |local, tenths| {
            // Byte 22 in total: both architectures are little-endian.
            let characters = u32::from_le_bytes([0, 0, tenths, 0]);
            [0, 0, 0, local, 0, characters, 0, 0, 0]
        };
        assert!(waits(&terminal(0, 5)));
        assert!(!waits(&terminal(0, 0)));
        assert!(!waits(&terminal(libc::ICANON, 5)));
    }
}
