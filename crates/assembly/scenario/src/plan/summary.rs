//! Summary of a plan in one sentence, for `timeloom check` and the head of the report.

use crate::plan::Plan;

impl Plan {
    /// Returns the parts and the duration, such as `2 programs on 3 hosts, 2 devices, 4 switches,
    /// plant grid, attack dos, 90 s of virtual time`.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        let system = &self.system;
        let programs = self.programs().count();
        let hosts = count(system.hosts.len(), "host").unwrap_or_else(|| "no host".to_owned());
        parts.push(match count(programs, "program") {
            Some(programs) => format!("{programs} on {hosts}"),
            None => hosts,
        });
        parts.extend(count(system.devices.len(), "device"));
        parts.extend(count(system.switches.len(), "switch"));
        parts.extend(names("plant", self.simulation.plants.keys()));
        let enabled = self.attacks.iter().filter(|attack| attack.enabled);
        parts.extend(names("attack", enabled.map(|attack| &attack.id)));
        parts.push(format!("{} of virtual time", self.time.duration));
        parts.join(", ")
    }
}

/// Formats a number with a noun, such as `3 hosts`; `None` for zero.
fn count(number: usize, noun: &str) -> Option<String> {
    let plural = if noun.ends_with('h') { "es" } else { "s" };
    match number {
        0 => None,
        1 => Some(format!("1 {noun}")),
        _ => Some(format!("{number} {noun}{plural}")),
    }
}

/// Formats names with a noun, such as `plants grid and tank`; `None` if there are no names.
fn names<'a>(noun: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("{noun} {one}")),
        [most @ .., last] => Some(format!("{noun}s {} and {last}", most.join(", "))),
    }
}
