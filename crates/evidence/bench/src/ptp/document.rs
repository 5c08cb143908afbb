//! Page with the figures of a run, together with those of the thesis.
//!
//! Hardware, curve and software differ, so that only ratios are comparable, as the page states. The
//! page is made from measured [`Figure`]s only.

use std::fmt::Write as _;

use super::keys::HOPS;
use crate::figure::Figure;

/// Returns the page and its two charts, as names and contents of files.
///
/// `machine` describes the machine and its load. A missing figure is shown as a dash.
pub(super) fn document(figures: &[Figure], machine: &str) -> [(&'static str, String); 3] {
    let figures = Figures(figures);
    [
        ("ptp-figures.md", page(&figures, machine)),
        (
            "ptp-signing.svg",
            chart(
                "Signing, per hop",
                &[
                    figures.curve("BLS12-381", "sign_bls_ns"),
                    figures.curve("BLS, prepared", "sign_bls_once_ns"),
                    figures.curve("Ed25519", "sign_ed25519_ns"),
                    figures.curve("Ed25519, prepared", "sign_ed25519_prepared_ns"),
                ],
            ),
        ),
        (
            "ptp-verification.svg",
            chart(
                "Verifying a whole path",
                &[
                    figures.one_by_one("BLS, one by one", "verify17_bls_over_17_single"),
                    figures.curve("BLS, aggregate", "verify_bls_ns"),
                    figures.curve("the same, prepared", "verify_bls_once_ns"),
                    figures.curve("Ed25519, batch", "verify_ed25519_ns"),
                ],
            ),
        ),
    ]
}

struct Figures<'a>(&'a [Figure]);

/// Curve of a chart: microseconds by number of hops.
struct Curve {
    name: &'static str,
    us: Vec<f64>,
}

impl Figures<'_> {
    fn find(&self, metric: &str, hops: Option<u8>) -> Option<&Figure> {
        let at = |figure: &&Figure| {
            figure.metric == metric
                && hops.is_none_or(|hops| figure.context.get("hops") == Some(&hops.into()))
        };
        self.0.iter().find(at)
    }

    fn value(&self, metric: &str) -> String {
        self.find(metric, None)
            .map_or_else(dash, |figure| format!("{:.2}", figure.value))
    }

    fn context_ns(&self, metric: &str, key: &str) -> Option<f64> {
        self.find(metric, None)?.context.get(key)?.as_f64()
    }

    fn curve(&self, name: &'static str, metric: &str) -> Curve {
        let at = |hops| {
            self.find(metric, Some(hops))
                .map(|figure| figure.value / 1e3)
        };
        Curve {
            name,
            us: (0..=HOPS).filter_map(at).collect(),
        }
    }

    /// Returns the cost of the same number of separate verifications.
    fn one_by_one(&self, name: &'static str, metric: &str) -> Curve {
        let single = self.context_ns(metric, "single_ns").unwrap_or(f64::NAN) / 1e3;
        let signers = 1..=u32::from(HOPS) + 1;
        Curve {
            name,
            us: signers.map(|n| f64::from(n) * single).collect(),
        }
    }
}

fn dash() -> String {
    "–".to_owned()
}

fn page(figures: &Figures<'_>, machine: &str) -> String {
    let mut page = String::new();
    let _ = writeln!(
        page,
        "# What signed time costs\n\n\
         Made by `timeloom bench ptp --figures DIR` on {machine}.\n\
         The thesis (Flores-Meath 2017) measured Raspberry Pis with a curve of about 80 bits of security; here\n\
         the curves are BLS12-381 and Ed25519, on another machine. So **only ratios can be compared**. All\n\
         figures are medians.\n\n\
         ## Signing and verifying over 0 to 16 hops (Figures 3.1 and 3.2 of the thesis)\n\n\
         ![Signing](ptp-signing.svg)\n\n![Verification](ptp-verification.svg)\n\n\
         Processor time of the measuring thread, in µs. Signing is the whole work of a hop: parsing, hashing,\n\
         signing, aggregating and writing the message; *prepared* excludes what was computed before the message\n\
         arrived. Verifying is the work of the slave: parsing, and checking all signatures. With zero hops there\n\
         is only the grandmaster.\n"
    );
    let curves = [
        figures.curve("", "sign_bls_ns"),
        figures.curve("", "sign_bls_once_ns"),
        figures.curve("", "sign_ed25519_ns"),
        figures.curve("", "sign_ed25519_prepared_ns"),
        figures.curve("", "verify_bls_ns"),
        figures.curve("", "verify_bls_once_ns"),
        figures.curve("", "verify_ed25519_ns"),
    ];
    page.push_str("| hops | sign, BLS | sign, BLS prepared | sign, Ed25519 | sign, Ed25519 prepared | verify, BLS | verify, BLS prepared | verify, Ed25519 |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for hops in 0..=usize::from(HOPS) {
        let _ = write!(page, "| {hops} |");
        for curve in &curves {
            let cell = curve
                .us
                .get(hops)
                .map_or_else(dash, |us| format!("{us:.0}"));
            let _ = write!(page, " {cell} |");
        }
        page.push('\n');
    }
    let _ = writeln!(
        page,
        "\nThe cost of a scalar multiplication allows comparisons between machines: the BLS work of a hop takes as\n\
         long as {} of them ({} if it is prepared, with keys that sign each Sync once), its Ed25519 work as long\n\
         as {}. Verifying a path of 17 signers takes {} (BLS), {} (BLS prepared) and {} (Ed25519) of the time of\n\
         17 single verifications. In the thesis, each signature took the full time of a verification.\n",
        figures.value("sign_bls_over_scalar_mult"),
        figures.value("sign_bls_once_over_scalar_mult"),
        figures.value("sign_ed25519_over_scalar_mult"),
        figures.value("verify17_bls_over_17_single"),
        figures.value("verify17_bls_once_over_17_single"),
        figures.value("verify17_ed25519_over_17_single"),
    );
    messages(figures, &mut page);
    event_path(figures, &mut page);
    page
}

fn messages(figures: &Figures<'_>, page: &mut String) {
    let octets = |metric| {
        let figure = figures.find(metric, None);
        figure.map_or_else(dash, |figure| format!("{:.0}", figure.value))
    };
    let _ = writeln!(
        page,
        "## Octets added to messages (Tables 3.1 and 3.2)\n\n\
         | octets | thesis | here |\n|---|--:|--:|\n\
         | Sync, inline | +64 | +{} |\n\
         | Follow_Up, 16 hops, BLS | +309 (437 with separate residence and delay) | +{} full, +{} compact |\n\
         | Follow_Up, 16 hops, BLS prepared | – | +{} full, +{} compact |\n\
         | Follow_Up, 16 hops, Ed25519 | not possible | +{} full, +{} compact |\n\
         | second network: grandmaster, Sync | 16 + 64 = 80 | none: the Sync's nonce is in its Follow_Up's record |\n\
         | second network: grandmaster, Follow_Up | 26 + 64 = 90 | {} |\n\
         | second network: transparent clock | 34 + 64 = 98 (106) | {} |\n\n\
         Here a record also contains the key's epoch, the next hop, a digest of the received message, the port\n\
         numbers, and the correction at departure. Without these, records can be spliced, and a change cannot be\n\
         traced to its link.\n",
        octets("sync_added_bytes"),
        octets("followup_full_bytes"),
        octets("followup_compact_bytes"),
        octets("followup_bls_once_full_bytes"),
        octets("followup_bls_once_compact_bytes"),
        octets("followup_ed25519_full_bytes"),
        octets("followup_ed25519_compact_bytes"),
        octets("statement_origin_bytes"),
        octets("statement_hop_bytes"),
    );
}

fn event_path(figures: &Figures<'_>, page: &mut String) {
    let us = |metric: &str, key: &str| {
        let ns = figures.context_ns(metric, key);
        ns.map_or_else(dash, |ns| format!("{:.0} µs", ns / 1e3))
    };
    let _ = writeln!(
        page,
        "## Signed over unsigned (Tables 3.3 and 3.4)\n\n\
         The ratio of a duration with signatures to the duration without them. The programs of `timeloom ptp` run\n\
         in namespaces joined by veth pairs, with the kernel's stamps, and the variants alternate. A Follow_Up is\n\
         written and sent 1 ms after its Sync (in the thesis 1 s). Processors are kept from sleeping where this is\n\
         permitted. The deviation is half the distance between the 15.9th and the 84.1th percentile.\n\n\
         | duration | thesis, mean | here, median | thesis, deviation | here, deviation |\n|---|--:|--:|--:|--:|\n\
         | transparent clock, Follow_Up, BLS | 17.4 (0.367 → 6.390 ms) | {} ({} → {}) | 17.7 | {} |\n\
         | transparent clock, Follow_Up, BLS, verified before signing | – | {} | – | {} |\n\
         | transparent clock, Follow_Up, BLS prepared | – | {} ({} → {}) | – | {} |\n\
         | transparent clock, Follow_Up, Ed25519 | – | {} ({} → {}) | – | {} |\n\
         | transparent clock, residence of Sync | – | {} | – | {} |\n\
         | grandmaster, until the Sync has left | 1.99 (1.279 → 2.538 ms) | {} | 1.47 | {} |\n\
         | slave, offset | not measured | median moves by {} ns | not measured | {} |\n",
        figures.value("followup_bls_over_unsigned"),
        us("followup_bls_over_unsigned", "unsigned_ns"),
        us("followup_bls_over_unsigned", "signed_ns"),
        figures.value("followup_bls_deviation_ratio"),
        figures.value("followup_bls_watch_over_unsigned"),
        figures.value("followup_bls_watch_deviation_ratio"),
        figures.value("followup_bls_once_over_unsigned"),
        us("followup_bls_once_over_unsigned", "unsigned_ns"),
        us("followup_bls_once_over_unsigned", "signed_ns"),
        figures.value("followup_bls_once_deviation_ratio"),
        figures.value("followup_ed25519_over_unsigned"),
        us("followup_ed25519_over_unsigned", "unsigned_ns"),
        us("followup_ed25519_over_unsigned", "signed_ns"),
        figures.value("followup_ed25519_deviation_ratio"),
        figures.value("sync_residence_signed_over_unsigned"),
        figures.value("sync_residence_deviation_ratio"),
        figures.value("grandmaster_sync_signed_over_unsigned"),
        figures.value("grandmaster_sync_deviation_ratio"),
        figures.value("offset_mean_shift_ns"),
        figures.value("offset_sigma_signed_over_plain"),
    );
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 48.0;
/// Colours of the curves. Each curve also has a label at its end, and can be identified without
/// colour.
const COLOURS: [&str; 4] = ["#8a8f98", "#0b6e99", "#6b4fa0", "#c4501b"];

fn chart(title: &str, curves: &[Curve]) -> String {
    let most = curves.iter().flat_map(|curve| &curve.us).copied();
    let (step, top) = ticks(most.fold(1.0, f64::max));
    let x = |hops: f64| LEFT + hops / f64::from(HOPS) * (WIDTH - LEFT - RIGHT);
    let y = |us: f64| HEIGHT - BOTTOM - us / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#2b2f36\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
    );
    let mut at = 0.0;
    while at <= top * 1.001 {
        let line = y(at);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{line:.1}\" y2=\"{line:.1}\" stroke=\"#e3e5e8\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at:.0}</text>",
            x(f64::from(HOPS)),
            LEFT - 8.0,
            line + 4.0,
        );
        at += step;
    }
    for hops in (0..=HOPS).step_by(4) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{hops}</text>",
            x(hops.into()),
            HEIGHT - BOTTOM + 18.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">transparent clocks in the path</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">µs</text>",
        x(f64::from(HOPS) / 2.0),
        HEIGHT - 12.0,
        LEFT - 8.0,
        TOP - 12.0,
    );
    for (curve, colour) in curves.iter().zip(&COLOURS[COLOURS.len() - curves.len()..]) {
        let points: Vec<_> = (0u32..)
            .zip(&curve.us)
            .map(|(hops, us)| format!("{:.1},{:.1}", x(hops.into()), y(*us)))
            .collect();
        let Some(last) = curve.us.last() else {
            continue;
        };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" \
             stroke-linejoin=\"round\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            x(f64::from(HOPS)) + 8.0,
            y(*last) + 4.0,
            curve.name,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a step of 1, 2 or 5 times a power of ten for an axis up to `most`, and the end of the
/// axis.
fn ticks(most: f64) -> (f64, f64) {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    (step, (most / step).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::super::BENCH;
    use super::*;

    #[test]
    fn the_axis_ends_above_the_largest_value_at_a_round_number() {
        assert_eq!(ticks(215.0), (50.0, 250.0));
        assert_eq!(ticks(19_700.0), (5_000.0, 20_000.0));
    }

    #[test]
    fn the_page_shows_measured_figures_and_a_dash_for_the_rest() {
        let figures: Vec<_> = (0..=HOPS)
            .map(|hops| {
                Figure::new(
                    BENCH,
                    "sign_bls_ns",
                    "ns",
                    &[200_000.0 + 1e3 * f64::from(hops)],
                )
                .with("hops", hops)
            })
            .collect();
        let [(_, page), (_, signing), (_, verification)] = document(&figures, "a machine");
        assert!(
            page.contains("| 16 | 216 | – | – | – | – | – | – |"),
            "{page}"
        );
        assert_eq!(signing.matches("<polyline").count(), 1);
        assert!(signing.contains(">BLS12-381</text>"));
        assert!(!verification.contains("BLS, aggregate"));
    }
}
