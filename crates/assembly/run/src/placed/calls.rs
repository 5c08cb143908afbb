//! Connections of a run to agents that are not prepared yet. All connections are closed if the run
//! is interrupted or if one agent cannot take part.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::net::{Shutdown, TcpStream};

/// Open connections.
#[derive(Default)]
pub(super) struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    given_up: bool,
    streams: Vec<TcpStream>,
}

impl Calls {
    /// Registers a connection.
    ///
    /// # Errors
    /// Fails if the connections have been given up already.
    pub(super) fn add(&self, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut state = self.lock();
        if state.given_up {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.streams.push(stream);
        Ok(())
    }

    /// Closes all registered connections, and refuses later ones.
    pub(super) fn give_up(&self) {
        let mut state = self.lock();
        state.given_up = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}
