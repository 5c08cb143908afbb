//! Sending half of the stream to another agent, served by a thread of its own: an agent that does
//! not read delays no thread that knows the order of events.

use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::message::PeerMessage;
use crate::channel::Sender;

/// Queue of what is to be sent to another agent, in order.
pub(super) struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    handle: TcpStream,
}

enum Outgoing {
    Message(PeerMessage),
    Bytes(Vec<u8>),
}

impl Outbox {
    /// Starts the thread that sends. Without messages it sends a sign of life at the interval
    /// `beat`, until the outbox is dropped. `failed` receives the error that ends it earlier.
    ///
    /// # Errors
    /// Fails if the kernel refuses the thread.
    pub(super) fn start(
        mut sender: Sender,
        handle: TcpStream,
        beat: Duration,
        failed: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, outgoing) = mpsc::channel();
        let send = move || {
            loop {
                let sent = match outgoing.recv_timeout(beat) {
                    Ok(Outgoing::Message(message)) => sender.say(&message),
                    Ok(Outgoing::Bytes(bytes)) => sender.bytes(&bytes),
                    Err(RecvTimeoutError::Timeout) => sender.say(&PeerMessage::Beat),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if let Err(error) = sent {
                    return failed(error);
                }
            }
        };
        thread::Builder::new()
            .name("to an agent".to_owned())
            .spawn(send)?;
        Ok(Self { queue, handle })
    }

    /// Queues a message.
    pub(super) fn say(&self, message: PeerMessage) {
        // A thread that has failed has reported why.
        let _ = self.queue.send(Outgoing::Message(message));
    }

    /// Queues bytes.
    pub(super) fn bytes(&self, bytes: &[u8]) {
        let _ = self.queue.send(Outgoing::Bytes(bytes.to_vec()));
    }

    /// Ends the connection in both directions.
    pub(super) fn hang_up(&self) {
        let _ = self.handle.shutdown(std::net::Shutdown::Both);
    }
}
