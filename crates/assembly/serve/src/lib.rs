//! The live view: a web page that shows running and finished runs.
//!
//! - `access`: tokens, and the origins whose requests are accepted;
//! - `connections`: limits on the number of connections, and their timeouts;
//! - `web`: the pages, the list of runs, the actions, and the socket of each page;
//! - `live`: the state of a run, read from its directory and its control socket, and the updates
//!   that are sent to each page.
//!
//! A run does not depend on this crate: the server is a reader of run directories and a client of
//! control sockets, in a process of its own and of low priority. It opens files of a run only
//! through `timeloom-results`, which follows no symbolic links and limits the length of each read.
//! This crate additionally limits the length of every text from a run before it stores the text.
//!
//! The command `timeloom serve` uses this crate.
#![forbid(unsafe_code)]

mod access;
mod connections;
mod error;
mod live;
mod web;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use timeloom_results::Library;
use tokio::net::TcpListener;

use access::Access;
pub use error::ServeError;
use live::Watchers;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Directory below which runs are shown.
    pub directory: PathBuf,
    /// Address to listen on; must be of the loopback interface.
    pub listen: SocketAddr,
    /// True if no page may act on a run.
    pub read_only: bool,
}

/// Server that listens, but does not answer requests yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: web::State,
}

impl Server {
    /// Opens the directory and listens at the address. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Fails if there is no such directory, if the address is not of the loopback interface or is
    /// in use, or if the kernel provides no random numbers.
    pub async fn bind(options: &ServerOptions) -> Result<Self, ServeError> {
        if !options.listen.ip().is_loopback() {
            return Err(ServeError::NotLoopback(options.listen));
        }
        let library = Library::open(&options.directory).map_err(ServeError::Directory)?;
        let listener = TcpListener::bind(options.listen).await;
        let listener = listener.map_err(|source| ServeError::Listen {
            address: options.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| ServeError::Listen {
            address: options.listen,
            source,
        })?;
        let access = Access::new(options.read_only).map_err(ServeError::Random)?;
        Ok(Self {
            listener,
            address,
            state: web::State {
                access: Arc::new(access),
                watchers: Arc::new(Watchers::new(library)),
            },
        })
    }

    /// Returns the URL of the page that may act on runs; `None` if no page may.
    pub fn url(&self) -> Option<String> {
        let token = self.state.access.acting_token()?;
        Some(format!("{}/#token={token}", self.origin()))
    }

    /// Returns the URL of the page that only shows runs.
    pub fn read_only_url(&self) -> String {
        let token = self.state.access.reading_token();
        format!("{}/#token={token}", self.origin())
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until the process ends.
    pub async fn run(self) -> Infallible {
        connections::serve(self.listener, web::router(self.state)).await
    }

    fn origin(&self) -> String {
        match self.address.ip() {
            IpAddr::V4(ip) => format!("http://{ip}:{}", self.address.port()),
            IpAddr::V6(ip) => format!("http://[{ip}]:{}", self.address.port()),
        }
    }
}

/// Serves until the process ends, with low priority, on the calling thread. Calls `announce` once
/// the server listens.
///
/// # Errors
/// Fails like [`Server::bind`].
pub fn serve(
    options: &ServerOptions,
    announce: impl FnOnce(&Server),
) -> Result<Infallible, ServeError> {
    // Threads that are started later inherit it. Where it is refused, the server has the priority
    // of its caller.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_THREADS)
        .build()
        .map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let server = Server::bind(options).await?;
        announce(&server);
        Ok(server.run().await)
    })
}

/// Nice value of the server, which gives programs of a run precedence.
const PRIORITY: i32 = 10;
/// Maximum number of threads that read files or wait for a session's answer.
const MOST_THREADS: usize = 32;
