//! Throughput of a flow as formulas of the literature predict it.

use timeloom_net::Control;

use super::{Cell, RATE_BPS, SEGMENT_BYTES};

/// Returns the payload throughput in Mbit/s by the formula for the cell's congestion control, or
/// the capacity of the link if that is less.
pub(super) fn mbps(cell: Cell) -> f64 {
    // Each segment has Ethernet's overhead and the headers of IP and TCP, with timestamps.
    let limit = RATE_BPS as f64 / 1e6 * SEGMENT_BYTES / 1538.0;
    let round_trip_s = cell.round_trip.as_s_f64();
    let segments_per_s = match cell.control {
        Control::NewReno => pftk(cell.loss, round_trip_s),
        Control::Cubic | Control::Cubic8312 => cubic(cell.loss, round_trip_s),
        // Losses of this size do not reduce BBR's rate (Cardwell et al. 2016, figure 8).
        Control::Bbr => f64::INFINITY,
        // For DCTCP there is no formula with losses; it reacts to them like NewReno.
        Control::Dctcp => pftk(cell.loss, round_trip_s),
    };
    (segments_per_s * SEGMENT_BYTES * 8e-6).min(limit)
}

/// Returns segments per second by Padhye et al., "Modeling TCP throughput", SIGCOMM 1998, equation
/// 30. `b` is 1, because the window grows by acknowledged data, not by acknowledgements. The
/// timeout is a round trip plus Linux's minimum variation of 200 ms.
fn pftk(loss: f64, round_trip_s: f64) -> f64 {
    let fast = round_trip_s * (2.0 * loss / 3.0).sqrt();
    let slow = (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0);
    1.0 / (fast + (round_trip_s + 0.2) * slow * loss * (1.0 + 32.0 * loss * loss))
}

/// Returns segments per second by RFC 9438, section 5.1, equation 6. In the Reno-friendly region
/// (section 4.3), the window for Reno's throughput is used, if it is larger.
fn cubic(loss: f64, round_trip_s: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    let factor = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25);
    let window = factor * round_trip_s.powf(0.75) / loss.powf(0.75);
    let friendly = (1.5 / loss).sqrt();
    window.max(friendly) / round_trip_s
}
