//! Checks of the names of types, functions and modules.
//!
//! No two crates export types of the same name: a reader who meets one of them in a message or a
//! signature should not have to look up which one it is. Names that the field has a better noun for
//! do not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use timeloom_house::Workspace;

use crate::language::files_below;

/// Names that two crates use, each with the reason.
const SHARED: [(&str, &str); 13] = [
    (
        "ArrivalCallback",
        "one callback, passed from the supervisor to the network by `run`",
    ),
    (
        "Cause",
        "the cause of a hold of the bus, and that of a clock that does not move",
    ),
    (
        "Event",
        "an event of a queue, and one that a program saw by a counter",
    ),
    (
        "Host",
        "a scenario's description, and the session's host made from it",
    ),
    (
        "Interface",
        "a scenario's address with a prefix, and a handle of the kernel's interface",
    ),
    (
        "Mode",
        "the time mode of a scenario, and the behaviour permitted to a controller",
    ),
    ("Panel", "a report's form is that of its file"),
    ("PanelSignal", "a report's form is that of its file"),
    ("Reference", "a report's form is that of its file"),
    ("Request", "each protocol has its requests"),
    (
        "Service",
        "a service of the model has values that are keys of their own in scenarios",
    ),
    ("Stamp", "both standards use the word"),
    (
        "Wire",
        "a scenario's description of a link, and the pause wire",
    ),
];

/// Names of types, functions and modules that were replaced, each with the noun of the field.
const REPLACED: [(&str, &str); 35] = [
    ("Scribe", "RunRecorder"),
    ("Keyboard", "ControlEndpoint"),
    ("Door", "ExecContext"),
    ("Together", "Membership"),
    ("Ways", "PeerLinks"),
    ("Whereabouts", "Endpoints"),
    ("Company", "EngineGroup"),
    ("Life", "Generation"),
    ("Ear", "LineMonitor"),
    ("Pump", "LineMonitor"),
    ("Lived", "HostTime"),
    ("Course", "HostRate"),
    ("Shown", "PageTime"),
    ("Attention", "Quiescence"),
    ("Turns", "TicketLock or Scheduler"),
    ("Keeper", "Estimator"),
    ("Crystal", "Oscillator"),
    ("Belief", "ErrorEstimate"),
    ("Said", "Message"),
    ("Born", "ProcessStart"),
    ("Untold", "Pending"),
    ("By", "Origin"),
    ("How", "Method"),
    ("Whom", "Recipient"),
    ("Who", "the noun"),
    ("What", "the noun"),
    ("Where", "the noun"),
    ("conduct", "coordinate"),
    ("parcel", "transfer"),
    ("put_away", "finalize"),
    ("kick", "interrupt"),
    ("born", "spawn"),
    ("bury", "mark_dead"),
    ("lived", "host_time"),
    ("accord", "agreement"),
];

#[test]
fn replaced_names_do_not_come_back() {
    let mut found = Vec::new();
    for package in &Workspace::read().packages {
        let mut sources = Vec::new();
        files_below(&package.folder.join("src"), "rs", &mut sources);
        for source in sources {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            if stem.ends_with("_words") {
                found.push(format!("{}: name it after its format", source.display()));
            }
            let text = fs::read_to_string(&source).expect("UTF-8");
            let names = text.lines().filter_map(item_of);
            let again = names.filter_map(|name| {
                let (_, noun) = REPLACED.iter().find(|(replaced, _)| *replaced == name)?;
                Some(format!("{}: {name}, say {noun}", source.display()))
            });
            found.extend(again);
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns the name of the type, function or module that a line declares.
fn item_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let kinds = ["struct", "enum", "trait", "type", "fn", "mod"];
    words.find(|word| kinds.contains(word))?;
    let is_declaration = !line.trim_start().starts_with("//");
    let name = words.next()?.split(|c| !is_part(c)).next()?;
    is_declaration.then_some(name)
}

#[test]
fn no_two_crates_export_types_of_one_name() {
    let mut crates_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &Workspace::read().packages {
        let mut sources = Vec::new();
        files_below(&package.folder.join("src"), "rs", &mut sources);
        for source in sources {
            let text = fs::read_to_string(&source).expect("UTF-8");
            for name in types_of(&text) {
                let crates = crates_of.entry(name.to_owned()).or_default();
                crates.insert(package.name.clone());
            }
        }
    }
    assert!(crates_of.len() > 500, "only {} types", crates_of.len());
    crates_of.retain(|_, crates| crates.len() > 1);
    let listed = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let wrong: Vec<_> = crates_of.iter().filter(|(name, _)| !listed(name)).collect();
    assert!(wrong.is_empty(), "rename one of each: {wrong:#?}");
    let names = SHARED.iter().map(|(name, _)| *name);
    let gone: Vec<_> = names
        .filter(|name| !crates_of.contains_key(*name))
        .collect();
    assert!(gone.is_empty(), "take these off the list: {gone:?}");
}

/// Returns the names of the public types in a source that rustfmt has formatted.
fn types_of(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let kinds = ["struct ", "enum ", "trait ", "type "];
        let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
        // A name that a macro gives is empty here.
        let name = rest.split(|c| !is_part(c)).next();
        name.filter(|name| !name.is_empty())
    })
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn public_types_are_found_in_a_source() {
    let source = "pub struct One<T>(T);\npub(crate) struct Two;\n    pub enum Three {\nstruct Four;\n\
                  pub trait Five: Send {\npub fn type_six() {}\n";
    let found: Vec<_> = types_of(source).collect();
    assert_eq!(found, ["One", "Three", "Five"]);
}
