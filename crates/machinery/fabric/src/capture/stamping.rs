//! Waiting until the kernel timestamps frames at the moment at which they pass.
//!
//! Timestamping has a cost, so the kernel does it only while some socket requests timestamps, and
//! enables it from a work queue some time after the first request. Until then a frame gets its
//! timestamp when it is *read*. Such a timestamp looks valid but is late by an arbitrary time. A
//! datagram to the thread's own socket distinguishes the two cases: when timestamping is on, the
//! datagram gets its timestamp during the send. A timestamp after the end of the send is one from
//! reading.

use std::net::UdpSocket;
use std::thread::sleep;
use std::time::Duration;

use rustix::net::RecvFlags;
use timeloom_sys::clock::realtime_ns;
use timeloom_sys::control::{ControlBuffer, ControlMessage, receive};
use timeloom_sys::stamps;

/// Blocks until the kernel timestamps frames as they pass. Uses the loopback interface in the
/// namespace of the calling thread. If that interface is down, the function cannot detect the
/// state, and waits for a few milliseconds.
pub(super) fn wait_until_on() {
    let tried = UdpSocket::bind("127.0.0.1:0").ok().and_then(|socket| {
        socket.connect(socket.local_addr().ok()?).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        stamps::of_arrivals(&socket).ok()?;
        for _ in 0..TRIES {
            if stamped_while_sent(&socket)? {
                return Some(());
            }
        }
        None
    });
    if tried.is_none() {
        sleep(PATIENCE);
    }
}

fn stamped_while_sent(socket: &UdpSocket) -> Option<bool> {
    socket.send(&[0]).ok()?;
    let sent_ns = realtime_ns();
    sleep(PAUSE);
    let mut control = ControlBuffer::default();
    receive(socket, &mut [0], &mut control, RecvFlags::empty()).ok()?;
    let stamp_ns = control.messages().find_map(|message| match message {
        ControlMessage::Arrived { realtime_ns } => realtime_ns,
        _ => None,
    })?;
    Some(stamp_ns <= sent_ns)
}

const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(10);
