//! TCP of a kernel without timing: the segments sent, and their order, follow from the received
//! acknowledgements and not from measurements in real time.
//!
//! A runner requests this if time must be reproducible: a round trip then takes as much of the
//! machine's time as its computation. CUBIC's growth and exit from slow start, pacing, segment
//! sizes, delayed acknowledgements, the receive window and timers all depend on real time. The
//! remaining TCP is Reno, or CUBIC in virtual time ([`crate::VirtualCubic`]), with immediate
//! acknowledgements and a window of at most 255 segments, up to which a segment never waits to be
//! merged with others. Repairs that need a retransmission
//! timer take real time, unless the network keeps those timers ([`make_timerless`]).

use netlink_packet_route::route::RouteMetric;

use crate::congestion::VirtualCubic;
use crate::metrics::{RTAX_RTO_MIN, routes_without, set_metrics};
use crate::settings::Settings;
use crate::station::STATION_INTERFACE;
use crate::{KernelError, Namespace};

/// Disables the timers in a station's TCP, for a simulated network that keeps them in virtual time:
/// the kernel detects losses by acknowledgements alone and acknowledges at once. Existing
/// connections are unaffected. `cubic` is the default congestion control in place of Reno.
///
/// # Errors
/// Fails if a setting cannot be written or a route cannot be changed.
pub fn make_timerless(
    station: &Namespace,
    cubic: Option<&VirtualCubic>,
) -> Result<(), KernelError> {
    station.run(|| {
        let settings = Settings::here()?;
        // The kernel's CUBIC and BBR measure the machine's time.
        let default = cubic.map_or("reno", VirtualCubic::name);
        settings.write("tcp_congestion_control", default)?;
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

/// Makes the TCP of a station depend on acknowledgements alone. Existing connections are
/// unaffected, and a program that selects another congestion control (`TCP_CONGESTION`) gets it.
/// `cubic` is the default in place of Reno.
///
/// # Errors
/// Fails if a setting cannot be written or a route cannot be changed.
pub fn make_self_clocking(
    station: &Namespace,
    cubic: Option<&VirtualCubic>,
) -> Result<(), KernelError> {
    make_timerless(station, cubic)?;
    station.run(|| {
        let settings = Settings::here()?;
        for (key, value) in SETTINGS {
            settings.write(key, value)?;
        }
        // A resolved neighbour is not probed again: the instant of such a probe in virtual time
        // would be unpredictable.
        let ipv6 = Settings::of_ipv6()?;
        if let Some(ipv6) = &ipv6 {
            // A connection's flow label is random in each run.
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

/// Settings of a station's TCP on which its behaviour in skipping time depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Congestion control of connections whose program requests none.
    default_control: Option<String>,
    /// Values of [`TIMERLESS`], in the same order.
    timerless: Vec<Option<String>>,
    /// Number of routes to other hosts on which acknowledgements are delayed.
    delaying_routes: usize,
}

impl TcpSettings {
    /// Reads the settings of `station`.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered or its routes cannot be listed.
    pub fn of(station: &Namespace) -> Result<Self, KernelError> {
        station.run(|| {
            let settings = Settings::here()?;
            Ok(Self {
                default_control: settings.text("tcp_congestion_control"),
                timerless: TIMERLESS
                    .iter()
                    .map(|(key, _)| settings.text(key))
                    .collect(),
                delaying_routes: routes_without(station, &RouteMetric::QuickAck(1))?,
            })
        })?
    }

    /// Returns descriptions of what programs have changed since `before`.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let mut compare = |key: &str, before: &Option<String>, now: &Option<String>| {
            if before != now {
                let text = |value: &Option<String>| value.clone().unwrap_or_default();
                changes.push(format!(
                    "net.ipv4.{key} from {} to {}",
                    text(before),
                    text(now)
                ));
            }
        };
        compare(
            "tcp_congestion_control",
            &before.default_control,
            &self.default_control,
        );
        for (number, (key, _)) in TIMERLESS.iter().enumerate() {
            compare(key, &before.timerless[number], &self.timerless[number]);
        }
        if self.delaying_routes > before.delaying_routes {
            let added = self.delaying_routes - before.delaying_routes;
            changes.push(format!("{added} routes without the metric `quickack 1`"));
        }
        changes
    }
}

/// Returns the congestion control of connections whose program requests none, `None` if the kernel
/// does not report it.
pub fn congestion_control(station: &Namespace) -> Option<String> {
    let read = station.run(|| Settings::here().ok()?.text("tcp_congestion_control"));
    read.ok().flatten()
}

/// Maximum increase of a round trip's real time over the one before it: the kernel's maximum
/// timeout (TCP_RTO_MAX). Five seconds were too few for `examples/simnet` at a load of 20 on two
/// processors, and 30 for two seconds of computing at a load of 30.
const SHORTEST_TIMEOUT_MS: u32 = 120_000;

/// Under /proc/sys/net/ipv4; Linux, Documentation/networking/ip-sysctl.rst.
const TIMERLESS: [(&str, &str); 3] = [
    // Disables the tail loss probe, sent after two measured round trips.
    ("tcp_early_retrans", "0"),
    // Treats the first gap as a loss, without waiting a quarter of a round trip.
    ("tcp_reordering", "1"),
    // Acknowledges every duplicate, however soon it follows another.
    ("tcp_invalid_ratelimit", "0"),
];

/// Settings that make TCP reproducible.
const SETTINGS: [(&str, &str); 7] = [
    // Receive window: no estimate of the program's reading rate. At most the 255 segments (of 1448
    // bytes) below which the following divisor releases each segment at once.
    ("tcp_moderate_rcvbuf", "0"),
    ("tcp_rmem", "4096 368640 368640"),
    ("tcp_tso_win_divisor", "255"),
    // As many segments in a burst as there are to send, regardless of the measured rate.
    ("tcp_min_tso_segs", "255"),
    ("tcp_autocorking", "0"),
    // The window does not shrink while a program computes.
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_no_metrics_save", "1"),
];

/// Settings under neigh/eth0. Times are one day, except for the retransmission of a request: that
/// interval is longer than a busy machine delays an answer.
const NEIGHBOURS: [(&str, &str); 4] = [
    ("base_reachable_time_ms", "86400000"),
    ("delay_first_probe_time", "86400"),
    ("gc_stale_time", "86400"),
    ("retrans_time_ms", "20000"),
];
