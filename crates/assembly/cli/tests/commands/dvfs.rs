//! Hosts that count a core's cycles, by a trace and under a governor. The scenario
//! itself says how far their clocks may be off.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::passed;

use timeloom_results::RunDirectory;

#[test]
fn a_clock_made_of_cycles_increases_over_changes_and_is_behind_by_what_it_says() {
    let directory = std::env::temp_dir().join(format!("timeloom-dvfs-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/dvfs/dvfs.toml", "-o"])
        .arg(&directory)
        .current_dir(root)
        .output()
        .expect("our own program");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for host in ["board", "governed"] {
        let log = fs::read_to_string(directory.join(format!("logs/{host}.log")));
        let log = log.unwrap_or_default();
        assert!(log.contains("not_increasing=0"), "{host}: {log}\n{text}");
    }
    assert!(passed(output.status), "{text}");
    let run = RunDirectory::open(&directory).expect("a run");
    for host in ["board", "governed"] {
        let names = ["offset", "missing"].map(|name| format!("{host}.clock.{name}"));
        let series = run.series(&[&names[0], &names[1]]).expect("recorded");
        let values = |index: usize| series[index].samples.iter().map(|(_, value)| *value);
        let mut seen = 0;
        for (offset, missing) in values(0).zip(values(1)) {
            // To the nanosecond of a host's clock, and a cycle.
            assert!(
                offset <= 1e-8 && -offset <= missing + 1e-8,
                "{host}: {offset} {missing}"
            );
            seen += 1;
        }
        assert!(seen >= 10, "one a second: {seen}");
        let least = values(0).fold(0f64, f64::min);
        println!("{host} is {:.1} µs behind", -least * 1e6);
    }
    fs::remove_dir_all(&directory).expect("our own");
}
