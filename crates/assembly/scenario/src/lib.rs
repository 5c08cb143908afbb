//! Scenario file: from TOML text to a checked plan.
//!
//! [`load`] reads a file, applies overrides and returns a [`Plan`]. In a plan every default is
//! filled in and every rule has been checked. Otherwise [`load`] returns [`ScenarioErrors`] with
//! *all* independent mistakes, each with its position and its fix. This crate starts no program and
//! reads no clock.
//!
//! The modules work in this order: `tree` parses the text into values with their positions,
//! `extends` merges the file over the file that it extends, `set` applies overrides, `read`
//! converts the values to the types of `plan`, and `rules` checks the constraints between several
//! values. The plan contains no positions: a rule reports the path of a wrong value
//! (`system.hosts.sensor.address`), and the tree maps the path to a position.
//!
//! `table` has the macros that declare the tables and words of `plan`. The reader, the defaults,
//! the JSON Schema and `docs/scenario-keys.md` come from these declarations.
//!
//! ```
//! let text = r#"
//!     schema = "timeloom/1"
//!     name = "hello"
//!     time = { duration = "1 s" }
//!     [system.hosts.one]
//!     adress = "10.0.0.1/24"
//! "#;
//! let errors = timeloom_scenario::parse(text, "hello.toml", &[]).unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "hello.toml:6:5: unknown key `adress` in a host; did you mean `address`?",
//! );
//! ```
#![forbid(unsafe_code)]

mod assertion;
mod background;
mod bundle;
mod cycles;
mod error;
mod extends;
mod places;
mod plan;
mod read;
mod render;
mod rules;
mod schema;
mod set;
mod simulated;
mod suggest;
mod table;
mod tree;
mod words;

use std::path::Path;

pub use assertion::{Assertion, CheckOutcome, Measure, Relation, SignalSummary};
pub use background::Background;
pub use bundle::{Bundle, BundleFault, BundleProcess, CONTAINER_CAPABILITIES};
pub use cycles::CyclesFault;
pub use error::{Mistake, ScenarioErrors};
pub use places::Places;
pub use plan::{
    AgentPlace, Attack, AttackAction, CARD_SIGNALS, CLOCK_SIGNALS, Capture, Check, ClockSpec,
    Condition, ContainerMount, ContainerSpec, Cycles, Device, Discipline, EngineFailure,
    EngineMode, Engines, Event, Generate, Host, Link, LinkName, LinkState, MachineProfile,
    MachineSpec, Medium, Mode, Named, Network, OpenFlow, PTP_SIGNALS, Panel, PanelSignal, Part,
    Placement, Plan, Plant, Program, Protocol, Ptp, PtpAttack, PtpClock, PtpPolicy, PtpProfile,
    PtpRogue, PtpSecurity, Record, Reference, Register, Results, SCHEMA, Service, ServiceKind,
    ServingHost, Shape, Simulation, Stepping, System, TIMELINE_SIGNALS, Temperature, Time,
    TimelineSpec, Traffic, TrafficKind, TrafficModel, TunnelEnd, Wire, WireChange,
};
pub use schema::json_schema;
pub use simulated::{
    CUT_SIGNALS, FLOW_SIGNALS, Fault, LINK_SIGNALS, NETWORK, NamedCable, NetworkNames, Parts,
    Simulated,
};
pub use words::{
    Addresses, BitRate, CapabilityName, CoreFrequency, Interface, Ipv4Interface, Ipv6Interface,
    ParseWordError, Ready, SignalName, Size, User, is_host_name,
};

use timeloom_sys::plain;

use error::{Report, Source};
use read::Context;

/// Selects whether the scenario is also checked against this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineChecks {
    /// Checks that directories and executables exist; for a run on this machine.
    Checked,
    /// Does not access the file system; for an editor or a test.
    Ignored,
}

/// Reads the scenario at `path`, applies `sets` (`KEY=VALUE`, see [`parse`]) in order, and checks
/// the result. Directories and executables must exist on this machine.
pub fn load(path: impl AsRef<Path>, sets: &[String]) -> Result<Plan, ScenarioErrors> {
    load_for(path, sets, MachineChecks::Checked)
}

/// Loads a scenario like [`load`]. `machine` selects whether it is checked against this machine.
pub fn load_for(
    path: impl AsRef<Path>,
    sets: &[String],
    machine: MachineChecks,
) -> Result<Plan, ScenarioErrors> {
    load_with_places(path, sets, machine).map(|(plan, _)| plan)
}

/// Loads a scenario like [`load_for`]. Also returns the positions of its parts, for mistakes that
/// are found later.
pub fn load_with_places(
    path: impl AsRef<Path>,
    sets: &[String],
    machine: MachineChecks,
) -> Result<(Plan, Places), ScenarioErrors> {
    read_file(path.as_ref(), sets, machine)
}

/// Reads the scenario in `text`. `file_name` is its name in messages, and relative directories are
/// relative to that file's directory. The file system is not accessed.
///
/// An override in `sets` is `KEY=VALUE` with a dotted key. Elements of lists are addressed by their
/// name, id or index: `attack.dos.enabled=false` or `system.hosts.sensor.programs.sensor.start="1
/// s"`. The value is TOML. If it is not valid TOML, or is a plain value where a string is expected,
/// it is taken as a string.
pub fn parse(text: &str, file_name: &str, sets: &[String]) -> Result<Plan, ScenarioErrors> {
    let file = Source::file(file_name, text, None);
    read_source(file, Path::new(file_name), sets, MachineChecks::Ignored).map(|(plan, _)| plan)
}

fn read_file(
    path: &Path,
    sets: &[String],
    machine: MachineChecks,
) -> Result<(Plan, Places), ScenarioErrors> {
    let name = path.display().to_string();
    // The user names the path, so it may also be a pipe from another program.
    let text = plain::read_any_text(path, Source::MOST_BYTES)
        .map_err(|error| ScenarioErrors::unreadable(&name, &error))?;
    let directory = std::path::absolute(path)
        .ok()
        .and_then(|file| file.parent().map(Path::to_path_buf));
    let file = Source::file(&name, &text, directory);
    read_source(file, path, sets, machine)
}

fn read_source(
    file: Source,
    path: &Path,
    sets: &[String],
    machine: MachineChecks,
) -> Result<(Plan, Places), ScenarioErrors> {
    let text = file.text.clone();
    let mut sources = vec![file];
    sources.extend(sets.iter().map(|set| Source::set(set)));
    let mut report = Report::new(sources);

    let root = tree::parse(&text, 0, &mut report);
    // An incomplete tree would lead to mistakes that the file does not have.
    let whole = match report.is_clean() {
        true => extends::resolve(root, &mut report),
        false => None,
    };
    if let Some(mut root) = whole {
        for (index, set) in sets.iter().enumerate() {
            set::apply(&mut root, set, index + 1, &mut report);
        }
        let mut context = Context::new(&mut report, path);
        let plan = context.read_root(&root);
        report.end_of_reading();
        // If the report is full, the mistakes that cause others are not all known.
        if !report.is_full() {
            rules::check(&plan, &root, machine, &mut report);
        }
        if report.is_clean() {
            let places = Places::new(root, report.into_sources());
            return Ok((plan, places));
        }
    }
    Err(report.into_errors())
}
