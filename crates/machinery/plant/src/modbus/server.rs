//! Thread of a device, which serves all of its connections.

use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio_modbus::server::tcp::Server;

use super::map::RegisterMap;
use super::service::{Device, RegisterWrite, Service, Trouble};
use super::transport::{Connection, Counters, DeviceStats, Transport};
use crate::exchange::Exchange;

/// Parameters of a device, except its registers.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Name of the device in records and reports.
    pub name: String,
    /// Unit identifier of the device. Requests for any other are not accepted, not even for 0 or
    /// 255.
    pub unit_id: u8,
    /// Maximum number of concurrent connections; further ones are closed at once.
    pub max_connections: u64,
}

/// Device that is running. Dropping the handle closes its connections and its port.
pub struct ModbusDevice {
    address: SocketAddr,
    counters: Arc<Counters>,
    /// Dropped to end the device's thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModbusDevice {
    /// Serves `map` on `listener`, which stays in the network namespace in which it was created.
    /// Both callbacks get the device's name, and are called on the device's thread while the
    /// testbed is paused: `on_trouble` for each [`Trouble`], `on_write` for each value written.
    /// They must not stop the device themselves, but may let another thread stop it.
    ///
    /// # Errors
    /// Fails if the thread or its runtime cannot be created.
    pub fn start(
        spec: DeviceSpec,
        listener: TcpListener,
        map: RegisterMap,
        exchange: Arc<Exchange>,
        on_trouble: impl Fn(&str, Trouble) + Send + Sync + 'static,
        on_write: impl Fn(&str, &RegisterWrite) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let thread_name = format!("modbus {}", spec.name);
        let acceptor = Arc::new(Acceptor {
            max_connections: spec.max_connections,
            counters: counters.clone(),
            device: Arc::new(Device {
                name: spec.name,
                unit_id: spec.unit_id,
                map,
                exchange,
                on_trouble: Box::new(on_trouble),
                on_write: Box::new(on_write),
            }),
        });
        let server = {
            let _context = runtime.enter();
            Server::new(tokio::net::TcpListener::from_std(listener)?)
        };
        let thread = thread::Builder::new()
            .name(thread_name)
            .spawn(move || run(&runtime, server, acceptor, stopped))?;
        Ok(Self {
            address,
            counters,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address of the listening socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the device's counters since its start.
    pub fn stats(&self) -> DeviceStats {
        self.counters.read()
    }
}

impl Drop for ModbusDevice {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(runtime: &Runtime, server: Server, acceptor: Arc<Acceptor>, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async move {
        tokio::spawn(serve(server, acceptor));
        // An error means that the sender was dropped, which is the signal to stop.
        let _ = stopped.await;
    });
    // Dropping the runtime closes all connections, and releases their holds.
}

async fn serve(server: Server, acceptor: Arc<Acceptor>) {
    let counters = acceptor.counters.clone();
    let on_connected = move |stream, peer| ready(Ok(acceptor.admit(stream, peer)));
    loop {
        let aborted = counters.clone();
        let on_error = move |error: io::Error| {
            if error.kind() != io::ErrorKind::InvalidData {
                aborted.aborted.fetch_add(1, Relaxed);
            }
        };
        if server.serve(&on_connected, on_error).await.is_err() {
            // Either there are no more file descriptors, or the client disconnected before it was
            // accepted. Neither ends the device. The delay prevents a busy loop.
            counters.accept_errors.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

struct Acceptor {
    max_connections: u64,
    counters: Arc<Counters>,
    device: Arc<Device>,
}

impl Acceptor {
    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<(Service, Transport)> {
        if self.counters.open.load(Relaxed) >= self.max_connections {
            self.counters.turned_away.fetch_add(1, Relaxed);
            return None;
        }
        // A reply must not wait for an acknowledgement of earlier data: the guest that would send
        // it is about to be paused. If the option cannot be set, replies are only late.
        let _ = stream.set_nodelay(true);
        self.counters.accepted.fetch_add(1, Relaxed);
        let connection = Connection::new(self.counters.clone());
        let service = Service {
            device: self.device.clone(),
            connection: connection.clone(),
            client: peer,
            requester: format!("{} for {peer}", self.device.name),
        };
        Some((service, Transport::new(stream, connection)))
    }
}
