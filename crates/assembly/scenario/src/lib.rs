//! The scenario file: from TOML text to a checked plan.
//!
//! [`load`] reads a file, applies overrides and returns a [`Plan`] in which every default is filled
//! in and every rule has been checked, or [`ScenarioErrors`] with *all* independent mistakes, each
//! with its position and its fix. Nothing is started here and no clock is read.
//!
//! Processing steps: `tree` parses the text into values with their positions, `extends` merges the
//! file over the file that it extends, `set` applies overrides, `read` converts the values to the
//! types of `plan`, and `rules` checks the constraints that span several values. The plan contains
//! no positions: a rule reports the path of a wrong value (`system.hosts.sensor.address`), and the
//! tree maps the path to a position.
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
mod tree;
mod words;

use std::path::Path;

pub use assertion::{Assertion, Measure, Outcome, Relation, SignalSummary};
pub use background::Background;
pub use bundle::{Bundle, BundleFault, BundleProcess, CONTAINER_CAPABILITIES};
pub use cycles::CyclesFault;
pub use error::{Mistake, ScenarioErrors};
pub use places::Places;
pub use plan::{
    AgentPlace, Attack, CLOCK_SIGNALS, Capture, CapturedLink, Check, ClockSpec, Compute, Condition,
    ContainerMount, ContainerSpec, Cycles, Device, Discipline, EngineFailure, EngineMode, Engines,
    FileTimes, Generate, GovernorPolicy, Host, Link, MachineProfile, MachineSpec, Medium, Mode,
    Named, Network, OpenFlow, PTP_SIGNALS, Panel, PanelSignal, Part, Placement, Plan, Plant, Proc,
    Program, Protocol, Ptp, PtpAttack, PtpClock, PtpPolicy, PtpProfile, PtpRogue, PtpRole,
    PtpSecurity, PtpTransport, Record, Reference, Register, RegisterTable, RegisterType, Results,
    SCHEMA, Service, ServiceKind, ServingHost, Shape, Simulation, Stepping, System,
    TIMELINE_SIGNALS, Temperature, Time, TimelineScale, TimelineSpec, Traffic, TrafficKind,
    TrafficModel, Tsc, TunnelEnd, Wire,
};
pub use schema::json_schema;
pub use simulated::{
    CUT_SIGNALS, FLOW_SIGNALS, Fault, LINK_SIGNALS, NETWORK, NamedCable, NetworkNames, Parts,
    Simulated,
};
pub use words::{
    Addresses, BitRate, CapabilityName, CoreFrequency, FrequencyError, Interface, Ipv4Interface,
    Ipv6Interface, ParseWordError, Ready, SignalName, Size, User, is_host_name,
};

use timeloom_sys::plain;

use error::{Report, Source};
use read::Context;

/// Selects if the scenario is also checked against this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Checks that directories and executables exist, as before a run.
    Checked,
    /// Does not access the file system, as in an editor or a test.
    Ignored,
}

/// Reads the scenario at `path`, applies `sets` (`KEY=VALUE`, see [`parse`]) in order and checks
/// everything, including that directories and executables exist on this machine.
pub fn load(path: impl AsRef<Path>, sets: &[String]) -> Result<Plan, ScenarioErrors> {
    load_for(path, sets, Machine::Checked)
}

/// Loads a scenario as [`load`] does; `machine` selects the checks against this machine.
pub fn load_for(
    path: impl AsRef<Path>,
    sets: &[String],
    machine: Machine,
) -> Result<Plan, ScenarioErrors> {
    load_with_places(path, sets, machine).map(|(plan, _)| plan)
}

/// Loads a scenario as [`load_for`] does, and keeps the positions of its parts for mistakes that
/// are found later.
pub fn load_with_places(
    path: impl AsRef<Path>,
    sets: &[String],
    machine: Machine,
) -> Result<(Plan, Places), ScenarioErrors> {
    read_file(path.as_ref(), sets, machine)
}

/// Reads the scenario in `text`. Messages refer to it as `file_name`, and relative directories are
/// relative to that file's directory. The file system is not accessed.
///
/// A set is `KEY=VALUE` with a dotted key. Elements of lists are addressed by their name, id or
/// index: `attack.dos.enabled=false`, `system.hosts.sensor.programs.sensor.start="1 s"`. The value
/// is TOML. A value that is not TOML, or a plain value where a string is expected, is taken as a
/// string.
pub fn parse(text: &str, file_name: &str, sets: &[String]) -> Result<Plan, ScenarioErrors> {
    let file = Source::file(file_name, text, None);
    read_source(file, Path::new(file_name), sets, Machine::Ignored).map(|(plan, _)| plan)
}

fn read_file(
    path: &Path,
    sets: &[String],
    machine: Machine,
) -> Result<(Plan, Places), ScenarioErrors> {
    let name = path.display().to_string();
    // The path is given by the user, so it may be a pipe from another program.
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
    machine: Machine,
) -> Result<(Plan, Places), ScenarioErrors> {
    let text = file.text.clone();
    let mut sources = vec![file];
    sources.extend(sets.iter().map(|set| Source::set(set)));
    let mut report = Report::new(sources);

    let root = tree::parse(&text, 0, &mut report);
    // An incomplete tree would produce spurious mistakes.
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
        // Root causes are known only for mistakes that were collected.
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
