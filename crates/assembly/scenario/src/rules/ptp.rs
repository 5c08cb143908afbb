//! Checks of PTP clocks in a simulated network.

use timeloom_ptp::Role;
use timeloom_time::Duration;

use super::{Rules, at};
use crate::plan::{Ptp, PtpAttack, PtpClock, PtpSecurity};

pub(super) fn check(rules: &mut Rules<'_>) {
    real_clocks(rules);
    let Some(network) = &rules.plan.network else {
        return;
    };
    let ptp = network.ptp;
    for (key, interval) in [
        ("sync_interval", ptp.sync_interval),
        ("delay_interval", ptp.delay_interval),
        ("announce_interval", ptp.announce_interval),
    ] {
        if interval.is_some_and(|interval| Ptp::log_of(interval).is_none()) {
            let message = format!("PTP has no such `{key}`");
            let help = "write a power of two of a second from 7812500 ns to 16 s: 1 s, 500 ms, 250 ms, 125 ms, 62500 us …";
            rules.broken(&at(&[], ["network", "ptp", key]), message, help);
        }
    }
    let signed = ptp.security != PtpSecurity::None;
    if ptp.policy.is_some() && !signed {
        let help = "add `security = \"ed25519\"`, or leave out `policy`";
        let message = "`policy` has no effect without signatures";
        rules.broken(&at(&[], ["network", "ptp", "policy"]), message, help);
    }
    for (name, clock) in &network.clocks {
        rogue(rules, name, clock, signed);
        let path = at(&[], ["network", "clocks", name, "resolution"]);
        if !(Duration::from_ns(1)..=Duration::from_ms(1)).contains(&clock.resolution) {
            let help = "a network card's counter has some nanoseconds: 1 ns … 1 ms";
            rules.broken(&path, "no clock has such a resolution", help);
        }
    }
}

/// Checks the roles of real clocks among those of the model.
fn real_clocks(rules: &mut Rules<'_>) {
    let plan = rules.plan;
    let network = plan.network.as_ref();
    let signed = network.is_some_and(|it| it.ptp.security != PtpSecurity::None);
    for (name, host) in &plan.system.hosts {
        let Some(role) = host.ptp else { continue };
        let path = at(&[], ["system", "hosts", name, "ptp"]);
        if role == Role::Transparent {
            let help = "write `grandmaster`, `slave` or `monitor`";
            rules.broken(&path, "a host has one port, so it forwards no time", help);
        } else if plan.is_real(name) || !signed {
            let message = "the host's PTP programs get keys of a network whose clocks sign";
            let help = "set `security` under `[network.ptp]`, or leave out `ptp`";
            rules.broken(&path, message, help);
        } else if host.machine.is_some() || host.container.is_some() {
            let message = "programs in a container or virtual machine do not see the keys";
            let help = "leave out `ptp`, or run the programs on the host itself";
            rules.broken(&path, message, help);
        }
    }
}

/// Checks the attack that a clock performs.
fn rogue(rules: &mut Rules<'_>, name: &str, clock: &PtpClock, signed: bool) {
    let Some(rogue) = clock.rogue else { return };
    let path = at(&[], ["network", "clocks", name, "rogue"]);
    let attack = at(&path, ["attack"]);
    if matches!(clock.role, Role::Slave | Role::Monitor) {
        let help = "let a transparent clock or the grandmaster be the rogue";
        return rules.misplaced(&path, "a slave does not distribute time", help);
    }
    if rogue.attack == PtpAttack::Lie && clock.role != Role::Transparent {
        let help = "let a transparent clock lie";
        rules.broken(
            &attack,
            "only a hop can misstate its own contribution",
            help,
        );
    }
    if rogue.attack.needs_signatures() && !signed {
        let help = "add `security = \"ed25519\"` to `network.ptp`";
        rules.broken(&attack, "there are no signatures to attack", help);
    }
    let Some(by) = rogue.by else { return };
    let place = at(&path, ["by"]);
    if !rogue.attack.has_amount() {
        let message = "only `correction`, `lie` and `delay-sync` have an amount";
        rules.broken(&place, message, "leave out `by`");
    } else if !(Duration::from_ns(1)..=Duration::from_ms(100)).contains(&by) {
        rules.broken(
            &place,
            "an attack must change times by 1 ns … 100 ms",
            "as in `by = \"10 us\"`",
        );
    }
}
