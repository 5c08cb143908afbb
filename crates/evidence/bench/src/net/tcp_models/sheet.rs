//! Page of the comparison: a table and charts.

use timeloom_net::Control;
use timeloom_results::report::{Chart, Curve, Sheet, SheetPart};

use super::{BOUND, CONTROLS, Effort, Found, LOSSES, RATE_BPS, control_name, mean};
use crate::{median, percentile};

pub(super) fn sheet(found: &[Found], effort: Effort, late: &[f64]) -> Sheet {
    let columns = [
        "control",
        "loss (%)",
        "round trip (ms)",
        "kernel (Mbit/s)",
        "model (Mbit/s)",
        "kernel ÷ model",
        "within the bound",
        "sending at once ÷ model",
        "model, 5–95 % of seeds",
        "formula (Mbit/s)",
        "model ÷ formula",
        "round trip, kernel (ms)",
        "sent again (‰), kernel",
        "model",
        "timeouts, model",
    ];
    let lead = format!(
        "One flow over {} Mbit/s with a queue of one bandwidth-delay product; independent loss of data, none \
         of acknowledgements. iperf3 between two namespaces and the model over the same link with the same seeds: \
         {} seeds, {} s each after the first {} s. The model alone: {} seeds. “Sending at once” is a kernel \
         that does not wait until a third of its window can go out as one piece (tcp_tso_win_divisor = 255). The bound of \
         kernel ÷ model is {} to {}.",
        RATE_BPS / 1_000_000,
        effort.seeds,
        effort.seconds,
        effort.omit_s,
        effort.model_seeds,
        BOUND.0,
        BOUND.1
    );
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Sheet {
        title: "The models of TCP against the kernel".to_owned(),
        lead,
        parts: vec![
            SheetPart::Table {
                heading: "Goodput".to_owned(),
                columns: columns.map(str::to_owned).to_vec(),
                rows: found.iter().map(cells).collect(),
                note: format!(
                    "Kernel {}. The formulas are equation 30 of Padhye et al. (SIGCOMM 1998) and equation 6 of \
                     RFC 9438 with its Reno-friendly region, no more than the link carries. Of the engine's events \
                     {:.3} % were more than 1 ms late (median of the runs; worst {:.3} %).",
                    version.trim(),
                    median(late) * 100.0,
                    percentile(late, 100.0) * 100.0
                ),
            },
            SheetPart::Figure {
                charts: CONTROLS
                    .iter()
                    .filter(|control| found.iter().any(|found| found.cell.control == **control))
                    .map(|control| chart(found, *control))
                    .collect(),
                lead: "Goodput of the kernel over that of the model.".to_owned(),
                caption: "One is equality. A curve for each probability of loss.".to_owned(),
            },
        ],
    }
}

fn cells(found: &Found) -> Vec<String> {
    let kernel = mean(&found.kernel_mbps);
    vec![
        control_name(found.cell.control).to_owned(),
        format!("{}", found.cell.loss * 100.0),
        format!("{}", found.cell.round_trip.as_ns() / 1_000_000),
        format!("{kernel:.2}"),
        format!("{:.2}", mean(&found.model_mbps)),
        format!("{:.3}", found.ratio()),
        (if found.is_within() { "yes" } else { "no" }).to_owned(),
        format!("{:.3}", found.at_once_ratio()),
        format!(
            "{:.2}–{:.2}",
            percentile(&found.spread_mbps, 5.0),
            percentile(&found.spread_mbps, 95.0)
        ),
        format!("{:.2}", found.formula_mbps),
        format!("{:.3}", mean(&found.spread_mbps) / found.formula_mbps),
        format!("{:.1}", mean(&found.kernel_round_trip_ms)),
        format!("{:.2}", mean(&found.kernel_again)),
        format!("{:.2}", mean(&found.model_again)),
        format!("{}", found.model_timeouts),
    ]
}

fn chart(found: &[Found], control: Control) -> Chart {
    let curves = LOSSES.iter().map(|(_, loss)| {
        let of_loss = found
            .iter()
            .filter(|found| found.cell.control == control && found.cell.loss == *loss);
        let point = |found: &Found| (found.cell.round_trip.as_s_f64() * 1e3, found.ratio());
        Curve {
            label: format!("{} % loss", loss * 100.0),
            points: of_loss.map(point).collect(),
        }
    });
    let name = control_name(control);
    Chart {
        bands: Vec::new(),
        name: format!("tcp-{name}"),
        title: name.to_owned(),
        x_label: "round trip (ms)".to_owned(),
        y_label: "kernel ÷ model".to_owned(),
        curves: curves.collect(),
    }
}
