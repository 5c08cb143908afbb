//! Threads of one end of the line: one that receives datagrams and handles timeouts, one that
//! receives multicasts, one that executes orders, and one that claims the line at agreed stops.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration as StdDuration;

use timeloom_agreement::{HostOrder, Member};
use timeloom_time::Instant;
use tracing::debug;

use super::super::seal::SEALED;
use super::super::testbed::LocalResumption;
use super::{Shared, State};
use crate::testbed::TestbedError;

/// Receives datagrams, and wakes the member when it has something to do.
pub(super) fn listen(shared: &Shared) {
    let mut buffer = [0; SEALED + 1];
    while !shared.ended.load(Ordering::SeqCst) {
        let due = shared.lock().member.next_wake();
        let left = due - shared.timeline.read().now;
        // The wait is short, because another thread may have set an earlier deadline meanwhile.
        let left = left.as_ns().clamp(50_000, 5_000_000);
        let _ = shared
            .socket
            .set_read_timeout(Some(StdDuration::from_nanos(left as u64)));
        // An error means that a peer is not running yet (ICMP), or that the wait has timed out.
        if let Ok((bytes, source)) = shared.socket.recv_from(&mut buffer) {
            shared.hear(&buffer[..bytes], source);
        }
        if shared.timeline.read().now >= due {
            shared.tell(Member::wake);
        }
    }
}

/// Receives the multicasts of the group.
pub(super) fn listen_to_group(shared: &Shared, socket: &UdpSocket) {
    let mut buffer = [0; SEALED + 1];
    let _ = socket.set_read_timeout(Some(StdDuration::from_millis(50)));
    while !shared.ended.load(Ordering::SeqCst) {
        if let Ok((bytes, source)) = socket.recv_from(&mut buffer) {
            shared.hear(&buffer[..bytes], source);
        }
    }
}

/// Claims the line whenever the clock has reached an agreed stop.
pub(super) fn claim_stops(shared: &Shared) {
    let mut last = None;
    loop {
        let (resumed, number) = {
            let is_new = |state: &State| state.resumed != last || shared.is_over(state);
            let state = shared.wait(is_new);
            if shared.is_over(&state) {
                return;
            }
            last = state.resumed;
            (state.resumed, shared.resumptions.load(Ordering::SeqCst))
        };
        let Some(resumed) = resumed.filter(|it| it.until != Instant::FAR_FUTURE) else {
            continue;
        };
        let give_up = || {
            shared.ended.load(Ordering::SeqCst)
                || shared.resumptions.load(Ordering::SeqCst) != number
        };
        if !shared.testbed.wait_for(resumed.until, &give_up) {
            continue;
        }
        let mut state = shared.lock();
        // A pause that has begun since is at the stop, and its grant may have passed already. A
        // claim would then stay for ever.
        if state.resumed == Some(resumed) && state.pauses == 0 {
            shared.claim_of(&mut state, |claims| claims.stop = true);
        }
    }
}

/// Executes orders one after the other.
pub(super) fn obey(shared: &Shared, orders: &Receiver<(u64, HostOrder)>) {
    while let Ok((claim, order)) = orders.recv() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        match obey_one(shared, claim, order) {
            Ok(()) => debug!(?order, "obeyed the agreement"),
            Err(error) => {
                debug!(?order, %error, "could not obey the agreement");
                shared.lock().failed.get_or_insert(error);
                shared.tell(Member::failed);
            }
        }
    }
}

fn obey_one(shared: &Shared, claim: u64, order: HostOrder) -> Result<(), TestbedError> {
    let testbed = &shared.testbed;
    match order {
        // Only the machine of the requester stops its processes early. A machine that learns of the
        // hold from the wire does not.
        HostOrder::HoldAlone => {
            if shared.lock().claims.hold {
                testbed.hold_alone()?;
            }
        }
        HostOrder::Close { at_least } => {
            let lead = shared.lock().member.lead(shared.timeline.read());
            let ceiling = testbed.close(lead, at_least)?;
            shared.tell(|member, moment| member.closed(ceiling, moment));
        }
        HostOrder::Stand { at } => {
            testbed.stand(at)?;
            shared.tell(Member::stood);
        }
        HostOrder::Grant { at } => {
            let mut state = shared.lock();
            if state.claims.told && state.claims.number == claim {
                state.granted = Some(at);
                shared.changed.notify_all();
            }
            let is_stop = state.claims.stop;
            drop(state);
            // The host that requested the stop does not vote before it has claimed the line itself.
            if is_stop {
                shared.claim(|claims| claims.stop = false);
            }
        }
        HostOrder::Resume(resumed) => {
            let at = shared.timeline.wall_at(resumed.at);
            testbed.resume(LocalResumption {
                from: resumed.from,
                at,
                dilation: resumed.dilation,
                until: resumed.until,
            })?;
            let mut state = shared.lock();
            let driven = std::mem::take(&mut state.claims.driven);
            // Before the start of time, the wire was driven for a test.
            let driven = driven && state.resumed.is_some();
            state.claims.ended = Some(driven || state.claims.ended == Some(true));
            state.resumed = Some(resumed);
            state.pauses = state.pauses.saturating_sub(1);
            shared.resumptions.fetch_add(1, Ordering::SeqCst);
            shared.changed.notify_all();
            drop(state);
            // The clock may have another stop now.
            testbed.wake();
        }
        HostOrder::Halt(_) => testbed.halt(),
    }
    Ok(())
}
