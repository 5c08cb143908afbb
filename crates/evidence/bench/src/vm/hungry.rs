//! Neighbours that take what they can get: guests that compute, receive or send without an
//! end, beside one that reads the time (QuartzV, Figures 11 and 12).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::BenchError;

/// What a neighbour is hungry for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hunger {
    Processor,
    Receive,
    Send,
}

impl Hunger {
    /// In the order of the paper's figures: (a), (b), (c).
    pub(super) const ALL: [Self; 3] = [Self::Processor, Self::Receive, Self::Send];

    /// The byte by which a neighbour tells its host what it wants.
    fn as_byte(self) -> u8 {
        match self {
            Self::Processor => b'p',
            Self::Receive => b'r',
            Self::Send => b's',
        }
    }
}

impl fmt::Display for Hunger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processor => "processor",
            Self::Receive => "receive",
            Self::Send => "send",
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

/// A neighbour's work, in a guest, until this is dropped.
pub(super) struct Working {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Working {
    /// Begins; `host` is whom it receives from or sends to ([`Feeder`]).
    pub(super) fn begin(hunger: Hunger, host: SocketAddr) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let stream = match hunger {
            Hunger::Processor => None,
            Hunger::Receive | Hunger::Send => {
                let mut stream = TcpStream::connect(host)?;
                stream.write_all(&[hunger.as_byte()])?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(LOOK))?;
                Some(stream)
            }
        };
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            let mut stream = stream;
            while !end.load(Relaxed) {
                match (&mut stream, hunger) {
                    (Some(stream), Hunger::Receive) => drop(stream.read(&mut buffer)),
                    (Some(stream), _) => drop(stream.write(&buffer)),
                    (None, _) => (0..100_000).for_each(|_| std::hint::spin_loop()),
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

/// The host's end: sends to whoever receives, takes from whoever sends, without an end.
pub(super) struct Feeder {
    pub(super) port: u16,
    moved: Arc<AtomicU64>,
}

impl Feeder {
    /// On loopback, where QEMU's network leads to; it serves for as long as this program
    /// runs.
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

    /// Bytes that have gone either way.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
}

/// Until the other end is gone.
fn feed(mut stream: TcpStream, moved: &AtomicU64) {
    let mut wanted = [0];
    if stream.read_exact(&mut wanted).is_err() {
        return;
    }
    let mut buffer = vec![0; PIECE];
    loop {
        let done = if wanted[0] == Hunger::Receive.as_byte() {
            stream.write(&buffer)
        } else {
            stream.read(&mut buffer)
        };
        match done {
            Ok(0) | Err(_) => return,
            Ok(length) => drop(moved.fetch_add(length as u64, Relaxed)),
        }
    }
}

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
            while hunger != Hunger::Processor && feeder.moved() - before < 10_000_000 {
                std::thread::yield_now();
            }
            drop(working);
        }
        assert!("lunch".parse::<Hunger>().is_err());
    }
}
