//! Checks of timelines of hosts, with the rules of the daemon.

use timeloom_time::Duration;
use timeloom_timeline::protocol::TimelineName;
use timeloom_timelined::config::{DaemonConfig, SourceConfig};

use super::{Rules, at};
use crate::plan::TimelineSpec;

pub(super) fn check(rules: &mut Rules<'_>) {
    for (host, described) in &rules.plan.system.hosts {
        for (name, timeline) in &described.timelines {
            let path = at(&[], ["system", "hosts", host, "timelines", name]);
            if let Err(bad) = name.parse::<TimelineName>() {
                let help = "files are called after it";
                rules.misplaced(&path, bad.to_string(), help);
                continue;
            }
            lengths(rules, timeline, &path);
            if sources(rules, timeline, &path) && rules.report.stands(&path) {
                whole(rules, name, timeline, &path);
            }
        }
    }
}

fn lengths(rules: &mut Rules<'_>, timeline: &TimelineSpec, path: &[String]) {
    if timeline.every < SHORTEST && rules.part_was_read(path, "every") {
        let message = format!(
            "an interval of {} between two records is too short",
            timeline.every
        );
        rules.broken(
            &at(path, ["every"]),
            message,
            format!("give at least {SHORTEST}"),
        );
    }
    if timeline
        .accuracy
        .is_some_and(|accuracy| accuracy <= Duration::ZERO)
        && rules.part_was_read(path, "accuracy")
    {
        let help = "give how far true time may lie to either side, as in `50 us`";
        rules.broken(&at(path, ["accuracy"]), "`accuracy` must be above 0", help);
    }
}

/// Checks each source. Returns true if all are valid.
fn sources(rules: &mut Rules<'_>, timeline: &TimelineSpec, path: &[String]) -> bool {
    if !rules.part_was_read(path, "sources") {
        return false;
    }
    let mut good = true;
    for (index, source) in timeline.sources.iter().enumerate() {
        let path = at(path, ["sources", &index.to_string()]);
        let read = toml::Value::try_from(source)
            .map_err(|error| error.to_string())
            .and_then(|value| {
                let source = value.try_into::<SourceConfig>();
                source.map_err(|error| error.message().to_owned())
            });
        match read {
            Err(message) => {
                let help = "the sources and their keys are in docs/timeline.md";
                rules.broken(&path, message, help);
                good = false;
            }
            Ok(SourceConfig::Simulated(_)) => {
                let message = "a `simulated` source follows the host's own oscillator, which is \
                               not true time";
                let help = "let a host whose clock is true keep one from `system-clock` with `vouched_error = \"0 ns\"` and `listen`, and make it a `peer` here";
                rules.broken(&path, message, help);
                good = false;
            }
            Ok(_) => {}
        }
    }
    good
}

/// Checks combinations of values with the daemon's own code.
fn whole(rules: &mut Rules<'_>, name: &str, timeline: &TimelineSpec, path: &[String]) {
    let config = timeline
        .to_table(name)
        .map_err(|error| error.to_string())
        .and_then(|table| {
            let daemon = toml::Table::from_iter([(
                "timeline".to_owned(),
                toml::Value::Array(vec![table.into()]),
            )]);
            let config = daemon.try_into::<DaemonConfig>();
            config.map_err(|error| error.message().to_owned())
        })
        .and_then(|config| config.check().map_err(|bad| bad.0));
    if let Err(message) = config {
        rules.broken(path, message, "the keys are explained in docs/timeline.md");
    }
}

const SHORTEST: Duration = Duration::from_us(100);
