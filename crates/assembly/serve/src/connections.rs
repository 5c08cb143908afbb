//! Connections of browsers and of other programs of this machine. Their number and the duration of
//! each are limited.
//!
//! Any user of the machine can connect. At the limit, the server closes the oldest connection
//! without a token, so that a page can connect although another user keeps connections open.

use parking_lot::Mutex;
use std::convert::Infallible;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};
use tower_service::Service as _;

/// Connection of a client. It counts towards the limit until the last reference is dropped, even
/// after it was upgraded to a WebSocket.
#[derive(Debug)]
pub(crate) struct Connection {
    state: Arc<State>,
    all: Arc<Connections>,
}

#[derive(Debug, Default)]
struct State {
    /// True once a request on this connection had a valid token.
    has_access: AtomicBool,
    end: Notify,
}

/// Open connections, oldest first.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Vec<Arc<State>>>,
}

impl Connection {
    /// Exempts the connection from being closed at the limit.
    pub(crate) fn grant_access(&self) {
        self.state.has_access.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection must be closed.
    pub(crate) async fn ended(&self) {
        self.state.end.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.retain(|other| !Arc::ptr_eq(other, &self.state));
    }
}

impl Connections {
    /// Registers a new connection. At the limit, closes the oldest connection without a token, or
    /// returns `None` if all connections have one.
    fn admit(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let mut open = self.lock();
        if open.len() >= MOST_CONNECTIONS {
            let has_none = |it: &Arc<State>| !it.has_access.load(Ordering::Relaxed);
            let place = open.iter().position(has_none)?;
            open.remove(place).end.notify_one();
        }
        let state = Arc::<State>::default();
        open.push(Arc::clone(&state));
        let all = Arc::clone(self);
        Some(Arc::new(Connection { state, all }))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<State>>> {
        self.open.lock()
    }
}

/// Accepts connections, and answers their requests, until the process ends.
pub(crate) async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let connections = Arc::<Connections>::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor or no memory is left: some may become free.
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        if let Some(connection) = connections.admit() {
            tokio::spawn(answer(stream, connection, router.clone()));
        }
    }
}

/// Answers the requests of a connection until its end.
async fn answer(stream: TcpStream, connection: Arc<Connection>, router: Router) {
    let known = Arc::clone(&connection);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&known));
        router.clone().call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(Impatient::new(stream)), service)
        .with_upgrades();
    // A client that breaks the protocol, or leaves, is no error of the server.
    tokio::select! {
        _ = served => {}
        () = connection.ended() => {}
    }
}

/// Connection whose writes fail if the client reads nothing for [`WRITE_PATIENCE`]. A slow client
/// that reads some bytes is not affected.
#[derive(Debug)]
struct Impatient<S> {
    stream: S,
    /// Deadline of the pending write; `None` if no write is pending.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            limit: None,
        }
    }

    /// Returns the result of a write, or an error if the client has read nothing for too long.
    fn limited(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.limit = None;
            return written;
        }
        let limit = self
            .limit
            .get_or_insert_with(|| Box::pin(sleep(WRITE_PATIENCE)));
        ready!(limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limited(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Maximum number of connections. A page uses up to six connections for its requests, and one for
/// its WebSocket.
const MOST_CONNECTIONS: usize = 256;
/// Timeout for the head of a request, also for the first request of a connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Time after which a client that reads nothing is disconnected.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Delay before the next attempt if a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn the_oldest_connection_without_a_token_makes_room() {
        let all = Arc::<Connections>::default();
        let admitted = (0..MOST_CONNECTIONS).map(|_| all.admit().expect("there is room"));
        let admitted: Vec<_> = admitted.collect();
        admitted[0].grant_access();
        let next = all.admit().expect("another one makes room");
        let is_ended = |place: usize| {
            !all.lock()
                .iter()
                .any(|it| Arc::ptr_eq(it, &admitted[place].state))
        };
        assert!(!is_ended(0) && is_ended(1) && !is_ended(2));
        admitted.iter().for_each(|it| it.grant_access());
        next.grant_access();
        assert!(all.admit().is_none(), "all have a token");
        drop(next);
        assert!(all.admit().is_some(), "one has left");
        drop(admitted);
        assert!(all.lock().is_empty());
    }

    /// The clock of the test skips to the next deadline while all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_left_and_a_slow_one_is_not() {
        let (mut client, server) = tokio::io::duplex(4096);
        let mut server = Impatient::new(server);
        let chunk = vec![0; 4096];
        let sent = tokio::spawn(async move {
            loop {
                if let Err(error) = server.write_all(&chunk).await {
                    return error.kind();
                }
            }
        });
        let mut taken = vec![0; 4096];
        for _ in 0..5 {
            sleep(WRITE_PATIENCE / 2).await;
            client.read_exact(&mut taken).await.expect("more comes");
        }
        assert!(!sent.is_finished());
        assert_eq!(sent.await.expect("no panic"), io::ErrorKind::TimedOut);
    }
}
