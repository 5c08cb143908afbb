//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`: input from another machine's
//! tunnel, and the properties that must hold. Not for other callers.

use timeloom_time::{Instant, Virtual};

use super::datagram::{TunnelKey, close, open};
use super::line::{Incoming, Outgoing};

/// Parses arbitrary bytes with and without a valid seal. Checks that bytes without a seal are never
/// a datagram, that sealed bytes are one if they are long enough, and that modified bytes are not.
///
/// # Panics
/// Panics if one of these properties is violated.
pub fn datagram(bytes: &[u8]) {
    let key = TunnelKey::new(&[7; 32]);
    assert_eq!(open(&key, bytes), None, "no input is sealed with the key");
    let mut sealed = bytes.to_vec();
    close(&key, &mut sealed);
    let Some(found) = open(&key, &sealed) else {
        return assert!(bytes.len() < HEAD, "{} bytes are enough", bytes.len());
    };
    let mut again = Vec::new();
    found.seal(&key, &mut again);
    assert_eq!(again, sealed);
    let at = usize::from(bytes[0]) % sealed.len();
    again[at] ^= 1;
    assert_eq!(open(&key, &again), None, "byte {at} is another");
}

/// Passes frames with these numbers, instants and lengths through both ends of a link, whose clock
/// shows each instant in turn. Checks that no frame is early, duplicated or reordered.
///
/// # Panics
/// Panics if one of these properties is violated.
pub fn line(frames: &[(u64, Instant<Virtual>, u8)], rate_bits_per_s: Option<u64>) {
    let content = [0; 255];
    let (mut incoming, mut accepted, mut taken) = (Incoming::default(), 0_u64, 0_u64);
    let mut newest = 0;
    for (number, at, length) in frames {
        let before = incoming.refused;
        incoming.arrive(*number, *at, &content[..usize::from(*length)]);
        assert_eq!(incoming.refused == before, *number > newest, "{number}");
        newest = newest.max(*number);
        accepted += u64::from(incoming.refused == before);
        let now = *at;
        let mut last = Instant::from_ns(i64::MIN);
        while let Some((left, _)) = incoming.take(now) {
            assert!(last <= left && left <= now, "{left:?} at {now:?}");
            last = left;
            taken += 1;
        }
        assert!(incoming.next().is_none_or(|next| next > now));
    }
    while incoming.take(Instant::from_ns(i64::MAX)).is_some() {
        taken += 1;
    }
    assert_eq!(taken, accepted);
    assert_eq!(
        incoming.lost + accepted,
        newest,
        "each number came or is lost"
    );

    let mut outgoing = Outgoing::new(rate_bits_per_s, 1_000, 300);
    let mut last = Instant::from_ns(i64::MIN);
    let mut sent = 0;
    for (_, now, length) in frames {
        outgoing.offer(&content[..usize::from(*length)], *now);
        while let Some((left, _)) = outgoing.take(*now) {
            assert!(last <= left && left <= *now, "{left:?} at {now:?}");
            last = left;
            sent += 1;
        }
    }
    while outgoing.take(Instant::from_ns(i64::MAX)).is_some() {
        sent += 1;
    }
    assert_eq!(sent + outgoing.dropped, frames.len() as u64);
}

/// Length in bytes of link, end, number and instant.
const HEAD: usize = 2 + 1 + 8 + 8;
