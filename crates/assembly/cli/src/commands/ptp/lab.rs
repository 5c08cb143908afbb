//! Command `timeloom ptp lab`: runs a chain of clocks in network namespaces.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use timeloom_ptp_io::keys::GroupFile;
use timeloom_ptp_io::lab::{
    LabAttack, LabAuth, LabNodeKind, LabOptions, LabReport, OffsetSpread, PEACE, run,
};
use timeloom_ptp_io::{
    DelayMechanism, EntryForm, KernelRandom, ProgramControl, RandomSource, SyncVerdict,
};
use timeloom_run::exit::{Failure, say};
use timeloom_time::Duration;

use super::clock::{Carrier, Delay, listen_to_signals};
use super::policy::{AuthName, PolicyArgument};

/// Run clocks in a chain of network namespaces, and measure
///
/// All namespaces share one clock, which is not steered, so the true offset is 0 and any offset
/// that the slave reports is its error. Needs root. Evidence, keys, logs of ptp4l and a capture of
/// the slave's link are stored in the output directory.
#[derive(Args)]
#[command(after_help = "Example: timeloom ptp lab --hops 4 --attack correction@2")]
pub(crate) struct Lab {
    /// Number of transparent clocks between grandmaster and slave, from 0 to 16
    #[arg(long, default_value_t = 3)]
    hops: usize,
    /// Nodes at which linuxptp's ptp4l runs: gm, tc1, tc2, …, slave; may be repeated
    #[arg(long = "ptp4l", value_name = "NODE", value_delimiter = ',')]
    ptp4l: Vec<String>,
    /// Transport of messages
    #[arg(long, value_enum, default_value = "l2")]
    transport: Carrier,
    /// Delay mechanism
    #[arg(long, value_enum, default_value = "p2p")]
    delay: Delay,
    /// domainNumber; ptp4l 3.1.1 takes 0 to 127
    #[arg(long, default_value_t = 0)]
    domain: u8,
    /// Protection of corrections [default: inline-ed25519; with --ptp4l, which signs nothing, off]
    #[arg(long, value_enum)]
    auth: Option<AuthName>,
    /// Use entries of 8 octets instead of 18
    #[arg(long)]
    compact: bool,
    /// Reaction of the slave to unauthenticated time: strict, monitor, mixed=SPAN
    #[arg(long, default_value = "strict")]
    policy: PolicyArgument,
    /// Attack the wire behind a node, e.g. correction@2 (0 is the grandmaster). Names:
    /// correction, origin, strip, remove-hop, epoch, replay, duplicate-sync, spoof-sync,
    /// second-master, pdelay, flood, malformed, delay-sync, symmetric-delay, lie
    #[arg(long, value_name = "NAME@HOP", value_parser = parse_attack)]
    attack: Option<(LabAttack, usize)>,
    /// Tap the wire behind a node (0 is the grandmaster), for `timeloom ptp attack`
    #[arg(long, value_name = "HOP", conflicts_with = "attack")]
    tap: Option<usize>,
    /// Duration of the laboratory
    #[arg(long = "for", default_value = "10 s", value_name = "SPAN")]
    duration: Duration,
    /// End earlier, after the slave has measured this number of Syncs; with --attack, after it has
    /// checked this number since the attack began
    #[arg(long, value_name = "NUMBER")]
    syncs: Option<usize>,
    #[command(flatten)]
    files: LabFiles,
}

/// Directory of a laboratory, and output format of its results.
#[derive(Args)]
pub(super) struct LabFiles {
    /// Directory of the laboratory
    #[arg(
        short,
        long,
        alias = "out",
        default_value = "runs/ptp-lab",
        value_name = "DIR"
    )]
    pub(super) output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl Lab {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut nodes = vec![LabNodeKind::Ours; self.hops + 2];
        for name in &self.ptp4l {
            let at = place(name, self.hops).ok_or_else(|| {
                Failure::usage(format!(
                    "there is no node `{name}`; there are gm, tc1 to tc{}, slave",
                    self.hops
                ))
            })?;
            nodes[at] = LabNodeKind::Ptp4l;
        }
        let mut options = LabOptions::new(nodes, self.files.output.clone());
        options.transport = self.transport.into();
        options.profile.delay = DelayMechanism::from(self.delay);
        options.profile.domain = self.domain;
        let auth = self.auth();
        options.auth = auth.suite().map(|suite| LabAuth {
            suite,
            form: if self.compact {
                EntryForm::Compact
            } else {
                EntryForm::Full
            },
            secondary: auth.is_secondary(),
        });
        if auth == AuthName::Group {
            let mut random = KernelRandom::open()?;
            let words: [u64; 4] = std::array::from_fn(|_| random.next_u64());
            options.group = Some(GroupFile {
                policy: 1,
                key_id: 1,
                key: words.map(|word| format!("{word:016x}")).concat(),
            });
        }
        options.policy = self.policy.0;
        options.attack = self.attack;
        options.tap = self.tap;
        options.duration = self.duration;
        options.enough = self.syncs;
        let wake = ProgramControl::new()
            .map_err(|error| Failure::machine(format!("a socket pair: {error}")))?;
        listen_to_signals(&wake)
            .map_err(|error| Failure::machine(format!("signal handlers: {error}")))?;
        let report = run(&options, &wake)?;
        if self.files.json {
            say!("{}", self.object(&report));
        } else {
            self.print(&report);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn auth(&self) -> AuthName {
        self.auth.unwrap_or(if self.ptp4l.is_empty() {
            AuthName::InlineEd25519
        } else {
            AuthName::Off
        })
    }

    fn object(&self, report: &LabReport) -> serde_json::Value {
        let spread = |spread: Option<OffsetSpread>| {
            spread.map(|s| {
                serde_json::json!({"count": s.count, "median_ns": s.median_ns, "p5_ns": s.p5_ns, "p95_ns": s.p95_ns})
            })
        };
        let [accepted, unsigned, rejected, incomplete] =
            SyncVerdict::ALL.map(|verdict| report.count(verdict));
        serde_json::json!({
            "hops": self.hops,
            "offset": spread(report.offsets()),
            "delay": spread(report.delays()),
            "accepted": accepted, "unsigned": unsigned,
            "rejected": rejected, "incomplete": incomplete,
            "attacked": report.attacked,
            "violations": report.violations(),
            "capture": report.capture,
        })
    }

    fn print(&self, report: &LabReport) {
        match (report.offsets(), report.delays()) {
            (Some(offset), Some(delay)) => {
                say!(
                    "offset of the slave (the truth is 0), {} Syncs:",
                    offset.count
                );
                for (name, spread) in [("offset", offset), ("delay", delay)] {
                    say!(
                        "  {name:<7} median {:>9.0} ns   5 % {:>9.0} ns   95 % {:>9.0} ns",
                        spread.median_ns,
                        spread.p5_ns,
                        spread.p95_ns
                    );
                }
            }
            _ => say!("the slave has no measurement"),
        }
        let verdicts: Vec<String> = SyncVerdict::ALL
            .iter()
            .map(|verdict| (report.count(*verdict), verdict))
            .filter(|(count, _)| *count > 0)
            .map(|(count, verdict)| format!("{count} {verdict}"))
            .collect();
        if !verdicts.is_empty() {
            say!("Syncs: {}", verdicts.join(", "));
        }
        if let Some((attack, at)) = self.attack {
            match attack {
                LabAttack::Lie => say!(
                    "attack lie by place {at}: in each of {} Syncs",
                    report.attacked
                ),
                _ => say!(
                    "attack {} behind place {at}: {} messages",
                    attack.name(),
                    report.attacked
                ),
            }
            if report.attacked == 0 && attack != LabAttack::Lie {
                say!(
                    "  (the attack begins after the slave has accepted {PEACE} Syncs: extend the \
                     run with --for)"
                );
            }
        }
        if let Some(at) = self.tap {
            say!("attacks behind place {at}: {} messages", report.attacked);
        }
        for (violation, count) in report.violations() {
            say!("  {count:>5} × {violation}");
        }
        say!(
            "evidence, keys, logs and capture: {}",
            self.files.output.display()
        );
    }
}

fn place(name: &str, hops: usize) -> Option<usize> {
    match name {
        "gm" => Some(0),
        "slave" => Some(hops + 1),
        _ => name
            .strip_prefix("tc")?
            .parse()
            .ok()
            .filter(|hop| (1..=hops).contains(hop)),
    }
}

fn parse_attack(text: &str) -> Result<(LabAttack, usize), Failure> {
    let (name, at) = text
        .split_once('@')
        .ok_or_else(|| Failure::usage("write it as NAME@HOP, e.g. correction@2"))?;
    let attack = LabAttack::named(name)?;
    let at = at
        .parse()
        .map_err(|_| Failure::usage(format!("`{at}` is not the number of a node")))?;
    Ok((attack, at))
}
