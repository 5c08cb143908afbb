//! Tests of several engines for a simulated network: rejected scenarios, and the estimated cost of
//! the cut.

use timeloom_scenario::{EngineMode, Plan, parse};
use timeloom_time::Duration;

const GOOD: &str = r#"schema = "timeloom/1"
name = "cut"
time = { duration = "10 s", dilation = 4 }
[network]
routers = ["r1", "r2", "r3"]
engines = { count = 2, mode = "exact" }
traffic = []
[system]
links = [
    { between = ["a", "r1"] },
    { between = ["r1", "r2"], delay = "1 ms" },
    { between = ["r2", "r3"], delay = "20 ms", name = "wan" },
    { between = ["r3", "b"] },
]
[system.hosts.a]
address = "10.1.0.1/24"
[system.hosts.b]
address = "10.2.0.1/24"
"#;

fn good(text: &str) -> Plan {
    parse(text, "cut.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn with(engines: &str) -> String {
    GOOD.replace("count = 2, mode = \"exact\"", engines)
}

#[test]
fn the_cut_and_its_cost_are_said_before_the_run() {
    let plan = good(GOOD);
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
    let report = plan.cut_report().join("\n");
    assert!(report.contains("cut: wan (20 ms)"), "the longest: {report}");
    // With this dilation, 20 ms of virtual time are 80 ms of wall time.
    let cost = "up to 12 agreements a second of the machine's time";
    assert!(report.contains(cost), "{report}");
    let parts = plan.simulated().unwrap().unwrap().parts.unwrap();
    assert_eq!(parts.names, ["engine0", "engine1"]);
    assert_eq!(parts.cut().lookahead(), Duration::from_ms(20));

    let named = r#"parts = { west = ["r1"], east = ["r2", "b"] }"#;
    let plan = good(&with(named));
    let engines = plan.network.as_ref().unwrap().engines.as_ref().unwrap();
    assert_eq!((engines.mode, engines.late_ppm()), (EngineMode::Free, 500));
    let report = plan.cut_report().join("\n");
    assert!(report.contains("cut: r1-r2 (1 ms)"), "{report}");
    assert!(
        report.contains("4000 us of the machine's time to cross"),
        "{report}"
    );
    assert!(
        good(&GOOD.replace("engines =", "#"))
            .cut_report()
            .is_empty()
    );
}

#[test]
fn the_directions_between_engines_have_signals() {
    let check = |signal: &str| {
        let check = format!("[[check]]\nname = \"late\"\nassert = \"max({signal}) < 0.1\"\n");
        parse(&format!("{GOOD}{check}"), "cut.toml", &[])
    };
    check("net.cut.engine0-engine1.late").unwrap();
    let wrong = check("net.cut.engine0-engine7.late")
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("the network has no cut"), "{wrong}");
}

#[test]
fn engines_that_cannot_be_are_refused_with_the_reason() {
    for (engines, message) in [
        ("count = 4", "cannot be cut into 4 parts"),
        ("count = 0", "a network must have 1 to 64 engines"),
        ("mode = \"free\"", "either `count` or `parts`"),
        (
            r#"count = 2, parts = { x = ["r1"] }"#,
            "either `count` or `parts`",
        ),
        (
            r#"parts = { x = ["r7"], y = ["r2"] }"#,
            "`r7` is not a node",
        ),
        (
            r#"parts = { x = ["r1"], y = ["r*"] }"#,
            "`r1` is a part of engine `x`",
        ),
        (r#"parts = { x = ["r1", "r3"], y = ["b"] }"#, "has no delay"),
        (
            r#"parts = { "x-y" = ["r1"], z = ["r3"] }"#,
            "not a name of an engine",
        ),
        ("count = 2, late_share = 2", "this is not a share"),
        (
            r#"count = 2, processes = true, mode = "exact""#,
            "engines that are processes cannot wait",
        ),
        ("count = 2, encrypt = true", "nothing to encrypt"),
        (
            r#"count = 2, failure = "restart""#,
            "a thread cannot be restarted",
        ),
        (
            r#"count = 2, mode = "exact", failure = "restart""#,
            "the promises of a dead one are lost",
        ),
        (
            "count = 2, late_after = \"0 s\"",
            "`late_after` must be positive",
        ),
    ] {
        let errors = parse(&with(engines), "cut.toml", &[]).expect_err(engines);
        let text = errors.to_string();
        assert!(text.contains(message), "{engines}: {text}");
        assert_eq!(text.lines().count(), 1, "{engines}: {text}");
    }
}

#[test]
fn free_engines_are_refused_where_time_skips_or_is_granted() {
    let granted = "mode = \"stepped\"";
    for time in [
        "mode = \"skip\"",
        "mode = \"skip\", compute = \"none\"",
        granted,
    ] {
        let waits = GOOD.replace("dilation = 4", time);
        let plan = good(&waits);
        assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
        for (engines, fix) in [
            ("count = 2", "known only if they wait for one another"),
            ("count = 2, processes = true", "leave out `processes`"),
        ] {
            let free = waits.replace("count = 2, mode = \"exact\"", engines);
            let text = parse(&free, "cut.toml", &[]).unwrap_err().to_string();
            assert!(text.contains("engines of mode `free` cannot run"), "{text}");
            assert!(text.contains(fix), "{text}");
            assert!(text.contains("write `mode = \"exact\"`"), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
