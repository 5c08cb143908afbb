//! Timers of a station's kernel, scaled to the rate of virtual time.
//!
//! These timers run in the machine's time. Suppose that a virtual second takes ten seconds of the
//! machine. A kernel that sends three requests for a neighbour, a second apart, then gives up after
//! 0.3 s of virtual time, and an answer that takes as long never arrives in time. So each timer
//! that the kernel allows to be set is multiplied. Delayed acknowledgements cannot be set. The
//! first timeout of a connection is a setting of a cgroup, not of a station; if it cannot be
//! changed, connection attempts are repeated more often instead.
//!
//! A runner requests this if time is dilated. For sessions in which computing takes no virtual
//! time, see [`crate::make_self_clocking`].

use std::io;
use std::time::Duration;

use netlink_packet_route::route::RouteMetric;

use crate::metrics::{RTAX_RTO_MIN, set_metrics};
use crate::namespace::on_thread;
use crate::settings::Settings;
use crate::station::STATION_INTERFACE;
use crate::{KernelError, Namespace};

/// Timers of one station's kernel.
#[derive(Debug)]
pub struct StationTimers {
    station: Namespace,
    /// True if the TCP timers are left to the network ([`crate::make_timerless`]).
    without_tcp: bool,
    acknowledges_at_once: bool,
    /// Original values of the timers; `None` until they are read before the first change.
    found: Option<Vec<(Timer, u64)>>,
}

/// Requested change of a station's timers.
#[derive(Debug)]
pub struct StationDilation<'a> {
    /// The timers to change.
    pub timers: &'a mut StationTimers,
    /// Factor by which the original value of each timer is multiplied, as far as the kernel allows.
    pub dilation: f64,
    /// First retransmission timeout of connections from the station, in the machine's time.
    pub first: Duration,
}

impl StationTimers {
    /// Returns the timers of `station`. Their values are read at the first change.
    ///
    /// # Errors
    /// Fails if the namespace's descriptor cannot be duplicated.
    pub fn of(station: &Namespace) -> io::Result<Self> {
        Ok(Self {
            station: station.try_clone()?,
            without_tcp: false,
            acknowledges_at_once: false,
            found: None,
        })
    }

    /// Excludes the TCP retransmission timeout from changes, because the network keeps that timer.
    pub fn leave_tcp(&mut self) {
        self.without_tcp = true;
    }

    /// Makes the station acknowledge every segment at once from the next change on: time skips over
    /// the delay of an acknowledgement.
    pub fn acknowledge_at_once(&mut self) {
        self.acknowledges_at_once = true;
    }

    /// Changes the timers of all these stations, even if one change fails, and returns when all are
    /// done. One thread enters all of their namespaces. On a busy machine, every additional thread
    /// would have to wait for a processor.
    ///
    /// # Errors
    /// Returns the first error. A change fails if a namespace cannot be entered, a setting cannot
    /// be written, or a route cannot be changed.
    pub fn dilate<'a>(
        all: impl Iterator<Item = StationDilation<'a>> + Send,
    ) -> Result<(), KernelError> {
        on_thread(|| {
            let changed = all.map(StationDilation::change);
            changed.fold(Ok(()), Result::and)
        })
    }
}

impl StationDilation<'_> {
    /// Moves the calling thread into the station's namespace, and changes the timers there.
    fn change(self) -> Result<(), KernelError> {
        let station = &self.timers.station;
        station.enter()?;
        let (ipv4, ipv6) = (Settings::here()?, Settings::of_ipv6()?);
        let settings = |timer: &Timer| match timer.scope {
            Scope::Station | Scope::Neighbours => Some(&ipv4),
            Scope::StationOfIpv6 | Scope::NeighboursOfIpv6 => ipv6.as_ref(),
        };
        let found = self.timers.found.get_or_insert_with(|| {
            let read = |timer: &Timer| Some((*timer, settings(timer)?.number(&timer.key())?));
            TIMERS.iter().filter_map(read).collect()
        });
        let dilated = |kind: Kind, found| kind.dilated(found, self.dilation, self.first);
        for (timer, found) in found {
            let value = dilated(timer.kind, *found).to_string();
            if let Some(settings) = settings(timer) {
                settings.write_if_there(&timer.key(), &value)?;
            }
        }
        if self.timers.without_tcp {
            return Ok(());
        }
        let least = dilated(Kind::Ms, LEAST_TIMEOUT_MS);
        let least = least.min(LONGEST_TIMEOUT_S * 1_000) as u32;
        // The kernel uses this metric only if it is locked.
        let mut metrics = vec![
            RouteMetric::Lock(1 << RTAX_RTO_MIN),
            RouteMetric::RtoMin(least),
        ];
        if self.timers.acknowledges_at_once {
            metrics.push(RouteMetric::QuickAck(1));
        }
        set_metrics(station, &metrics)
    }
}

/// Setting below /proc/sys/net/ipv4 or ipv6; see Linux, Documentation/networking/ip-sysctl.rst.
#[derive(Clone, Copy, Debug)]
struct Timer {
    scope: Scope,
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Scope {
    /// Settings of the station for IPv4, and for TCP.
    Station,
    /// Neighbour settings of the station's interface.
    Neighbours,
    StationOfIpv6,
    NeighboursOfIpv6,
}

/// Unit of a setting.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Ms,
    Seconds,
    /// Number of retransmissions; the wait doubles with each one.
    Retries,
}

impl Timer {
    const fn new(scope: Scope, name: &'static str, kind: Kind) -> Self {
        Self { scope, name, kind }
    }

    fn key(&self) -> String {
        match self.scope {
            Scope::Station | Scope::StationOfIpv6 => self.name.to_owned(),
            Scope::Neighbours | Scope::NeighboursOfIpv6 => {
                format!("neigh/{STATION_INTERFACE}/{}", self.name)
            }
        }
    }
}

impl Kind {
    fn dilated(self, found: u64, dilation: f64, first: Duration) -> u64 {
        let times = |most: u64| ((found as f64 * dilation).round() as u64).clamp(1, most);
        match self {
            _ if found == 0 => 0, // disabled
            // The kernel converts the value to ticks and compares these as signed numbers, so the
            // value is limited.
            Self::Ms => times(1_000_000_000),
            Self::Seconds => times(1_000_000),
            Self::Retries => {
                let wanted_s = tried_for_s(found, USUAL_FIRST) * dilation;
                let enough = |retries: &u64| tried_for_s(*retries, first) >= wanted_s;
                (1..MOST_RETRIES).find(enough).unwrap_or(MOST_RETRIES)
            }
        }
    }
}

/// Returns the total wait of a kernel with this number of retransmissions, in seconds. The first
/// wait is `first`, and each later one twice as long as the one before, but at most two minutes.
fn tried_for_s(retries: u64, first: Duration) -> f64 {
    let (first_s, longest_s) = (first.as_secs_f64(), LONGEST_TIMEOUT_S as f64);
    let wait_s = |retry: u64| (first_s * 2f64.powi(retry as i32)).min(longest_s);
    (0..=retries).map(wait_s).sum()
}

/// Default first timeout of a connection: Linux's TCP_TIMEOUT_INIT.
const USUAL_FIRST: Duration = Duration::from_secs(1);
/// Minimum retransmission timeout: Linux's TCP_RTO_MIN.
const LEAST_TIMEOUT_MS: u64 = 200;
/// Maximum retransmission timeout: Linux's TCP_RTO_MAX.
const LONGEST_TIMEOUT_S: u64 = 120;
/// Maximum number of retransmissions: Linux's MAX_TCP_SYNCNT.
const MOST_RETRIES: u64 = 127;

const TIMERS: [Timer; 18] = [
    Timer::new(Scope::Neighbours, "retrans_time_ms", Kind::Ms),
    Timer::new(Scope::Neighbours, "base_reachable_time_ms", Kind::Ms),
    Timer::new(Scope::Neighbours, "delay_first_probe_time", Kind::Seconds),
    Timer::new(Scope::Neighbours, "gc_stale_time", Kind::Seconds),
    Timer::new(Scope::Station, "tcp_syn_retries", Kind::Retries),
    Timer::new(Scope::Station, "tcp_synack_retries", Kind::Retries),
    Timer::new(Scope::Station, "tcp_keepalive_time", Kind::Seconds),
    Timer::new(Scope::Station, "tcp_keepalive_intvl", Kind::Seconds),
    Timer::new(Scope::Station, "tcp_fin_timeout", Kind::Seconds),
    Timer::new(Scope::Station, "tcp_invalid_ratelimit", Kind::Ms),
    Timer::new(Scope::Station, "icmp_ratelimit", Kind::Ms),
    Timer::new(Scope::Station, "ipfrag_time", Kind::Seconds),
    Timer::new(Scope::NeighboursOfIpv6, "retrans_time_ms", Kind::Ms),
    Timer::new(Scope::NeighboursOfIpv6, "base_reachable_time_ms", Kind::Ms),
    Timer::new(
        Scope::NeighboursOfIpv6,
        "delay_first_probe_time",
        Kind::Seconds,
    ),
    Timer::new(Scope::NeighboursOfIpv6, "gc_stale_time", Kind::Seconds),
    Timer::new(Scope::StationOfIpv6, "icmp/ratelimit", Kind::Ms),
    Timer::new(Scope::StationOfIpv6, "ip6frag_time", Kind::Seconds),
];

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(10);

    #[test]
    fn timers_are_as_long_as_virtual_time_has_them() {
        let dilated = |kind: Kind, found, dilation| kind.dilated(found, dilation, USUAL_FIRST);
        assert_eq!(dilated(Kind::Ms, 1_000, 10.0), 10_000);
        assert_eq!(dilated(Kind::Seconds, 5, 0.5), 3);
        assert_eq!(dilated(Kind::Seconds, 5, 0.001), 1);
        assert_eq!(dilated(Kind::Seconds, 0, 10.0), 0, "off stays off");
        assert_eq!(dilated(Kind::Seconds, 7_200, 1e6), 1_000_000);
    }

    #[test]
    fn more_retries_replace_a_longer_first_timeout() {
        // 1 + 2 + 4 + 8 + 16 + 32 + 64 s.
        let usual_s = |retries| tried_for_s(retries, USUAL_FIRST);
        assert_eq!(usual_s(6), 127.0);
        assert_eq!(usual_s(8), 127.0 + 2.0 * 120.0);
        let retries = |dilation| Kind::Retries.dilated(6, dilation, USUAL_FIRST);
        assert_eq!(retries(1.0), 6);
        for dilation in [0.1, 2.0, 10.0, 50.0] {
            let wanted_s = 127.0 * dilation;
            assert!(usual_s(retries(dilation)) >= wanted_s, "{dilation}");
            assert!(usual_s(retries(dilation) - 1) < wanted_s, "{dilation}");
        }
        assert_eq!(retries(1e6), MOST_RETRIES);
    }

    #[test]
    fn retries_stay_the_same_up_to_the_longest_timeout() {
        // The limit of two minutes is not reached: 10 × (1 + 2 + 4 + 8) s.
        assert_eq!(Kind::Retries.dilated(3, 10.0, LATER), 3);
        // 10 × 127 s: 10, 20, 40 and 80 s, then 120 s ten times.
        assert_eq!(Kind::Retries.dilated(6, 10.0, LATER), 13);
    }
}
