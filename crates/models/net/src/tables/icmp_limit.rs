//! Limits on the rate of ICMP errors, the same as in Linux.
//!
//! `net.ipv4.icmp_ratelimit` permits one error per second to each address, and up to six at once
//! after a silence. `icmp_msgs_per_sec` and `icmp_msgs_burst` permit 1000 errors per second and 50
//! at once to all addresses together (`net/ipv4/icmp.c`, and `inet_peer_xrlim_allow` in
//! `inetpeer.c`). Errors for path MTU discovery are never limited. Linux subtracts a random number
//! up to three from the fifty, so that third parties cannot measure the traffic; this code does
//! not.

use std::collections::HashMap;
use std::net::IpAddr;

use timeloom_time::{Duration, Instant, Virtual};

use crate::tables::refusal::Refusal;

/// Recent errors of each node.
#[derive(Debug, Default)]
pub(crate) struct IcmpLimits {
    nodes: HashMap<u32, Bucket>,
    /// Token bucket by node and destination address.
    peers: HashMap<(u32, IpAddr), Bucket>,
}

/// Token bucket whose tokens are time: an error costs tokens, and elapsed time returns them.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: Duration,
    at: Instant<Virtual>,
}

/// Cost of an error in the bucket of its destination address.
const PEER_COST: Duration = Duration::from_s(1);

/// Maximum content of the bucket of one address.
const PEER_MOST: Duration = Duration::from_s(6);
/// Amount that an ICMP error takes from the bucket of all addresses.
const NODE_COST: Duration = Duration::from_ms(1);

/// Maximum content of the bucket for all addresses.
const NODE_MOST: Duration = Duration::from_ms(50);
/// Maximum number of stored addresses. If there are more, full buckets, which equal new ones, are
/// removed.
const REMEMBERED: usize = 4_096;

impl Bucket {
    fn full(most: Duration, now: Instant<Virtual>) -> Self {
        Self {
            left: most,
            at: now,
        }
    }

    fn refill(&mut self, most: Duration, now: Instant<Virtual>) {
        self.left = (self.left + (now - self.at)).min(most);
        self.at = now;
    }
}

impl IcmpLimits {
    /// Returns true if `node` may send an error to `address` now, and then counts the error.
    pub(crate) fn allow(
        &mut self,
        node: u32,
        address: IpAddr,
        refusal: Refusal,
        now: Instant<Virtual>,
    ) -> bool {
        if matches!(refusal, Refusal::TooBig(_)) {
            return true;
        }
        let all = self.nodes.entry(node);
        let all = all.or_insert_with(|| Bucket::full(NODE_MOST, now));
        all.refill(NODE_MOST, now);
        if all.left < NODE_COST {
            return false;
        }
        if self.peers.len() >= REMEMBERED {
            self.peers.retain(|_, bucket| now - bucket.at < PEER_MOST);
            if self.peers.len() >= REMEMBERED && !self.peers.contains_key(&(node, address)) {
                return false; // addresses are being forged
            }
        }
        let peer = self.peers.entry((node, address));
        let peer = peer.or_insert_with(|| Bucket::full(PEER_MOST, now));
        peer.refill(PEER_MOST, now);
        if peer.left < PEER_COST {
            return false;
        }
        peer.left -= PEER_COST;
        all.left -= NODE_COST;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Instant<Virtual> {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn one() -> IpAddr {
        IpAddr::from([0, 0, 0, 1])
    }

    /// Returns how many of `tries` errors are permitted at virtual time `ms`.
    fn allowed(limits: &mut IcmpLimits, address: u32, tries: u32, ms: i64) -> usize {
        let address = IpAddr::from(address.to_be_bytes());
        let each = |_: &u32| limits.allow(0, address, Refusal::NetUnreachable, at(ms));
        (0..tries).filter(each).count()
    }

    #[test]
    fn six_at_once_and_one_a_second_go_to_an_address() {
        let mut limits = IcmpLimits::default();
        assert_eq!(allowed(&mut limits, 1, 20, 0), 6);
        assert_eq!(allowed(&mut limits, 1, 20, 999), 0);
        assert_eq!(allowed(&mut limits, 1, 20, 1_000), 1);
        assert_eq!(allowed(&mut limits, 1, 20, 3_500), 2);
        assert_eq!(allowed(&mut limits, 1, 20, 100_000), 6);
        assert_eq!(allowed(&mut limits, 2, 20, 100_000), 6, "another one's");
        assert!(
            limits.allow(1, one(), Refusal::NetUnreachable, at(100_000)),
            "another's"
        );
        assert!((0..99).all(|_| limits.allow(0, one(), Refusal::TooBig(1_400), at(100_000))));
    }

    #[test]
    fn fifty_at_once_and_a_thousand_a_second_go_out_in_all() {
        let mut limits = IcmpLimits::default();
        let mut all = |from: u32, ms| -> usize {
            (from..from + 100)
                .map(|peer| allowed(&mut limits, peer, 1, ms))
                .sum()
        };
        assert_eq!(all(0, 0), 50);
        assert_eq!(all(1_000, 0), 0);
        assert_eq!(all(2_000, 20), 20);
        assert_eq!(all(3_000, 10_000), 50);
        // The memory is bounded for any sequence of addresses.
        for ms in 0..200 {
            all(10_000 + 100 * ms, 10_000 + i64::from(ms));
        }
        assert!(limits.peers.len() <= REMEMBERED, "{}", limits.peers.len());
    }
}
