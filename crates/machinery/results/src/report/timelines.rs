//! Section about the times at which each host knew that its timelines were unreliable. It lists the
//! changes of status that the daemons recorded, and the attack that preceded each loss.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::data::{RunData, seconds};
use super::markup::{NAME_CHARS, escape, section_head, shortened};
use super::number::fixed;
use crate::EventRow;

/// Kind of an event that is a change of status.
const STATUS: &str = "status";
/// Text for the status of a reliable timeline.
const OK: &str = "ok";

/// Changes of status of all timelines, by host and timeline.
#[derive(Default)]
pub(super) struct StatusChanges {
    by_timeline: BTreeMap<(String, String), Vec<Change>>,
    left_out: usize,
}

struct Change {
    at_s: f64,
    status: String,
    why: String,
}

/// Interval of virtual time in which a timeline was unreliable.
struct Loss<'a> {
    host: &'a str,
    timeline: &'a str,
    change: &'a Change,
    /// End of the interval; `None` if it lasted until the end of the run.
    until_s: Option<f64>,
}

impl StatusChanges {
    /// Adds an event if it is a change of a timeline's status; ignores all other events.
    pub(super) fn take(&mut self, event: &EventRow) {
        let Some(timeline) = event.source.strip_prefix("timeline.") else {
            return;
        };
        let Some((_, after)) = event.text.split_once(" → ") else {
            return;
        };
        if &*event.kind != STATUS {
            return;
        }
        let (status, why) = match after.split_once(" (") {
            Some((status, why)) => (status, why.strip_suffix(')').unwrap_or(why)),
            None => (after, ""),
        };
        let key = (event.host.to_string(), timeline.to_owned());
        let changes = self.by_timeline.entry(key).or_default();
        if changes.len() >= MOST_CHANGES {
            self.left_out += 1;
            return;
        }
        changes.push(Change {
            at_s: seconds(event.t_virtual),
            status: status.to_owned(),
            why: why.to_owned(),
        });
    }

    /// Sorts the changes by time, because they may have been recorded in another order.
    pub(super) fn sort(&mut self) {
        for changes in self.by_timeline.values_mut() {
            changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        }
    }

    /// Returns the intervals that begin with a change from `ok` to another status, sorted by time.
    fn losses(&self) -> Vec<Loss<'_>> {
        let mut losses = Vec::new();
        for ((host, timeline), changes) in &self.by_timeline {
            let mut was_ok = false;
            for (index, change) in changes.iter().enumerate() {
                let is_ok = change.status == OK;
                if was_ok && !is_ok {
                    let again = changes[index..].iter().find(|later| later.status == OK);
                    losses.push(Loss {
                        host,
                        timeline,
                        change,
                        until_s: again.map(|again| again.at_s),
                    });
                }
                was_ok = is_ok;
            }
        }
        losses.sort_by(|a, b| a.change.at_s.total_cmp(&b.change.at_s));
        losses
    }
}

/// Appends the section, with a part for each run that has timelines. Appends nothing if none has.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    let with_timelines = |run: &&RunData| !run.statuses.by_timeline.is_empty();
    if !runs.iter().any(|run| with_timelines(&run)) {
        return;
    }
    section_head(out, "Detection by timelines of hosts");
    for run in runs.iter().filter(with_timelines) {
        if runs.len() > 1 {
            let _ = writeln!(out, "<h3>{}</h3>", escape(&run.label));
        }
        table(out, run);
    }
    out.push_str("</section>\n");
}

fn table(out: &mut String, run: &RunData) {
    let losses = run.statuses.losses();
    let mut rows: Vec<[String; 6]> = losses.iter().map(|loss| row(run, loss)).collect();
    for label in &run.labels {
        let (from, to) = (seconds(label.start), seconds(label.end));
        for (host, timeline) in run.statuses.by_timeline.keys() {
            let during = |loss: &Loss<'_>| {
                (loss.host, loss.timeline) == (host, timeline)
                    && (from..=to).contains(&loss.change.at_s)
            };
            if !losses.iter().any(during) {
                rows.push([
                    host.clone(),
                    timeline.clone(),
                    "never".to_owned(),
                    label.attack.to_string(),
                    "no change of status".to_owned(),
                    String::new(),
                ]);
            }
        }
    }
    if rows.is_empty() {
        out.push_str("<p>No timeline lost its status <code>ok</code>.</p>\n");
        return;
    }
    out.push_str(
        "<table tabindex=\"0\">\n<thead><tr><th>Host</th><th>Timeline</th><th class=\"n\">Detected at</th>\
         <th>After the attack</th><th>Status</th><th class=\"n\">Ok again</th></tr></thead>\n<tbody>\n",
    );
    for [host, timeline, at, after, status, again] in rows.iter().take(MOST_ROWS) {
        let _ = writeln!(
            out,
            "<tr><td class=\"label\">{}</td><td class=\"label\">{}</td><td class=\"n\">{}</td>\
             <td class=\"any\">{}</td><td class=\"any\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&shortened(host, NAME_CHARS)),
            escape(&shortened(timeline, NAME_CHARS)),
            escape(at),
            escape(after),
            escape(status),
            escape(again),
        );
    }
    out.push_str("</tbody>\n</table>\n");
    let hidden = rows.len().saturating_sub(MOST_ROWS) + run.statuses.left_out;
    if hidden > 0 {
        let _ = writeln!(
            out,
            "<p class=\"other\">{hidden} more are in events.parquet.</p>"
        );
    }
}

fn row(run: &RunData, loss: &Loss<'_>) -> [String; 6] {
    let Change { at_s, status, why } = loss.change;
    let begun = run
        .labels
        .iter()
        .filter(|label| (seconds(label.start)..=seconds(label.end)).contains(at_s));
    let last = begun.max_by_key(|label| label.start);
    let after = last.map(|label| {
        let since_s = at_s - seconds(label.start);
        format!("{} + {} s", label.attack, fixed(since_s, 6))
    });
    let why = match why.as_str() {
        "" => status.clone(),
        why => format!("{status}: {why}"),
    };
    let again = match loss.until_s {
        Some(at_s) => format!("{} s", fixed(at_s, 6)),
        None => "not by the end".to_owned(),
    };
    [
        loss.host.to_owned(),
        loss.timeline.to_owned(),
        format!("{} s", fixed(*at_s, 6)),
        after.unwrap_or_default(),
        why,
        again,
    ]
}

/// Maximum number of changes that are kept for one timeline; far more than a page shows.
const MOST_CHANGES: usize = 1_000;
const MOST_ROWS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelRow;
    use timeloom_time::Instant;

    fn at(ms: i64) -> Instant<timeloom_time::Virtual> {
        Instant::from_ns(ms * 1_000_000)
    }

    fn status(host: &str, ms: i64, text: &str) -> EventRow {
        EventRow {
            t_virtual: at(ms),
            t_wall: Instant::ZERO,
            host: host.into(),
            source: "timeline.plant".into(),
            kind: STATUS.into(),
            text: text.into(),
        }
    }

    #[test]
    fn each_loss_stands_beside_its_attack_and_unaffected_hosts_are_named() {
        let mut run = RunData::default();
        let events = [
            status("a", 6_000, "disrupted → ok"),
            status("a", 500, "never synchronised → ok"),
            status("a", 5_250, "ok → disrupted (the system clock was set)"),
            status("b", 400, "never synchronised → ok"),
        ];
        events.iter().for_each(|event| run.statuses.take(event));
        run.statuses.sort();
        run.labels.push(LabelRow {
            start: at(5_000),
            end: at(9_000),
            technique: "T0856".into(),
            target: "a".into(),
            attack: "step".into(),
        });
        let mut out = String::new();
        section(&mut out, &[run]);
        for part in [
            "step + 0.250000 s",
            "disrupted: the system clock was set",
            "6.000000 s",
            "<td class=\"label\">b</td><td class=\"label\">plant</td><td class=\"n\">never</td>",
        ] {
            assert!(out.contains(part), "{part} in {out}");
        }
        assert_eq!(out.matches("<tr><td").count(), 2, "{out}");
    }
}
