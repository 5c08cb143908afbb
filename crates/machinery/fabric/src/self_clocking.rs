//! A kernel's TCP without a clock of its own: what it sends next, and when, follows from
//! the acknowledgements that come, and from nothing that it measures in real time.
//!
//! A runner asks for it where time is to be reproducible: there a round trip takes as much
//! of the machine's time as it takes to compute. CUBIC's growth and exit from slow start,
//! pacing, the sizes of segments, delayed acknowledgements, the receiver's window and timers
//! all go by that. What is left of TCP here is Reno with acknowledgements at once and a
//! window of at most 255 segments, up to which a segment never waits for others to join it.
//! Repairs that need a retransmission timer take real time, unless the network keeps those timers
//! ([`make_timerless`]).

use netlink_packet_route::route::RouteMetric;

use crate::metrics::{RTAX_RTO_MIN, set_metrics};
use crate::settings::Settings;
use crate::station::STATION_INTERFACE;
use crate::{KernelError, Namespace};

/// Disables the timers in a station's TCP, for a simulated network that keeps them in virtual time:
/// the kernel detects losses by acknowledgements alone and acknowledges at once. Existing
/// connections are unaffected.
///
/// # Errors
/// Fails if a setting cannot be written or a route cannot be changed.
pub fn make_timerless(station: &Namespace) -> Result<(), KernelError> {
    station.run(|| {
        let settings = Settings::here()?;
        for (key, value) in TIMERLESS {
            settings.write(key, value)?;
        }
        // A long minimum retransmission timeout and no delayed acknowledgements. The kernel honours
        // the former only if the metric is locked.
        let metrics = [
            RouteMetric::Lock(1 << RTAX_RTO_MIN),
            RouteMetric::RtoMin(SHORTEST_TIMEOUT_MS),
            RouteMetric::QuickAck(1),
        ];
        set_metrics(station, &metrics)
    })?
}

/// Makes the TCP of a station go by acknowledgements alone. Connections that there are
/// already go on as they are, and a program that asks for another congestion control
/// (`TCP_CONGESTION`) gets it.
///
/// # Errors
/// When a setting cannot be written or a route not changed.
pub fn make_self_clocking(station: &Namespace) -> Result<(), KernelError> {
    make_timerless(station)?;
    station.run(|| {
        let settings = Settings::here()?;
        for (key, value) in SETTINGS {
            settings.write(key, value)?;
        }
        // A neighbour once known is not asked for again: nobody knows at which instant of
        // virtual time that would be.
        let ipv6 = Settings::of_ipv6()?;
        if let Some(ipv6) = &ipv6 {
            // A connection's label is drawn anew in each run.
            ipv6.write_if_there("auto_flowlabels", "0")?;
        }
        for (key, value) in NEIGHBOURS {
            let key = format!("neigh/{STATION_INTERFACE}/{key}");
            settings.write(&key, value)?;
            if let Some(ipv6) = &ipv6 {
                ipv6.write_if_there(&key, value)?;
            }
        }
        Ok(())
    })?
}

/// Returns the congestion control of connections whose program requests none, `None` if the kernel
/// does not say.
pub fn congestion_control(station: &Namespace) -> Option<String> {
    let read = station.run(|| Settings::here().ok()?.text("tcp_congestion_control"));
    read.ok().flatten()
}

/// So much real time may a round trip take longer than the one before it: as long as a kernel
/// waits at all (TCP_RTO_MAX). Five seconds were too few for `examples/simnet` at a load of
/// 20 on two processors, and 30 for two seconds of computing at a load of 30.
const SHORTEST_TIMEOUT_MS: u32 = 120_000;

/// Under /proc/sys/net/ipv4; Linux, Documentation/networking/ip-sysctl.rst.
const TIMERLESS: [(&str, &str); 4] = [
    // CUBIC and BBR measure time.
    ("tcp_congestion_control", "reno"),
    // Disables the tail loss probe, sent after two measured round trips.
    ("tcp_early_retrans", "0"),
    // Treats the first gap as a loss, without waiting a quarter of a round trip.
    ("tcp_reordering", "1"),
    // Acknowledges every duplicate, however soon it follows another.
    ("tcp_invalid_ratelimit", "0"),
];

/// Settings that make TCP reproducible.
const SETTINGS: [(&str, &str); 7] = [
    // The receiver's window: no estimate of how fast the program reads. At most the 255
    // segments (of 1448 bytes) below which the divisor that follows lets each go at once.
    ("tcp_moderate_rcvbuf", "0"),
    ("tcp_rmem", "4096 368640 368640"),
    ("tcp_tso_win_divisor", "255"),
    // As many segments in a train as there are to send, at whatever measured rate.
    ("tcp_min_tso_segs", "255"),
    ("tcp_autocorking", "0"),
    // The window does not shrink while a program computes.
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_no_metrics_save", "1"),
];

/// Under neigh/eth0: a day, and for the first question to be asked again longer than a busy
/// machine keeps the answer back.
const NEIGHBOURS: [(&str, &str); 4] = [
    ("base_reachable_time_ms", "86400000"),
    ("delay_first_probe_time", "86400"),
    ("gc_stale_time", "86400"),
    ("retrans_time_ms", "20000"),
];
