//! Checks of times: events must lie within the run.

use timeloom_guest::{Compute, FileTimes, Tsc};
use timeloom_time::Duration;

use super::{Rules, at};
use crate::plan::{Mode, Time};
use crate::table::span;

pub(super) fn check(rules: &mut Rules<'_>) {
    let time = &rules.plan.time;
    positive(rules, &at(&[], ["time", "duration"]), time.duration);
    if !Time::DILATIONS.contains(&time.dilation) {
        let message = format!("a dilation of {} is out of range", time.dilation);
        let help = format!("it must lie in {}", span(&Time::DILATIONS));
        rules.broken(&["time", "dilation"], message, help);
    } else if time.mode == Mode::Real && time.dilation != 1.0 {
        let help = "leave `dilation` out, or use `mode = \"virtual\"`";
        rules.broken(&["time", "dilation"], "real time cannot be dilated", help);
    }
    if time.mode == Mode::Real && time.tsc != Tsc::Native {
        let help = "leave `tsc` out, or use `mode = \"virtual\"`";
        let message = "in real time the counter is the machine's";
        rules.broken(&["time", "tsc"], message, help);
    }
    if time.mode == Mode::Real && time.files != FileTimes::Machine {
        let message = "with `mode = \"real\"` dates of files are the machine's";
        let help = "leave `files` out, or use `mode = \"virtual\"`";
        rules.broken(&["time", "files"], message, help);
    }
    if time.compute == Compute::None && !time.skips() && rules.was_read(&["time", "mode"]) {
        let message = "time that stops while programs compute advances only by skipping";
        let help = "use `mode = \"skip\"`, or `stepped = { skip = true }`";
        rules.broken(&["time", "compute"], message, help);
    }
    if let Some(period) = time.period {
        positive(rules, &at(&[], ["time", "period"]), period);
        let refused = match time.mode {
            Mode::Real => Some(("real time is never stopped", "use `mode = \"virtual\"`")),
            Mode::Stepped => Some((
                "granted time stops at the end of each grant",
                "leave `period` out, and grant one period at a time",
            )),
            Mode::Virtual | Mode::Skip => None,
        };
        if let Some((message, help)) = refused {
            rules.broken(&["time", "period"], message, help);
        }
    }
    if let Some(stepped) = &time.stepped {
        let patience = at(&[], ["time", "stepped", "patience"]);
        positive(rules, &patience, stepped.patience);
    }
    plants(rules);
    events(rules);
}

fn plants(rules: &mut Rules<'_>) {
    for (name, plant) in &rules.plan.simulation.plants {
        let path = at(&[], ["simulation", "plants", name]);
        positive(rules, &at(&path, ["step"]), plant.step);
        positive(rules, &at(&path, ["timeout"]), plant.timeout);
        let every = at(&path, ["record", "every"]);
        if !rules.part_was_read(&path, "step") || !rules.report.was_read(&every) {
            continue;
        }
        positive(rules, &every, plant.record.every);
        let (step_ns, every_ns) = (plant.step.as_ns(), plant.record.every.as_ns());
        if step_ns > 0 && every_ns % step_ns != 0 {
            let message = format!(
                "`{name}` has a state every {}, so it cannot be recorded every {}",
                plant.step, plant.record.every
            );
            rules.broken(&every, message, "use a multiple of its `step`");
        }
    }
}

fn events(rules: &mut Rules<'_>) {
    for placed in rules.programs() {
        let path = at(&placed.path, ["ready_timeout"]);
        positive(rules, &path, placed.program.ready_timeout);
        // The programs of a disabled attack do not start during the run.
        if !placed.runs {
            continue;
        }
        // If the start of a program comes from a wrong `at`, the mistake is reported there.
        let attack = placed
            .attack
            .map(|number| (number, &rules.plan.attacks[number]));
        let inherited = attack.is_some_and(|(_, attack)| attack.at == Some(placed.program.start));
        if inherited {
            continue;
        }
        let path = at(&placed.path, ["start"]);
        within(rules, &path, placed.program.start);
        let begins = attack.and_then(|(number, attack)| Some((number, attack.at?)));
        let Some((number, begins)) = begins else {
            continue;
        };
        let begin = at(&[], ["attack", &number.to_string(), "at"]);
        if within(rules, &begin, begins) && placed.program.start < begins {
            let message = format!("this instant is before the attack begins, at {begins}");
            let help = "the results label as hostile only what comes after: move `start` or `at`";
            rules.broken(&path, message, help);
        }
    }
    let attacks = rules.plan.attacks.iter().enumerate();
    for (number, attack) in attacks.filter(|(_, attack)| attack.enabled) {
        if let Some(begins) = attack.at {
            within(
                rules,
                &at(&[], ["attack", &number.to_string(), "at"]),
                begins,
            );
        }
    }
    for (number, check) in rules.plan.checks.iter().enumerate() {
        let path = at(&[], ["check", &number.to_string(), "assert"]);
        let applies = rules.plan.applies(check);
        if let Some(from) = check.assert.from.filter(|_| applies) {
            within(rules, &path, from);
        }
    }
}

fn positive(rules: &mut Rules<'_>, path: &[String], length: Duration) {
    if length <= Duration::ZERO {
        rules.broken(path, "this length of time must be greater than 0", "");
    }
}

/// Checks that a time is within the run, before its end.
pub(super) fn within(rules: &mut Rules<'_>, path: &[String], moment: Duration) -> bool {
    let duration = rules.plan.time.duration;
    if moment < Duration::ZERO {
        rules.broken(path, format!("{moment} is before the run begins"), "");
        return false;
    }
    let limited = rules.was_read(&["time", "duration"]) && duration > Duration::ZERO;
    if limited && moment >= duration {
        let message = format!("{moment} is not before the end of the run, at {duration}");
        rules.broken(
            path,
            message,
            "choose an earlier time or a longer `time.duration`",
        );
        return false;
    }
    rules.report.was_read(path)
}
