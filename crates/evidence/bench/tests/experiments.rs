//! End-to-end tests of the experiments: their conclusions, and the completeness of their pages.

use timeloom_bench::lab::{dvfs, ntp_steps};

fn row<'a>(rows: &'a [serde_json::Value], key: &str, value: &str) -> &'a serde_json::Value {
    let found = rows.iter().find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("no {key} = {value} in {rows:#?}"))
}

#[test]
fn rvec_increases_where_the_counter_does_not() {
    let experiment = dvfs(None, &[], 1);
    assert_eq!(
        row(&experiment.rows, "figure", "fig9")["raw_not_increasing"],
        4
    );
    for figure in ["fig8", "fig9", "fig10", "fig12", "fig13"] {
        assert_eq!(
            row(&experiment.rows, "figure", figure)["rvec_not_increasing"],
            0
        );
    }
    let wraps = row(&experiment.rows, "run", "wraps, 110.8 s at 800 MHz");
    assert_eq!(wraps["raw_not_increasing"], 20);
    assert_eq!(wraps["rvec_ns"], wraps["true_ns"]);
    assert_eq!(wraps["true_time_within_rvec"], true);
    let directory = tempfile::tempdir().unwrap();
    let written = experiment.write(directory.path()).unwrap();
    // Six figures of the paper, and two charts of a frequency change with its error.
    assert_eq!(written.pictures.len(), 8);
    let page = std::fs::read_to_string(written.page).unwrap();
    for what in ["Table 3", "Table 4", "Table 5", "Figure 13"] {
        assert!(page.contains(what), "{what}");
    }
}

#[test]
fn a_trace_of_the_users_own() {
    let trace = "1 s 800 MHz\n100 us to 400 MHz\n7 s 400 MHz\n20 ms idle\n1 s 1000 MHz";
    let experiment = dvfs(Some(&trace.parse().unwrap()), &[], 1);
    let run = row(&experiment.rows, "run", "trace");
    assert_eq!(run["rvec_not_increasing"], 0);
    assert_eq!(run["true_time_within_rvec"], true);
    assert!(run["raw_ns"].as_i64() < run["rvec_ns"].as_i64());
}

#[test]
fn corrections_grow_with_the_interval() {
    let experiment = ntp_steps(1, true, &[]);
    assert_eq!(experiment.rows.len(), 18);
    assert!(experiment.text().contains("Raspberry Pi, WiFi"));
    assert_eq!(experiment, ntp_steps(1, true, &[]), "one seed, one outcome");
    assert_ne!(experiment, ntp_steps(2, true, &[]));
}
