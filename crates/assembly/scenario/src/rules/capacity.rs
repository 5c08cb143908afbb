//! Checks of this machine's capacity before anything starts. Otherwise a resource could run out
//! during the run, and end it.

use std::fs;
use std::path::{Path, PathBuf};

use timeloom_sys::{cgroup, limit};

use super::{Rules, at};
use crate::plan::{Medium, Plan};

pub(super) fn check(rules: &mut Rules<'_>) {
    if rules.plan.placement.is_spread() {
        return;
    }
    let path = at(&[], ["system"]);
    for lack in Needs::of(rules.plan).lacking(&Limits::of_this_machine()) {
        rules.misplaced(&path, lack.message, lack.fix);
    }
}

/// Upper bounds of the resources that a run needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    /// Number of open files of the supervisor.
    descriptors: u64,
    /// Number of threads of the supervisor.
    threads: u64,
    /// Number of other processes, each of which may have further threads and children.
    processes: u64,
    /// Number of network namespaces: one for each host and device, one for the switches.
    net_namespaces: u64,
    /// Number of mount namespaces: one for each host and one for each program.
    mount_namespaces: u64,
    /// Number of UTS namespaces: one for each host.
    uts_namespaces: u64,
    cgroups: u64,
    /// Number of ports of the switch that has most.
    bridge_ports: u64,
}

impl Needs {
    fn of(plan: &Plan) -> Self {
        let count = |number: usize| number as u64;
        let programs = count(plan.programs().count());
        let hosts = count(plan.system.hosts.len());
        let devices = count(plan.system.devices.len());
        let plants = count(plan.simulation.plants.len());
        let captures = count(plan.captures.len());
        let stations = hosts + devices;
        let ports = |switch: &String| {
            let at = |link: &&crate::Link| {
                link.between.contains(switch) && plan.medium(link) == Medium::Kernel
            };
            count(plan.system.links.iter().filter(at).count())
        };
        // The limit applies only to kernel bridges.
        let bridges = match plan.system.openflow {
            None => plan.system.switches.iter().map(ports).max(),
            Some(_) => None,
        };
        // Measured in runs of 2 to 12 hosts, and rounded up: 36 + 8 descriptors per host, 4 to 5
        // per program, and 10 + 3 threads per program.
        Self {
            descriptors: 64
                + 5 * stations
                + 3 * hosts
                + 6 * programs
                + 6 * plants
                + 2 * devices
                + 3 * captures,
            threads: 24 + 3 * programs + 2 * plants + devices + 2 * captures,
            processes: 2 + programs + plants,
            net_namespaces: stations + 1,
            mount_namespaces: hosts + programs + 1,
            uts_namespaces: hosts,
            cgroups: 2 + hosts + plants,
            bridge_ports: bridges.unwrap_or(0),
        }
    }

    fn lacking(&self, limits: &Limits) -> Vec<Lack> {
        let tasks = self.threads + self.processes;
        let all = [
            Lack::of(
                "open files of one process (RLIMIT_NOFILE)",
                self.descriptors,
                limits.descriptors,
                |n| {
                    format!(
                        "raise the hard limit: `ulimit -Hn {n}` as root, or LimitNOFILE={n} in the unit of systemd"
                    )
                },
            ),
            Lack::of(
                "threads and processes of the machine (kernel.threads-max, kernel.pid_max)",
                tasks,
                limits.tasks,
                |n| {
                    format!(
                        "`sysctl -w kernel.threads-max=N kernel.pid_max=N`, with N {n} above what it is"
                    )
                },
            ),
            Lack::of(
                "threads and processes of this user (RLIMIT_NPROC)",
                tasks,
                limits.user_tasks,
                |n| format!("`ulimit -u {n}`, or `nproc` in /etc/security/limits.conf"),
            ),
            Lack::of(
                "threads in this cgroup (pids.max)",
                self.threads,
                limits.cgroup_tasks,
                |n| {
                    format!(
                        "give it {n} more (of a container: `--pids-limit`; of systemd: TasksMax)"
                    )
                },
            ),
            Lack::of(
                "network namespaces (user.max_net_namespaces)",
                self.net_namespaces,
                limits.net_namespaces,
                |n| format!("`sysctl -w user.max_net_namespaces={n}` at least"),
            ),
            Lack::of(
                "mount namespaces (user.max_mnt_namespaces)",
                self.mount_namespaces,
                limits.mount_namespaces,
                |n| format!("`sysctl -w user.max_mnt_namespaces={n}` at least"),
            ),
            Lack::of(
                "UTS namespaces (user.max_uts_namespaces)",
                self.uts_namespaces,
                limits.uts_namespaces,
                |n| format!("`sysctl -w user.max_uts_namespaces={n}` at least"),
            ),
            Lack::of(
                "cgroups (cgroup.max.descendants)",
                self.cgroups,
                limits.cgroups,
                |n| {
                    format!(
                        "write {n} more, or `max`, to cgroup.max.descendants where the hierarchy is mounted"
                    )
                },
            ),
            Lack::of(
                "ports of a switch of the kernel (BR_MAX_PORTS)",
                self.bridge_ports,
                limits.bridge_ports,
                |_| {
                    "divide the switch into several, or simulate the network (a table `[network]`)"
                        .into()
                },
            ),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Resource of which there is not enough; reported as a mistake.
#[derive(Debug)]
struct Lack {
    message: String,
    fix: String,
}

impl Lack {
    fn of(what: &str, needed: u64, have: u64, fix: impl Fn(u64) -> String) -> Option<Self> {
        (needed > have).then(|| Self {
            message: format!("this run needs about {needed} {what}, and there are {have} here"),
            fix: fix(needed),
        })
    }
}

/// Resources of this machine that are not in use. A limit that cannot be determined counts as
/// unlimited.
#[derive(Clone, Copy, Debug)]
struct Limits {
    descriptors: u64,
    tasks: u64,
    user_tasks: u64,
    cgroup_tasks: u64,
    net_namespaces: u64,
    mount_namespaces: u64,
    uts_namespaces: u64,
    cgroups: u64,
    bridge_ports: u64,
}

impl Limits {
    fn of_this_machine() -> Self {
        let sysctl = |name: &str| number(Path::new(&format!("/proc/sys/{name}")));
        let tasks = sysctl("kernel/threads-max").min(sysctl("kernel/pid_max"));
        Self {
            // The supervisor raises its limit to the maximum before a run.
            descriptors: limit::most_descriptors().unwrap_or(u64::MAX),
            tasks: tasks.saturating_sub(tasks_in_use()),
            user_tasks: limit::tasks_of_user().unwrap_or(u64::MAX),
            cgroup_tasks: left_above(cgroup::of(std::process::id()), "pids.max", "pids.current"),
            net_namespaces: sysctl("user/max_net_namespaces"),
            mount_namespaces: sysctl("user/max_mnt_namespaces"),
            uts_namespaces: sysctl("user/max_uts_namespaces"),
            cgroups: cgroup::mount().map_or(u64::MAX, |mount| {
                number(&mount.join("cgroup.max.descendants"))
            }),
            bridge_ports: BRIDGE_PORTS,
        }
    }
}

/// Reads a file that contains one number. `max`, an empty file and a missing file mean no limit.
fn number(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(u64::MAX)
}

/// Returns the number of threads on the machine, from `RUNNING/ALL` in /proc/loadavg.
fn tasks_in_use() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = text
        .split(' ')
        .nth(3)
        .and_then(|field| field.split('/').nth(1));
    all.and_then(|all| all.parse().ok()).unwrap_or(0)
}

/// Returns the smallest remaining quota of a cgroup and its ancestors, since the limits of all
/// apply.
fn left_above(mut group: Option<PathBuf>, limit: &str, used: &str) -> u64 {
    let mut least = u64::MAX;
    while let Some(directory) = group {
        let most = number(&directory.join(limit));
        if most != u64::MAX {
            let used = fs::read_to_string(directory.join(used)).unwrap_or_default();
            least = least.min(most.saturating_sub(used.trim().parse().unwrap_or(0)));
        }
        group = directory.parent().map(Path::to_owned);
    }
    least
}

/// Maximum number of ports of a bridge, from the kernel's `br_private.h`: 2^10, of which number 0
/// is not used.
const BRIDGE_PORTS: u64 = 1023;

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Limits = Limits {
        descriptors: u64::MAX,
        tasks: u64::MAX,
        user_tasks: u64::MAX,
        cgroup_tasks: u64::MAX,
        net_namespaces: u64::MAX,
        mount_namespaces: u64::MAX,
        uts_namespaces: u64::MAX,
        cgroups: u64::MAX,
        bridge_ports: u64::MAX,
    };

    fn plan(hosts: usize) -> Plan {
        let mut text = String::from(
            "schema = \"timeloom/1\"\nname = \"n\"\n[time]\nduration = \"1 s\"\n[system]\nswitches = [\"s\"]\nlinks = [\n",
        );
        for host in 0..hosts {
            text += &format!("{{ between = [\"h{host}\", \"s\"] }},\n");
        }
        text += "]\n";
        for host in 0..hosts {
            let (high, low) = (host / 200, host % 200 + 1);
            text += &format!(
                "[system.hosts.h{host}]\naddress = \"10.0.{high}.{low}/16\"\n[[system.hosts.h{host}.programs]]\nname = \"p{host}\"\nrun = [\"true\"]\n"
            );
        }
        crate::parse(&text, "n.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn each_limit_is_named_with_the_need_and_the_fix() {
        let needs = Needs::of(&plan(10));
        assert!(needs.lacking(&NONE).is_empty());
        type Change = fn(&mut Limits);
        let lacking = |change: Change| {
            let mut limits = NONE;
            change(&mut limits);
            let lacking = needs.lacking(&limits);
            assert_eq!(lacking.len(), 1, "{lacking:?}");
            format!("{} {}", lacking[0].message, lacking[0].fix)
        };
        let cases: [(&str, u64, Change); 9] = [
            ("ulimit -Hn", needs.descriptors, |it| it.descriptors = 50),
            ("kernel.pid_max", needs.threads + needs.processes, |it| {
                it.tasks = 50
            }),
            ("ulimit -u", needs.threads + needs.processes, |it| {
                it.user_tasks = 50
            }),
            ("pids.max", needs.threads, |it| it.cgroup_tasks = 50),
            ("user.max_net_namespaces", 11, |it| it.net_namespaces = 10),
            ("user.max_mnt_namespaces", 21, |it| it.mount_namespaces = 20),
            ("user.max_uts_namespaces", 10, |it| it.uts_namespaces = 9),
            ("cgroup.max.descendants", 12, |it| it.cgroups = 11),
            ("[network]", 10, |it| it.bridge_ports = 9),
        ];
        for (word, needed, change) in cases {
            let said = lacking(change);
            assert!(
                said.contains(word) && said.contains(&format!("about {needed} ")),
                "{said}"
            );
        }
    }

    #[test]
    fn needs_grow_with_the_hosts() {
        let (few, many) = (Needs::of(&plan(10)), Needs::of(&plan(150)));
        assert!(
            many.descriptors >= few.descriptors + 140 * 8,
            "{few:?} {many:?}"
        );
        assert_eq!(many.net_namespaces, 151);
        // A kernel bridge cannot have more ports.
        let most = Needs::of(&plan(1024)).lacking(&Limits {
            bridge_ports: BRIDGE_PORTS,
            ..NONE
        });
        assert_eq!(most.len(), 1, "{most:?}");
    }
}
