//! Every program must receive a seed of its own, which is derived from the scenario's seed.

use crate::support::{Lab, Scenario, log_lines};

/// Returns the seeds that two programs and the plant have received, and the seed of a program for
/// which the scenario sets it.
fn seeds(lab: &Lab, seed: u64) -> [String; 4] {
    lab.start_with(&["--replace"], &[&format!("seed={seed}")])
        .wait()
        .succeeded();
    let log = |name: &str| {
        let text = std::fs::read_to_string(lab.run_path().join(format!("logs/{name}.log")));
        let text = text.expect("there is a log");
        text.trim().rsplit(' ').next().map(str::to_owned)
    };
    let plant = log("plant-world").expect("it printed its own");
    let line = |name: &str| log_lines(&lab.run_path(), name)[0].1.clone();
    [line("one"), line("two"), line("own"), plant]
}

#[test]
fn each_program_has_a_seed_of_its_own_that_follows_the_scenario_s() {
    let say = ["sh", "-c", "echo $TIMELOOM_SEED; sleep 1000"];
    let own = "env = { TIMELOOM_SEED = \"mine\" }";
    let scenario = Scenario::lasting("300 ms")
        .program('a', "one", &say, "")
        .program('b', "two", &say, "")
        .program('b', "own", &say, own)
        .plant("{}");
    let plant = "\"-c\", \"import os; print(os.environ['TIMELOOM_SEED'], flush=True); \
                 exec(open('plant.py').read())\"";
    let lab = Lab::with_text(&scenario.to_toml().replace("\"plant.py\"", plant));
    let first = seeds(&lab, 7);
    for seed in [&first[0], &first[1], &first[3]] {
        seed.parse::<u32>().unwrap_or_else(|_| panic!("{first:?}"));
    }
    assert_eq!(first[2], "mine");
    assert!(first[0] != first[1] && first[0] != first[3], "{first:?}");
    assert_eq!(seeds(&lab, 7), first, "it is the same in each run");
    let other = seeds(&lab, 8);
    for index in [0, 1, 3] {
        assert_ne!(other[index], first[index], "{other:?}");
    }
    lab.assert_nothing_left();
}
