//! Throughput of a flow as predicted by the literature.

use timeloom_net::Control;

use super::{Cell, RATE_BPS, SEGMENT_BYTES};

/// Returns the Mbit/s of payload: the formula of the cell's congestion control, or the capacity of
/// the link if that is less.
pub(super) fn mbps(cell: Cell) -> f64 {
    // Ethernet's overhead, IP and TCP with timestamps around each segment.
    let limit = RATE_BPS as f64 / 1e6 * SEGMENT_BYTES / 1538.0;
    let round_trip_s = cell.round_trip.as_s_f64();
    let segments_per_s = match cell.control {
        Control::NewReno => pftk(cell.loss, round_trip_s),
        Control::Cubic | Control::Cubic8312 => cubic(cell.loss, round_trip_s),
        // Losses of this size do not slow it down (Cardwell et al. 2016, figure 8).
        Control::Bbr => f64::INFINITY,
        // DCTCP has no formula for losses: it reacts to them like NewReno.
        Control::Dctcp => pftk(cell.loss, round_trip_s),
    };
    (segments_per_s * SEGMENT_BYTES * 8e-6).min(limit)
}

/// Padhye et al., "Modeling TCP throughput", SIGCOMM 1998, equation 30. `b` is 1: the window grows
/// by acknowledged data, not by acknowledgements. A timeout is a round trip and Linux's minimum
/// variation of 200 ms.
fn pftk(loss: f64, round_trip_s: f64) -> f64 {
    let fast = round_trip_s * (2.0 * loss / 3.0).sqrt();
    let slow = (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0);
    1.0 / (fast + (round_trip_s + 0.2) * slow * loss * (1.0 + 32.0 * loss * loss))
}

/// RFC 9438, section 5.1, equation 6, and in the Reno-friendly region, where it is larger, the
/// window for Reno's throughput (section 4.3).
fn cubic(loss: f64, round_trip_s: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    let factor = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25);
    let window = factor * round_trip_s.powf(0.75) / loss.powf(0.75);
    let friendly = (1.5 / loss).sqrt();
    window.max(friendly) / round_trip_s
}
