//! Reasons why a server did not start.

use std::io;
use std::net::SocketAddr;

use timeloom_results::ResultsError;

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not of the loopback interface, so other machines could reach it.
    #[error(
        "cannot serve on {0}: other machines reach this address, and this version has no TLS, so \
         that its token and the runs would be readable on the way; listen on 127.0.0.1 or [::1], \
         and reach it from another machine by `ssh -L {port}:127.0.0.1:{port} THIS-MACHINE`",
        port = .0.port()
    )]
    NotLoopback(SocketAddr),
    /// The directory of the runs cannot be opened.
    #[error("cannot open the directory of runs: {0}; name another: `timeloom serve DIR`")]
    Directory(ResultsError),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}{}", remedy(source))]
    Listen {
        /// Address that was requested.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The kernel provides no random numbers.
    #[error("cannot make a token: {0}")]
    Random(io::Error),
    /// The asynchronous runtime could not be created.
    #[error("cannot start the server's runtime: {0}")]
    Runtime(io::Error),
}

impl ServeError {
    /// Returns true if the error is caused by the user's settings.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NotLoopback(_) | Self::Directory(_) | Self::Listen { .. }
        )
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            " (another server may run; `--listen 127.0.0.1:0` takes a free port)"
        }
        _ => "",
    }
}
