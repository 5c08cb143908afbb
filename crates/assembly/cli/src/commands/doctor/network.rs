//! Tests of the features that `timeloom run` needs in addition: the network of an experiment.

use super::{Finding, Need, State};

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![rights()];
    findings.extend(timeloom_fabric::probe().into_iter().map(|feature| {
        let name = format!("network: {}", feature.name);
        if feature.available {
            return Finding::good(Need::Run, &name, feature.detail);
        }
        let (state, consequence) = without(feature.name);
        let fix = if feature.detail.starts_with("not tried") {
            "fix the missing requirement above"
        } else if feature.name == "Open vSwitch" {
            "apt-get install openvswitch-switch"
        } else if feature.name == "CUBIC in virtual time" && is_root() {
            "use Linux 6.4 or later with BTF (CONFIG_DEBUG_INFO_BTF), outside containers"
        } else if is_root() {
            "use a kernel that has it; in a container, give it CAP_NET_ADMIN and CAP_SYS_ADMIN"
        } else {
            "run as root"
        };
        Finding::bad(state, Need::Run, &name, feature.detail).so(consequence, fix)
    }));
    findings
}

/// Returns what is lost if a feature of the fabric is not available.
fn without(feature: &str) -> (State, &'static str) {
    match feature {
        "tbf" => (State::Degraded, "links cannot have a `rate`"),
        "Open vSwitch" => (
            State::Degraded,
            "no switch speaks OpenFlow (`[system.openflow]`)",
        ),
        "CUBIC in virtual time" => (
            State::Degraded,
            "connections that request CUBIC have Reno in mode `skip`, and the run is UNTRUSTED \
             under losses",
        ),
        "capture" => (State::Degraded, "`[[capture]]` cannot record packets"),
        _ => (
            State::Missing,
            "no network can be built: `timeloom run` does not work here",
        ),
    }
}

fn rights() -> Finding {
    let name = "rights";
    let lacking: Vec<&str> = NEEDED
        .iter()
        .filter(|(bit, _)| capabilities() & (1 << bit) == 0)
        .map(|(_, name)| *name)
        .collect();
    let user = if is_root() { "root" } else { "not root" };
    if lacking.is_empty() {
        return Finding::good(
            Need::Run,
            name,
            format!("{user}, with CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        );
    }
    let detail = format!("{user}, without {}", lacking.join(" and "));
    Finding::bad(State::Missing, Need::Run, name, detail).so(
        "`timeloom run` cannot make network namespaces; `timeloom exec` needs no rights",
        "run as root (sudo), in a container with these capabilities (--privileged)",
    )
}

const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

/// Returns the effective capabilities of this process as a mask, with one bit for each.
fn capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
