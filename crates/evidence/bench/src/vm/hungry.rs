//! Greedy neighbours: guests that compute, receive or send without end, next to a guest that reads
//! the time (QuartzV, Figures 11 and 12). The host may limit the rate of their traffic (Figures 13
//! and 14).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// Kind of load that a neighbour generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hunger {
    Processor,
    Receive,
    Send,
    /// Like [`Self::Receive`], with the rate limited to [`LIMIT`].
    ReceiveLimited,
    /// Like [`Self::Send`], with the rate limited to [`LIMIT`].
    SendLimited,
}

impl Hunger {
    /// All kinds, in the order of the paper's figures: 11 (a) to (c), 13 (a) and (b).
    pub(super) const ALL: [Self; 5] = [
        Self::Processor,
        Self::Receive,
        Self::Send,
        Self::ReceiveLimited,
        Self::SendLimited,
    ];

    /// Returns the byte by which a neighbour informs its host of the kind of load.
    fn as_byte(self) -> u8 {
        match self {
            Self::Processor => b'p',
            Self::Receive => b'r',
            Self::Send => b's',
            Self::ReceiveLimited => b'R',
            Self::SendLimited => b'S',
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_byte() == byte)
    }

    fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::ReceiveLimited)
    }

    fn is_limited(self) -> bool {
        matches!(self, Self::ReceiveLimited | Self::SendLimited)
    }
}

impl fmt::Display for Hunger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processor => "processor",
            Self::Receive => "receive",
            Self::Send => "send",
            Self::ReceiveLimited => "receive_limited",
            Self::SendLimited => "send_limited",
        })
    }
}

impl FromStr for Hunger {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let named = |it: &Self| it.to_string() == text;
        Self::ALL.into_iter().find(named).ok_or(())
    }
}

/// Load that a neighbour generates until this value is dropped.
pub(super) struct Working {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Working {
    /// Starts the load. `host` is the address of the [`Feeder`], from which it receives or to which
    /// it sends.
    pub(super) fn begin(hunger: Hunger, host: SocketAddr) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let stream = if hunger == Hunger::Processor {
            None
        } else {
            let mut stream = TcpStream::connect(host)?;
            stream.write_all(&[hunger.as_byte()])?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
            Some(stream)
        };
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            let mut stream = stream;
            while !end.load(Relaxed) {
                match &mut stream {
                    Some(stream) if hunger.receives() => drop(stream.read(&mut buffer)),
                    Some(stream) => drop(stream.write(&buffer)),
                    None => (0..100_000).for_each(|_| std::hint::spin_loop()),
                }
            }
        });
        Ok(Self {
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Server on the host that sends to receivers and receives from senders, without end.
pub(super) struct Feeder {
    pub(super) port: u16,
    moved: Arc<AtomicU64>,
}

impl Feeder {
    /// Starts the server on loopback, which guests reach over QEMU's network. It runs until the
    /// program ends.
    pub(super) fn start() -> Result<Self, BenchError> {
        let failed = |error| BenchError::system("listening for hungry guests")(error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let moved = Arc::new(AtomicU64::new(0));
        let counted = moved.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = counted.clone();
                std::thread::spawn(move || feed(stream, &counted));
            }
        });
        Ok(Self { port, moved })
    }

    /// Returns the number of bytes transferred so far, in both directions together.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
}

/// Serves one connection until it is closed.
fn feed(mut stream: TcpStream, moved: &AtomicU64) {
    let mut wanted = [0];
    if stream.read_exact(&mut wanted).is_err() {
        return;
    }
    let Some(hunger) = Hunger::of_byte(wanted[0]) else {
        return;
    };
    let mut buffer = vec![0; PIECE];
    let mut next_at = Instant::now();
    loop {
        let done = if hunger.receives() {
            stream.write(&buffer)
        } else {
            stream.read(&mut buffer)
        };
        let length = match done {
            Ok(0) | Err(_) => return,
            Ok(length) => length as u64,
        };
        moved.fetch_add(length, Relaxed);
        if hunger.is_limited() {
            // Unused rate is lost: it does not accumulate for a burst.
            let now = Instant::now();
            let takes = Duration::from_nanos(length * 1_000_000_000 / LIMIT);
            next_at = next_at.max(now) + takes;
            std::thread::sleep(next_at - now);
        }
    }
}

/// Limit in bytes per second, for each neighbour and direction: 2 MB/s as in the paper's section
/// V-D.
const LIMIT: u64 = 2_000_000;

const PIECE: usize = 64 * 1024;
const LOOK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_fed_and_drained_until_they_end() {
        let feeder = Feeder::start().unwrap();
        let host = SocketAddr::from(([127, 0, 0, 1], feeder.port));
        for hunger in Hunger::ALL {
            assert_eq!(hunger.to_string().parse(), Ok(hunger));
            let before = feeder.moved();
            let working = Working::begin(hunger, host).unwrap();
            let enough = if hunger.is_limited() {
                1_000_000
            } else {
                10_000_000
            };
            while hunger != Hunger::Processor && feeder.moved() - before < enough {
                std::thread::yield_now();
            }
            drop(working);
        }
        assert!("lunch".parse::<Hunger>().is_err());
    }

    #[test]
    fn a_limit_is_kept_both_ways() {
        for hunger in [Hunger::ReceiveLimited, Hunger::SendLimited] {
            let feeder = Feeder::start().unwrap();
            let host = SocketAddr::from(([127, 0, 0, 1], feeder.port));
            let begun = Instant::now();
            let _working = Working::begin(hunger, host).unwrap();
            while feeder.moved() < 2_000_000 {
                std::thread::yield_now();
            }
            // The count is read before the clock, so it can only have grown since.
            let moved = feeder.moved();
            let most = LIMIT as f64 * begun.elapsed().as_secs_f64();
            // A piece is counted before the server waits because of the limit.
            assert!(moved as f64 <= most + PIECE as f64, "{hunger}: {moved}");
        }
    }
}
