//! Tests with guests in real virtual machines: their readings must be true under all disturbances.

use std::net::Shutdown;
use std::time::Duration;

use timeloom_timeline::shm::Region;

use crate::common::{Host, wait_for};
use crate::machine::{Machine, Vsock};

#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn a_guest_reaches_its_host_by_vsock() {
    let host = Host::new();
    let mut guest = Machine::start_with(&host, "a_guest_by_vsock", Some(Vsock::start()));
    for round in 0..2 {
        // Until the vsock is connected, answers could only come through the machine's port, which
        // gives none.
        let way = guest.way();
        if round == 0 {
            assert_eq!(guest.line(), "ready");
            assert_eq!(host.bindings(), 1, "the guest's own");
        }
        wait_for("an interval", || guest.read().ok());
        (0..200).for_each(|_| drop(guest.read()));
        // The guest must reconnect by itself.
        way.shutdown(Shutdown::Both).unwrap();
        wait_for("the end of its bindings", || {
            (host.bindings() == 0).then_some(())
        });
    }
}

#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn guests_read_the_truth_and_a_hostile_guest_harms_no_other() {
    let host = Host::new();
    let mut good = Machine::start(&host, "a_guest");
    assert_eq!(good.line(), "ready");
    assert_eq!(host.bindings(), 1);
    let mut widths: Vec<i64> = (0..500).filter_map(|_| good.read().ok()).collect();
    widths.sort_unstable();
    assert!(
        widths.len() > 400,
        "{} of 500 readings had an interval",
        widths.len()
    );
    println!(
        "the guest's intervals in ns: least {}, median {}, most {}",
        widths[0],
        widths[widths.len() / 2],
        widths[widths.len() - 1]
    );

    // The machine is stopped for a while, so its counter lags behind. No reading may be wrong.
    let events = good.watched();
    for _ in 0..3 {
        good.tell_monitor("\"stop\"");
        events.recv_timeout(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        good.tell_monitor("\"cont\"");
        events.recv_timeout(PATIENCE).unwrap();
        // Each of these readings must contain the true time, or have no interval until the guest
        // has measured again.
        wait_for("an interval again", || good.read().ok());
        (0..100).for_each(|_| drop(good.read()));
    }

    // A second guest writes to the shared memory, and sends 100,000 invalid messages to its port.
    let mut hostile = Machine::start(&host, "a_hostile_guest");
    assert_eq!(hostile.line(), "ready");
    wait_for("all of it to be looked at", || {
        (hostile.relay().stats().malformed >= 100_000).then_some(())
    });
    Region::open(hostile.relay().region()).expect("what it wrote there is dropped");
    assert_eq!(host.bindings(), 1, "the good one's");
    assert_eq!(good.relay().stats().malformed, 0);
    (0..200).for_each(|_| drop(good.read()));
    wait_for("an interval beside it", || good.read().ok());
    drop(hostile);
    // After the well-behaved guest has been killed, none of its bindings may be left.
    drop(good);
    wait_for("the end of its bindings", || {
        (host.bindings() == 0).then_some(())
    });
}

/// The link to the host is cut, so that no measurement hides the effect of the stop.
#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn a_stopped_guest_is_disrupted_until_it_has_measured_again() {
    let host = Host::new();
    let mut guest = Machine::start_with(&host, "a_guest_by_vsock", Some(Vsock::start()));
    let mut way = guest.way();
    assert_eq!(guest.line(), "ready");
    let events = guest.watched();
    for is_stopped in [false, true] {
        wait_for("an interval", || guest.read().ok());
        way.shutdown(Shutdown::Both).unwrap();
        wait_for("the end of its bindings", || {
            (host.bindings() == 0).then_some(())
        });
        if is_stopped {
            for command in ["\"stop\"", "\"cont\""] {
                guest.tell_monitor(command);
                events.recv_timeout(PATIENCE).unwrap();
            }
        }
        let readings: Vec<_> = (0..100).map(|_| guest.read()).collect();
        let is_disrupted =
            |said: &Result<_, String>| said.as_ref().is_err_and(|said| said.contains("disrupted"));
        // A daemon that is late on a busy machine is another case.
        if is_stopped {
            assert!(readings.iter().all(Result::is_err), "{readings:?}");
            assert!(readings.iter().any(is_disrupted), "{readings:?}");
        } else {
            assert!(!readings.iter().any(is_disrupted), "{readings:?}");
        }
        way = guest.way();
    }
    wait_for("an interval again", || guest.read().ok());
}

#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn a_guest_that_is_reset_begins_anew() {
    let host = Host::new();
    let mut guest = Machine::start(&host, "a_guest");
    assert_eq!(guest.line(), "ready");
    wait_for("an interval", || guest.read().ok());
    let events = guest.watched();
    let reset = "\"set-action\",\"arguments\":{\"reboot\":\"reset\"}";
    for command in [reset, "\"system_reset\""] {
        guest.tell_monitor(command);
    }
    events.recv_timeout(PATIENCE).unwrap();
    // The old connections have ended, and the present ones belong to the new guest.
    assert_eq!(guest.line(), "ready");
    assert_eq!(host.bindings(), 1);
    wait_for("an interval again", || guest.read().ok());
    (0..100).for_each(|_| drop(guest.read()));
}

/// The content of a region belongs to the host, and QEMU cannot exclude it from a restored state.
/// QEMU must therefore refuse, and name the device.
#[test]
#[ignore = "takes a kernel and minutes: `make test-vm`"]
fn a_guest_with_a_region_is_neither_saved_nor_migrated() {
    let host = Host::new();
    let mut guest = Machine::start(&host, "a_guest");
    let migrate = "\"migrate\",\"arguments\":{\"uri\":\"exec:cat > /dev/null\"},\"id\":1";
    let savevm =
        "\"human-monitor-command\",\"arguments\":{\"command-line\":\"savevm one\"},\"id\":1";
    guest.open_monitor();
    for command in [migrate, savevm] {
        guest.tell_monitor(command);
        let refused = guest.monitor_says("\"id\": 1");
        assert!(refused.contains("ivshmem"), "{command}: {refused}");
    }
    // The machine must continue to run.
    assert_eq!(guest.line(), "ready");
    wait_for("an interval", || guest.read().ok());
}

const PATIENCE: Duration = Duration::from_secs(120);
