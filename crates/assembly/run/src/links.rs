//! Changes of links during a run: those that the plan schedules, and those that clients request.
//!
//! A simulated network knows the scheduled changes of its links from the start and makes them
//! itself, at their exact instants; here they are only recorded. Changes of the kernel's links are
//! made here, by a thread that waits for their instants.

use std::sync::Arc;

use timeloom_fabric::{ChangingLink, Fabric};
use timeloom_guest::{Clock, LinkProperties};
use timeloom_scenario::{BitRate, Event, LinkName, LinkState, Medium, NETWORK, Plan, WireChange};
use timeloom_time::{Duration, Instant, Virtual};

use crate::link_error::{LinkChangeError, has_name};
use crate::record::RunRecorder;
use crate::simulated::ModelLinks;
use crate::verdict::Reporter;

/// Links of a run that can change.
pub(crate) struct RunLinks {
    clock: Arc<Clock>,
    run_recorder: RunRecorder,
    model: Option<ModelLinks>,
    kernel: Vec<KernelLink>,
    /// Names of links of the kernel that lead to other agents.
    tunnels: Vec<[String; 2]>,
}

struct KernelLink {
    ends: [String; 2],
    link: ChangingLink,
}

impl RunLinks {
    /// Returns the links of a node's share of a run, `plan`, of which `whole` is the whole plan.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(crate) fn new(
        (plan, whole): (&Plan, &Plan),
        fabric: &Fabric,
        model: Option<ModelLinks>,
        clock: &Arc<Clock>,
        run_recorder: &RunRecorder,
    ) -> std::io::Result<Self> {
        let mut kernel = Vec::new();
        for link in &plan.system.links {
            if plan.medium(link) != Medium::Kernel {
                continue;
            }
            let rate = link.wire.rate.map(BitRate::as_bits_per_s);
            let ends = link.between.clone();
            let changing = fabric.changing_link(ends.each_ref().map(String::as_str), rate)?;
            kernel.extend(changing.map(|link| KernelLink { ends, link }));
        }
        let placement = &whole.placement;
        let leads_away = |ends: &&[String; 2]| {
            let [a, b] = ends.each_ref().map(|node| placement.of_node(node));
            a != b && whole.network.is_none()
        };
        let links = whole.system.links.iter().map(|link| &link.between);
        Ok(Self {
            clock: Arc::clone(clock),
            run_recorder: run_recorder.clone(),
            model,
            kernel,
            tunnels: links.filter(leads_away).cloned().collect(),
        })
    }

    /// Changes a link now, as a client requests.
    pub(crate) fn change(
        &self,
        link: &str,
        change: &LinkProperties,
    ) -> Result<(), LinkChangeError> {
        if change.is_empty() {
            return Err(LinkChangeError::Nothing);
        }
        let change = of_properties(change)?;
        let has_name = |ends: &[String; 2]| has_name(ends, link);
        if let Some(found) = self.kernel.iter().find(|it| has_name(&it.ends)) {
            if change.is_beyond_the_kernel() {
                return Err(LinkChangeError::BeyondTheKernel);
            }
            return found.change(&change, &self.clock, &self.run_recorder);
        }
        if self.tunnels.iter().any(has_name) {
            return Err(LinkChangeError::Tunnel(link.to_owned()));
        }
        let Some(model) = &self.model else {
            return Err(self.unknown(link));
        };
        let found = model.named(link).ok_or_else(|| self.unknown(link))?;
        let at = model.change(found, &change, self.clock.now())?;
        self.run_recorder
            .event_at(at, NETWORK, LINK_EVENT, &text(found.name, &change));
        Ok(())
    }

    /// Makes the scheduled changes of the kernel's links and records all scheduled changes, until
    /// the last one is done or `over` returns true.
    pub(crate) fn follow(&self, plan: &Plan, reporter: &Reporter, over: impl Fn() -> bool) {
        let mut events: Vec<&Event> = plan.events.iter().collect();
        events.sort_by_key(|event| event.at);
        for event in events {
            let Some(name) = &event.link else { continue };
            let at = Instant::ZERO + event.at;
            let kernels = |it: &&KernelLink| names(name, &it.ends);
            if let Some(link) = self.kernel.iter().find(kernels) {
                // Time does not skip beyond the instant before the change is made.
                let _mark = self.clock.mark(at);
                if !self.clock.wait_until(at, &over) {
                    return;
                }
                if let Err(error) = link.change(&event.wire, &self.clock, &self.run_recorder) {
                    reporter.failed("network", error.to_string());
                }
                continue;
            }
            let is_due = self.clock.wait_until_in_the_background(at, &over);
            // At the end of a run, the network has reached the present instant.
            if !is_due && self.clock.now() < at {
                return;
            }
            self.record(name, event, at);
        }
    }

    /// Records a change that the simulated network makes itself. One agent of several does so.
    fn record(&self, name: &LinkName, event: &Event, at: Instant<Virtual>) {
        let Some(model) = self.model.as_ref().filter(|model| model.records) else {
            return;
        };
        let found = model
            .cable(name)
            .map_or_else(|| name.to_string(), str::to_owned);
        self.run_recorder
            .event_at(at, NETWORK, LINK_EVENT, &text(&found, &event.wire));
    }

    fn unknown(&self, link: &str) -> LinkChangeError {
        let kernel = self.kernel.iter().map(|it| it.ends.join("-"));
        let model = self.model.iter().flat_map(ModelLinks::names);
        let known: Vec<String> = kernel.chain(model.map(str::to_owned)).collect();
        let shown = &known[..known.len().min(MOST_NAMED)];
        let hint = match shown.is_empty() {
            true => "; the network of this run has no links".to_owned(),
            false => format!("; there are {}", shown.join(", ")),
        };
        let more = if known.len() > MOST_NAMED { " …" } else { "" };
        LinkChangeError::Unknown {
            link: link.chars().take(LONGEST_NAME).collect(),
            hint: hint + more,
        }
    }
}

impl KernelLink {
    fn change(
        &self,
        change: &WireChange,
        clock: &Clock,
        run_recorder: &RunRecorder,
    ) -> Result<(), LinkChangeError> {
        let name = self.ends.join("-");
        let rate = change.rate.map(BitRate::as_bits_per_s);
        let up = change.state.map(|state| state == LinkState::Up);
        let at = clock.now();
        let changed = self.link.change(rate, up);
        changed.map_err(|error| LinkChangeError::Fixed {
            link: name.clone(),
            reason: error.to_string(),
        })?;
        run_recorder.event_at(at, NETWORK, LINK_EVENT, &text(&name, change));
        Ok(())
    }
}

fn names(name: &LinkName, [a, b]: &[String; 2]) -> bool {
    match name {
        LinkName::Ends([first, second]) => (first, second) == (a, b) || (second, first) == (a, b),
        LinkName::Named(_) => false,
    }
}

fn of_properties(change: &LinkProperties) -> Result<WireChange, LinkChangeError> {
    let rate = change.rate_bps.map(BitRate::from_bits_per_s);
    if rate == Some(None) {
        return Err(LinkChangeError::Value("a rate must be at least 1 bit/s"));
    }
    if change.loss.is_some_and(|loss| !(0.0..=1.0).contains(&loss)) {
        let reason = "a loss is a probability from 0 to 1; 1 % is 0.01";
        return Err(LinkChangeError::Value(reason));
    }
    let is_valid = |ns: i64| (0..=LONGEST_NS).contains(&ns);
    if ![change.delay_ns, change.jitter_ns]
        .into_iter()
        .flatten()
        .all(is_valid)
    {
        let reason = "a delay and a jitter are at least 0, and at most an hour";
        return Err(LinkChangeError::Value(reason));
    }
    Ok(WireChange {
        rate: rate.flatten(),
        delay: change.delay_ns.map(Duration::from_ns),
        jitter: change.jitter_ns.map(Duration::from_ns),
        loss: change.loss,
        state: change.up.map(|up| match up {
            true => LinkState::Up,
            false => LinkState::Down,
        }),
    })
}

fn text(name: &str, change: &WireChange) -> String {
    format!("{name}: {change}")
}

/// Kind of the event that records a change.
const LINK_EVENT: &str = "link";
/// Number of links that a message names.
const MOST_NAMED: usize = 20;
/// Maximum length of a link's name in a message, in characters.
const LONGEST_NAME: usize = 80;
/// Longest delay that a client may request, in nanoseconds.
const LONGEST_NS: i64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_of_a_client_are_refused() {
        let of = |change: LinkProperties| of_properties(&change).err().map(|it| it.to_string());
        let none = LinkProperties::default();
        for (change, part) in [
            (
                LinkProperties {
                    rate_bps: Some(0),
                    ..none
                },
                "rate",
            ),
            (
                LinkProperties {
                    loss: Some(f64::NAN),
                    ..none
                },
                "probability",
            ),
            (
                LinkProperties {
                    delay_ns: Some(-1),
                    ..none
                },
                "at least 0",
            ),
            (
                LinkProperties {
                    jitter_ns: Some(i64::MAX),
                    ..none
                },
                "an hour",
            ),
        ] {
            let refused = of(change).unwrap_or_default();
            assert!(refused.contains(part), "{change:?}: {refused}");
        }
        assert_eq!(
            of(LinkProperties {
                loss: Some(1.0),
                ..none
            }),
            None
        );
    }
}
