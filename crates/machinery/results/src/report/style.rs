//! Colours and the style sheet.
//!
//! The colours are those of Okabe and Ito, which people with the common colour-vision deficiencies
//! can distinguish. No information is given by colour alone.

use super::spec::{ReportRun, RunKind};

/// Style sheet of the page, with the classes that figures use.
pub(super) const SHEET: &str = include_str!("style.css");

/// Returns the colours of runs. The first normal run is blue and the first attacked run is
/// vermilion. Further runs take the other colours of the palette in turn.
pub(super) fn run_colours(runs: &[ReportRun]) -> Vec<&'static str> {
    let (mut normal, mut attack) = (Some(BLUE), Some(VERMILION));
    let mut rest = REST.iter().copied().cycle();
    runs.iter()
        .map(|run| {
            let own = match run.kind {
                RunKind::Normal => normal.take(),
                RunKind::Attack => attack.take(),
            };
            own.unwrap_or_else(|| rest.next().unwrap_or(BLACK))
        })
        .collect()
}

/// Returns a colour by index, for curves that are not runs of the report.
pub(super) fn colour(index: usize) -> &'static str {
    [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, BLACK][index % 7]
}

/// Returns a dash pattern by index; lengths are in units of the viewBox.
pub(super) fn dash(index: usize) -> &'static str {
    ["", "5 2.5", "1.6 2", "8 2.5 1.6 2.5"][index % 4]
}

const BLUE: &str = "#0072b2";
const VERMILION: &str = "#d55e00";
const GREEN: &str = "#009e73";
const PURPLE: &str = "#aa4a86";
const ORANGE: &str = "#b97f00";
const SKY: &str = "#3a93c9";
const BLACK: &str = "#222222";
const REST: [&str; 5] = [GREEN, PURPLE, SKY, ORANGE, BLACK];
