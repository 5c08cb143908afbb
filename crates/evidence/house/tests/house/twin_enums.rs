//! Checks that no enum exists twice: two public enums of different crates with almost the same
//! variants are one idea, whose owner should export it.

use std::fs;

use timeloom_house::Workspace;

use crate::language::files_below;

/// Pairs of enums that share most variants for a reason.
const MAY: [([&str; 2], &str); 5] = [
    (
        ["timeloom-net::Service", "timeloom-scenario::ServiceKind"],
        "a service of the model has the number of bytes, which is a key of its own in scenarios",
    ),
    (
        [
            "timeloom-ptp::PowerTlv",
            "timeloom-wire::PowerProfileVersion",
        ],
        "the TLV has the fields of its edition, of which a profile selects only the number",
    ),
    (
        ["timeloom-ptp::PublicKey", "timeloom-wire::Suite"],
        "a key has the bytes of its suite",
    ),
    (
        ["timeloom-ptp::SecretKey", "timeloom-wire::Suite"],
        "a key has the bytes of its suite",
    ),
    (
        [
            "timeloom-results::Reference",
            "timeloom-scenario::Reference",
        ],
        "the report's form is that of its file, with other keys than the scenario's",
    ),
];

/// Public enum of a crate.
struct Enum {
    /// Crate and name, as `timeloom-net::Service`.
    path: String,
    package: String,
    variants: Vec<String>,
}

impl Enum {
    /// Returns true if the enums share at least four of five variants by name.
    fn is_twin_of(&self, other: &Self) -> bool {
        let shared = self
            .variants
            .iter()
            .filter(|it| other.variants.contains(it));
        let most = self.variants.len().max(other.variants.len());
        // A single variant is too little to be the same idea.
        most >= 2 && 5 * shared.count() >= 4 * most
    }
}

#[test]
fn no_two_crates_have_the_same_enum() {
    let workspace = Workspace::read();
    let mut enums = Vec::new();
    for package in &workspace.packages {
        let mut sources = Vec::new();
        files_below(&package.folder.join("src"), "rs", &mut sources);
        for source in sources {
            let text = fs::read_to_string(&source).expect("UTF-8");
            enums.extend(enums_of(&package.name, &text));
        }
    }
    enums.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(enums.len() > 100, "only {} enums were found", enums.len());
    let mut twins = Vec::new();
    for (index, one) in enums.iter().enumerate() {
        let others = enums[index + 1..].iter();
        let others = others.filter(|other| other.package != one.package && one.is_twin_of(other));
        twins.extend(others.map(|other| [one.path.as_str(), &other.path]));
    }
    let listed = |pair: &[&str; 2]| MAY.iter().any(|(may, _)| may == pair);
    let wrong: Vec<_> = twins.iter().filter(|pair| !listed(pair)).collect();
    assert!(wrong.is_empty(), "one of each pair should go: {wrong:#?}");
    let gone = MAY.iter().filter(|(may, _)| !twins.contains(may));
    let gone: Vec<_> = gone.map(|(may, _)| may).collect();
    assert!(
        gone.is_empty(),
        "no twins any more: take them off the list: {gone:#?}"
    );
}

/// Returns the public enums in a source that rustfmt has formatted.
fn enums_of(package: &str, source: &str) -> Vec<Enum> {
    let mut found = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(rest) = line.trim_start().strip_prefix("pub enum ") else {
            continue;
        };
        let end = format!("{:indent$}}}", "");
        let body = lines.by_ref().take_while(|line| *line != end);
        let variants = body.filter_map(|line| {
            let inside = line.strip_prefix(&format!("{:1$}", "", indent + 4))?;
            inside.starts_with(char::is_uppercase).then(|| name(inside))
        });
        // An enum without variants ends in the line of its name.
        let variants = if rest.ends_with("{}") {
            Vec::new()
        } else {
            variants.collect()
        };
        found.push(Enum {
            path: format!("{package}::{}", name(rest)),
            package: package.to_owned(),
            variants,
        });
    }
    found
}

/// Returns the name at the beginning of `text`.
fn name(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

#[test]
fn four_of_five_shared_variants_make_twins() {
    let source = "pub enum Empty {}\n\
                  /// Documented.\n\
                  pub enum One {\n    /// Text.\n    #[default]\n    A,\n    B(u8),\n    C {\n        \
                  /// Inner.\n        X: u8,\n    },\n    D = 4,\n    E,\n}\n\
                  pub(crate) enum Inner {\n    A,\n}\n\
                  mod nested {\n    pub enum Two<T> {\n        A(T),\n        B,\n        C,\n        \
                  D,\n    }\n}\n\
                  pub enum Three {\n    A,\n    B,\n    C,\n    F,\n}\n";
    let found = enums_of("crate", source);
    let [empty, one, two, three] = &found[..] else {
        panic!("{} enums", found.len());
    };
    assert_eq!(one.path, "crate::One");
    assert_eq!(one.variants, ["A", "B", "C", "D", "E"]);
    assert_eq!(two.path, "crate::Two");
    assert!(one.is_twin_of(two) && two.is_twin_of(one));
    assert!(!two.is_twin_of(three) && !empty.is_twin_of(empty));
}
