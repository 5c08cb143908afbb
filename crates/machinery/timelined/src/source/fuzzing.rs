//! Fuzzing of pages and packets from other programs, exported by [`crate::fuzzing`].

use timeloom_time::Duration;
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::clockbound::{SegmentV2, SegmentV3};
use timeloom_timeline::shm::foreign::vmclock::Vmclock;

use super::page_codec::{error_v2, shows_v3, shows_vmclock};
use timeloom_timeline::SharedKey;

use super::peer_codec::{Kind, Packet};
use super::{chrony_codec, ptp4l_codec};

/// Reads a page of another program as if the counter were `ticks` and CLOCK_MONOTONIC `now_ns`, and
/// checks that no stated error is negative.
///
/// # Panics
/// Panics if a stated error is negative.
pub fn foreign_page(bytes: &[u8], ticks: u64, now_ns: i64) {
    let sound = |error: Duration| assert!(error >= Duration::ZERO, "{error:?}");
    if let Ok(segment) = SegmentV2::parse(bytes) {
        if let Ok(error) = error_v2(&segment, now_ns) {
            sound(error);
        }
        let again = SegmentV2::parse(&segment.emit());
        assert_eq!(again, Ok(segment));
    }
    if let Ok(segment) = SegmentV3::parse(bytes) {
        if let Ok((_, error)) = shows_v3(&segment, ticks) {
            sound(error);
        }
        let again = SegmentV3::parse(&segment.emit());
        assert_eq!(again, Ok(segment));
    }
    if let Ok(page) = Vmclock::parse(bytes)
        && let Ok((_, error)) = shows_vmclock(&page, ticks, PageCounter::Tsc)
    {
        sound(error);
    }
}

/// Decodes a packet of chronyd, of ptp4l, or of another machine's daemon. For an accepted packet of
/// a peer, checks that encoding it again gives the same bytes.
///
/// # Panics
/// Panics if the bytes differ.
pub fn time_server(packet: &[u8]) {
    if let Ok(tracking) = chrony_codec::tracking(packet, 1) {
        assert!(tracking.root_delay_s.is_finite() && tracking.root_dispersion_s.is_finite());
    }
    let _ = (
        chrony_codec::count(packet, 1),
        chrony_codec::heard_s(packet, 1),
        chrony_codec::source_stats(packet, 1),
        chrony_codec::is_reset(packet, 1),
    );
    let _ = ptp4l_codec::parse_timing(packet);
    let _ = ptp4l_codec::parse_answer(packet, 1);
    if let Some(parsed) = Packet::parse(packet, None) {
        let again = Packet::parse(&parsed.emit(None), None);
        assert_eq!(again, Some(parsed));
        if let Kind::Answer(Some(shown)) = parsed.kind {
            assert!(shown.error_ns >= 0);
        }
    }
    let key = SharedKey::new(&[7; 16]).expect("a long key");
    if let Some(parsed) = Packet::parse(packet, Some(&key)) {
        assert_eq!(parsed.emit(Some(&key))[..], packet[..]);
    }
}
