//! Authenticated channel over a byte stream: each side proves to its peer that it has the key.
//!
//! Each side first sends a random number. The keys of the conversation are derived from both
//! numbers, so a conversation cannot be replayed. Then follow frames, each with its kind, length,
//! content and tag. The tag is a keyed BLAKE3 hash over the other fields and the frame's number.
//! The content is not encrypted. A frame without a valid tag ends the conversation.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use timeloom_sys::seal::{SealKey, TAG_BYTES, draw};

use crate::placed::secret::Secret;

/// Sending half of a channel.
#[derive(Debug)]
pub(crate) struct Sender<S = TcpStream> {
    stream: S,
    key: SealKey,
    count: u64,
}

/// Receiving half of a channel.
#[derive(Debug)]
pub(crate) struct Receiver<S = TcpStream> {
    stream: S,
    key: SealKey,
    count: u64,
}

/// Side of the channel. The run opens the conversation; the agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Run,
    Agent,
}

/// Content of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Message(Vec<u8>),
    Bytes(Vec<u8>),
}

/// Exchanges greetings with the peer; the whole exchange takes at most `patience`.
///
/// # Errors
/// Returns an error if the peer has another key, speaks another protocol, or is silent for too
/// long.
pub(crate) fn greet(
    stream: TcpStream,
    side: Side,
    secret: &Secret,
    patience: Duration,
) -> io::Result<(Sender, Receiver)> {
    let greeted = exchange_greetings(stream, side, secret, patience);
    greeted.map_err(|error| {
        let what = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("the peer sent no greeting within {} s", patience.as_secs())
            }
            ErrorKind::UnexpectedEof => {
                "the peer closed the connection before it proved its key".to_owned()
            }
            _ => return error,
        };
        io::Error::new(error.kind(), what)
    })
}

fn exchange_greetings(
    stream: TcpStream,
    side: Side,
    secret: &Secret,
    patience: Duration,
) -> io::Result<(Sender, Receiver)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience))?;
    let mut timed = UntilDeadline {
        stream: &stream,
        deadline: Instant::now() + patience,
    };
    let mine = draw()?;
    let mut greeting = MAGIC.to_vec();
    greeting.extend_from_slice(&mine);
    (&stream).write_all(&greeting)?;
    let mut magic = [0; MAGIC.len()];
    timed.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(bad(
            "the peer speaks another protocol version, or is not Timeloom",
        ));
    }
    let mut theirs = [0; 32];
    timed.read_exact(&mut theirs)?;
    let nonces = match side {
        Side::Run => [&mine, &theirs],
        Side::Agent => [&theirs, &mine],
    };
    let [to_agent, to_run] =
        ["to the agent", "to the run"].map(|way| secret.of_channel(nonces, way));
    let (send, receive) = match side {
        Side::Run => (to_agent, to_run),
        Side::Agent => (to_run, to_agent),
    };
    let mut sender = Sender::with_key(stream.try_clone()?, send);
    let mut receiver = Receiver::with_key(timed, receive);
    // Proves possession of the key, before either side acts on a message.
    sender.frame(BYTES, HELLO)?;
    match receiver.frame(HELLO.len())? {
        Content::Bytes(bytes) if bytes == HELLO => {
            let Receiver { key, count, .. } = receiver;
            stream.set_read_timeout(Some(patience))?;
            Ok((sender, Receiver { stream, key, count }))
        }
        _ => Err(bad("the peer's greeting is malformed")),
    }
}

/// Stream whose reads share one deadline.
struct UntilDeadline<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

impl Sender {
    /// Shuts the connection down in both directions.
    pub(crate) fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl<S: Write> Sender<S> {
    /// Creates a sender whose frames are tagged with `key`, without an exchange of greetings.
    pub(crate) fn with_key(stream: S, key: SealKey) -> Self {
        let count = 0;
        Self { stream, key, count }
    }

    /// Sends a message.
    pub(crate) fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        self.frame(MESSAGE, &text)
    }

    /// Sends the next `length` bytes that `content` yields.
    pub(crate) fn content(&mut self, content: &mut impl Read, length: u64) -> io::Result<()> {
        let mut left = length;
        let mut buffer = vec![0; PIECE];
        while left > 0 {
            let most = left.min(PIECE as u64) as usize;
            content.read_exact(&mut buffer[..most])?;
            self.frame(BYTES, &buffer[..most])?;
            left -= most as u64;
        }
        Ok(())
    }

    /// Sends bytes of content in one frame. The peer must expect content at this point.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.frame(BYTES, bytes)
    }

    /// Sends one frame, of any kind.
    pub(crate) fn frame(&mut self, kind: u8, content: &[u8]) -> io::Result<()> {
        if content.len() > MOST_BYTES {
            return Err(bad("a message is too long"));
        }
        let head = tagged_head(self.count, kind, content);
        let tag = self.key.tag(&[&head, content]);
        self.count += 1;
        // The receiver counts for itself.
        let bytes = [&head[8..], content, &tag].concat();
        self.stream.write_all(&bytes)
    }
}

impl Receiver {
    /// Limits the wait for the next frame; `None` waits without limit.
    pub(crate) fn patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// Returns a handle with which any thread can end the conversation in both directions.
    pub(crate) fn hang_up(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }
}

impl<S: Read> Receiver<S> {
    /// Creates a receiver that checks frames with `key`, without an exchange of greetings.
    pub(crate) fn with_key(stream: S, key: SealKey) -> Self {
        let count = 0;
        Self { stream, key, count }
    }

    /// Receives the next message.
    pub(crate) fn hear<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        match self.frame(MOST_BYTES)? {
            Content::Message(text) => Ok(serde_json::from_slice(&text)?),
            Content::Bytes(_) => Err(bad("content without a preceding message")),
        }
    }

    /// Copies the next `length` bytes of received content to `out`.
    pub(crate) fn content(&mut self, out: &mut impl Write, length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            match self.frame(PIECE)? {
                Content::Bytes(bytes) if !bytes.is_empty() && bytes.len() as u64 <= left => {
                    out.write_all(&bytes)?;
                    left -= bytes.len() as u64;
                }
                _ => return Err(bad("content of another length than announced")),
            }
        }
        Ok(())
    }

    /// Receives the next frame, which may be a message or content.
    pub(crate) fn any(&mut self) -> io::Result<Content> {
        self.frame(MOST_BYTES)
    }

    fn frame(&mut self, most: usize) -> io::Result<Content> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(bad("a message is too long"));
        }
        // Memory grows with the bytes that arrive, not with the length that the peer announces.
        let mut content = Vec::new();
        (&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut content)?;
        let mut tag = [0; TAG_BYTES];
        self.stream.read_exact(&mut tag)?;
        let head = tagged_head(self.count, kind, &content);
        let right = content.len() == length && self.key.verifies(&[&head, &content], &tag);
        self.count += 1;
        match kind {
            _ if !right => Err(bad("the peer has another key")),
            MESSAGE => Ok(Content::Message(content)),
            BYTES => Ok(Content::Bytes(content)),
            _ => Err(bad("a message of an unknown kind")),
        }
    }
}

/// Returns the tagged bytes that precede the content of a frame: number, kind and length.
fn tagged_head(count: u64, kind: u8, content: &[u8]) -> [u8; 13] {
    let mut head = [0; 13];
    head[..8].copy_from_slice(&count.to_be_bytes());
    head[8] = kind;
    head[9..].copy_from_slice(&(content.len() as u32).to_be_bytes());
    head
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

const MAGIC: &[u8; 16] = b"timeloom agent 1";
const HELLO: &[u8] = b"hello";
const MESSAGE: u8 = 0;
const BYTES: u8 = 1;
/// Size limit of one frame, in bytes. A plan has some tens of kilobytes.
const MOST_BYTES: usize = 16 << 20;
/// Size of the pieces in which files are sent, in bytes.
const PIECE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn secret(digit: &str) -> Secret {
        Secret::from_hex(&digit.repeat(64)).expect("a key")
    }

    fn pair(there: &Secret, here: &Secret) -> [io::Result<(Sender, Receiver)>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("its address");
        let there = there.clone();
        let thread = std::thread::spawn(move || {
            let stream = TcpStream::connect(to).expect("it listens");
            greet(stream, Side::Run, &there, Duration::from_secs(60))
        });
        let (stream, _) = listener.accept().expect("a connection");
        let agent = greet(stream, Side::Agent, here, Duration::from_secs(60));
        [thread.join().expect("no panic"), agent]
    }

    #[test]
    fn messages_and_content_arrive_in_their_order() {
        let [run, agent] = pair(&secret("a"), &secret("a")).map(|side| side.expect("greeted"));
        let (mut say, _keep) = run;
        let (_, mut hear) = agent;
        let content: Vec<u8> = (0..600_000_u32).map(|at| at as u8).collect();
        let sent = content.clone();
        let thread = std::thread::spawn(move || {
            say.say(&"first").expect("said");
            say.content(&mut &sent[..], sent.len() as u64)
                .expect("sent");
            say.say(&7).expect("said");
            say
        });
        assert_eq!(hear.hear::<String>().expect("a text"), "first");
        let mut got = Vec::new();
        hear.content(&mut got, 600_000).expect("content");
        assert_eq!(got, content);
        assert_eq!(hear.hear::<u8>().expect("a number"), 7);
        drop(thread.join().expect("no panic"));
    }

    #[test]
    fn a_peer_with_another_key_is_not_heard() {
        for side in pair(&secret("a"), &secret("b")) {
            let error = side.expect_err("it must be refused");
            assert!(
                error.to_string().contains("another key")
                    || error.kind() == io::ErrorKind::UnexpectedEof
                    || error.kind() == io::ErrorKind::ConnectionReset,
                "{error}"
            );
        }
    }

    /// A read timeout alone would start again with each byte.
    #[test]
    fn a_side_that_sends_a_byte_now_and_then_is_given_up_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let slow = TcpStream::connect(listener.local_addr().expect("its address")).expect("open");
        let (stream, _) = listener.accept().expect("it is there");
        let patience = Duration::from_millis(500);
        let greeting = std::thread::spawn(move || {
            greet(stream, Side::Agent, &secret("a"), patience).map(drop)
        });
        let mut sent = 0;
        while !greeting.is_finished() && sent < MAGIC.len() + 31 {
            let _ = (&slow).write_all(&MAGIC[..1]);
            sent += 1;
            std::thread::sleep(patience / 10);
        }
        assert!(sent < MAGIC.len() + 31, "{sent} bytes were waited for");
        greeting.join().expect("no panic").expect_err("given up");
    }

    /// A replayed frame carries the wrong tag, whether from an earlier conversation or from this
    /// one.
    #[test]
    fn replayed_frames_are_refused() {
        let [run, agent] = pair(&secret("a"), &secret("a")).map(|side| side.expect("greeted"));
        let (mut say, _keep) = run;
        let (_, mut hear) = agent;
        say.say(&1).expect("said");
        say.count -= 1;
        say.say(&1).expect("said");
        assert_eq!(hear.hear::<u8>().expect("the first"), 1);
        hear.hear::<u8>().expect_err("the second has its number");
    }
}
