//! Time lanes: for each requester, the virtual instants at which it stopped the clock.
//!
//! A pause takes no virtual time, so it cannot be drawn as an interval. Each lane is a row of bars.
//! The height of a bar is the wall time for which the requester held the clock within a small
//! interval of virtual time. A single pause is one thin bar.

use std::fmt::Write;

use timeloom_time::Duration;

use super::markup::{escape, shortened};
use super::number::{Range, duration, fixed, ticks};
use super::pauses::Requester;
use super::plot::Mark;

/// Draws the lanes of the requesters that held the clock longest. Returns a sentence for the
/// caption that explains the scale.
pub(super) fn draw(out: &mut String, requesters: &[Requester], x: Range, marks: &[Mark]) -> String {
    let shown = &requesters[..requesters.len().min(LANES)];
    let bins: Vec<Vec<i64>> = shown.iter().map(|requester| binned(requester, x)).collect();
    let bottom = TOP + LANE * shown.len() as f64;
    let height = bottom + 34.0;
    let _ = writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Pauses over time\">\n\
         <svg class=\"lanes\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Pauses of the clock by requester over virtual time\">"
    );
    for mark in marks
        .iter()
        .filter(|mark| (0.0..=1.0).contains(&x.part(mark.from)))
    {
        let at = LEFT + x.part(mark.from) * (RIGHT - LEFT);
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {TOP}V{bottom:.1}\" stroke=\"{}\" stroke-width=\"1\" stroke-dasharray=\"4 2.5\"/>",
            mark.colour
        );
    }
    for (lane, (requester, bins)) in shown.iter().zip(&bins).enumerate() {
        let base = TOP + LANE * (lane + 1) as f64;
        let _ = writeln!(
            out,
            "<path class=\"lane\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            base - 3.0,
            escape(&shortened(&requester.name, 22))
        );
        // Every lane has its own scale, which is stated at the end of the lane. On a common scale,
        // a user's pause of minutes would make the milliseconds of a plant invisible.
        let tallest = bins.iter().copied().max().unwrap_or(0).max(1);
        let mut bars = String::new();
        for (index, held) in bins.iter().enumerate().filter(|(_, held)| **held > 0) {
            let at = LEFT + (index as f64 + 0.5) / BINS as f64 * (RIGHT - LEFT);
            let tall = (*held as f64 / tallest as f64 * (LANE - 6.0)).max(1.2);
            let _ = write!(bars, "M{at:.1} {base:.1}v-{tall:.1}");
        }
        let _ = writeln!(
            out,
            "<path d=\"{bars}\" stroke=\"#0072b2\" stroke-width=\"{:.2}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (RIGHT - LEFT) / BINS as f64 * 0.8,
            RIGHT + 8.0,
            base - LANE + 15.0,
            duration(Duration::from_ns(tallest))
        );
    }
    let (columns, decimals) = ticks(x, 10);
    for tick in columns {
        let at = LEFT + x.part(tick) * (RIGHT - LEFT);
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v4\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            fixed(tick, decimals)
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{RIGHT}\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">Virtual time (s)</text>\n</svg>\n</div>",
        (LEFT + RIGHT) / 2.0,
        height - 3.0
    );
    let width = Duration::from_ns(((x.high - x.low) / BINS as f64 * 1e9) as i64);
    let mut text = format!(
        "The height of a bar is the wall time for which the requester held the clock within {} of virtual time; the number at the end of each lane is the value of its tallest bar.",
        duration(width),
    );
    if requesters.len() > shown.len() {
        let _ = write!(
            text,
            " {} more requesters, which held it for less time, are in the table only.",
            requesters.len() - shown.len()
        );
    }
    text
}

/// Returns the wall time in nanoseconds for which the clock was held, for each bin of virtual time.
fn binned(requester: &Requester, x: Range) -> Vec<i64> {
    let mut bins = vec![0i64; BINS];
    for &(at_ns, held_ns) in &requester.holds {
        let part = x.part(at_ns as f64 / 1e9);
        if (0.0..=1.0).contains(&part) {
            let bin = ((part * BINS as f64) as usize).min(BINS - 1);
            bins[bin] = bins[bin].saturating_add(held_ns);
        }
    }
    bins
}

const WIDTH: f64 = 940.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 6.0;
const LANE: f64 = 30.0;
const BINS: usize = 400;
const LANES: usize = 12;
