//! Checks that no cycle of imports between the files of a crate spans two folders.
//!
//! A file with a folder of the same name belongs to that folder, like `mod.rs`. A re-export is a
//! namespace and no import: an import through it is one of the file that defines the item. Modules
//! of tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use timeloom_house::Workspace;

use crate::language::files_below;

/// Cycles that have not been broken yet, by crate and folders.
const MAY: [(&str, &[&str]); 14] = [
    (
        "timeloom-bench",
        &[
            "",
            "machines",
            "net",
            "net/realtime",
            "ptp",
            "ptp/path",
            "timeline",
            "vm",
            "worker",
        ],
    ),
    ("timeloom-clock", &["timeline", "timeline/estimator"]),
    ("timeloom-guest", &["supervise", "supervise/activity"]),
    ("timeloom-net", &["", "tables"]),
    ("timeloom-ptp", &["", "security"]),
    ("timeloom-ptp-io", &["", "evidence", "keys"]),
    ("timeloom-ptp-io", &["lab", "lab/attack"]),
    ("timeloom-scenario", &["", "plan", "words"]),
    ("timeloom-scenario", &["", "rules", "rules/machine"]),
    ("timeloom-serve", &["", "web"]),
    ("timeloom-timeline", &["shm", "shm/foreign"]),
    ("timeloom-timelined", &["", "config"]),
    ("timeloom-timelined", &["", "source"]),
    ("timeloom-timelined", &["source", "source/chrony"]),
];

/// Import of an item or of a module.
#[derive(Debug)]
struct Import {
    /// Module to which the path is relative.
    base: Vec<String>,
    /// Rest of the path.
    path: Vec<String>,
    /// Name of the item in the importing file.
    name: String,
    /// True for a re-export whose name the file does not use.
    is_reexport: bool,
}

/// Files of a crate, by path below `src`, with their imports.
#[derive(Default)]
struct Files {
    imports: BTreeMap<String, Vec<Import>>,
    modules: BTreeMap<Vec<String>, String>,
}

#[test]
fn no_cycle_of_imports_spans_two_folders() {
    let workspace = Workspace::read();
    let mut found = Vec::new();
    for package in &workspace.packages {
        let root = package.folder.join("src");
        let cycles = Files::read(&root).cycles();
        found.extend(
            cycles
                .into_iter()
                .map(|cycle| (package.name.clone(), cycle)),
        );
    }
    let listed = |package: &str, folders: &BTreeSet<String>| {
        let may = |(name, its): &(&str, &[&str])| *name == package && folders.iter().eq(*its);
        MAY.iter().any(may)
    };
    let wrong = found.iter();
    let wrong: Vec<_> = wrong
        .filter(|(package, cycle)| !listed(package, &cycle.folders))
        .collect();
    assert!(wrong.is_empty(), "cycles that span folders: {wrong:#?}");
    let gone = MAY.iter().filter(|(name, its)| {
        let mut found = found.iter();
        !found.any(|(package, cycle)| package == name && cycle.folders.iter().eq(*its))
    });
    let gone: Vec<_> = gone.collect();
    assert!(
        gone.is_empty(),
        "no cycles any more: take them off the list: {gone:#?}"
    );
}

/// Files each of which imports all others, directly or through others.
#[derive(Debug, PartialEq, Eq)]
struct Cycle {
    folders: BTreeSet<String>,
    /// Imports between the files of the cycle.
    imports: Vec<String>,
}

impl Files {
    fn read(root: &Path) -> Self {
        let mut paths = Vec::new();
        if root.is_dir() {
            files_below(root, "rs", &mut paths);
        }
        let text = |path: &std::path::PathBuf| {
            let name = path.strip_prefix(root).expect("a file below the root");
            let text = fs::read_to_string(path).expect("UTF-8");
            (name.to_string_lossy().into_owned(), text)
        };
        Self::of(paths.iter().map(text).collect())
    }

    fn of(texts: BTreeMap<String, String>) -> Self {
        let mut files = Self::default();
        // The library takes precedence over a program with the same modules.
        for name in texts.keys().rev() {
            files.modules.insert(module(name), name.clone());
        }
        for (name, text) in texts {
            let imports = files.imports_of(&module(&name), &code(&text));
            files.imports.insert(name, imports);
        }
        files
    }

    fn imports_of(&self, module: &[String], code: &str) -> Vec<Import> {
        let mut uses = Vec::new();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let begin = statement.lines().map(str::trim_start).position(is_use);
            let Some(begin) = begin else {
                rest.push_str(statement);
                continue;
            };
            let lines: Vec<&str> = statement.lines().collect();
            rest.push_str(&lines[..begin].join("\n"));
            let text = lines[begin..].join(" ");
            let (visibility, tree) = text.trim_start().split_once("use ").expect("a use");
            let is_public = !visibility.is_empty();
            uses.extend(
                leaves(tree.trim_end_matches(';'))
                    .into_iter()
                    .map(|leaf| (leaf, is_public)),
            );
        }
        let words: BTreeSet<&str> = rest.split(|c| !is_part(c)).collect();
        let mut imports = Vec::new();
        for (leaf, is_public) in uses {
            if let Some(mut import) = self.import(module, &leaf) {
                import.is_reexport = is_public && !words.contains(&*import.name);
                imports.push(import);
            }
        }
        // Paths in expressions and types, as `crate::record::Note`.
        for path in rest.split(|c| !is_part(c) && c != ':') {
            if path.contains("::") {
                imports.extend(self.import(module, path));
            }
        }
        imports
    }

    /// Returns the import of a path; `None` if it leads to another crate.
    fn import(&self, module: &[String], path: &str) -> Option<Import> {
        let (path, alias) = match path.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias)),
            None => (path, None),
        };
        let mut path: Vec<String> = path.split("::").map(|it| it.trim().to_owned()).collect();
        let mut base = module.to_vec();
        match path[0].as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                while path.first().is_some_and(|it| it == "super") {
                    path.remove(0);
                    base.pop();
                }
                path.insert(0, String::new());
            }
            child => {
                let child = [module, &[child.to_owned()]].concat();
                self.modules.get(&child)?;
                path.insert(0, String::new());
            }
        }
        path.remove(0);
        path.retain(|it| !it.is_empty() && it != "self");
        let name = alias.map(|it| it.trim().to_owned());
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        Some(Import {
            base,
            path,
            name,
            is_reexport: false,
        })
    }

    /// Returns the file that defines the item of a path.
    fn definition(&self, base: &[String], path: &[String], depth: usize) -> Option<&str> {
        let mut module = base.to_vec();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            let child = [&module[..], std::slice::from_ref(first)].concat();
            if !self.modules.contains_key(&child) {
                break;
            }
            (module, rest) = (child, others);
        }
        let file = self.modules.get(&module)?;
        let item = rest.first();
        let again = self.imports.get(file).into_iter().flatten();
        let again = again.filter(|import| Some(&import.name) == item && depth < 8);
        let mut defined = again.filter_map(|it| self.definition(&it.base, &it.path, depth + 1));
        Some(defined.next().unwrap_or(file))
    }

    fn cycles(&self) -> Vec<Cycle> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (file, imports) in &self.imports {
            let imports = imports.iter().filter(|import| !import.is_reexport);
            let to = imports.filter_map(|it| self.definition(&it.base, &it.path, 0));
            edges.insert(file, to.filter(|to| to != file).collect());
        }
        let reached: BTreeMap<&str, BTreeSet<&str>> = edges
            .keys()
            .map(|from| (*from, reach(from, &edges)))
            .collect();
        let mut cycles: Vec<Cycle> = Vec::new();
        let mut done = BTreeSet::new();
        for file in edges.keys() {
            let back = |other: &&&str| reached[**other].contains(file);
            let members: BTreeSet<&str> = reached[file].iter().filter(back).copied().collect();
            let folders: BTreeSet<String> = members.iter().map(|it| self.folder(it)).collect();
            if folders.len() < 2 || !done.insert(members.clone()) {
                continue;
            }
            let imports = members.iter().flat_map(|from| {
                let to = edges[from].intersection(&members);
                to.map(move |to| format!("{from} -> {to}"))
            });
            let imports = imports.collect();
            cycles.push(Cycle { folders, imports });
        }
        cycles
    }

    /// Returns the folder to which a file belongs.
    fn folder(&self, file: &str) -> String {
        let own = format!("{}/", file.trim_end_matches(".rs"));
        let has_own = self.imports.keys().any(|other| other.starts_with(&own));
        let outer = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        match has_own {
            true => own.trim_end_matches('/').to_owned(),
            false => outer.to_owned(),
        }
    }
}

/// Returns all files that can be reached from a file.
fn reach<'a>(from: &str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = edges[from].iter().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&edges[file]);
        }
    }
    reached
}

/// Returns the path of the module that a file contains.
fn module(file: &str) -> Vec<String> {
    let mut path: Vec<String> = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if path
        .last()
        .is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str()))
    {
        path.pop();
    }
    path
}

/// Returns a source without comments, modules of tests, and visibilities with a path.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let lines: Vec<&str> = lines.collect();
    let is_test = |pair: &[&str]| {
        let is_module = pair[1].contains("mod ") && pair[1].ends_with('{');
        pair[0].starts_with("#[cfg(") && pair[0].contains("test") && is_module
    };
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    lines[..end]
        .join("\n")
        .replace("pub(in super::super)", "pub(super)")
}

fn is_use(line: &str) -> bool {
    let visible = line.strip_prefix("pub").map(|rest| {
        let rest = rest.trim_start();
        rest.split_once(") ")
            .filter(|_| rest.starts_with('('))
            .map_or(rest, |(_, rest)| rest)
    });
    visible.unwrap_or(line).starts_with("use ")
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the paths of a tree of imports: `a::{b, c::d}` has two.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let Some(group) = group.trim_end().strip_suffix('}') else {
        return Vec::new();
    };
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts
        .flat_map(leaves)
        .map(|leaf| format!("{prefix}{leaf}"))
        .collect()
}

#[test]
fn an_import_through_a_facade_leads_to_the_definition() {
    let files = |texts: &[(&str, &str)]| {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        Files::of(texts.iter().map(own).collect())
    };
    let facade = "mod inner;\npub use inner::Item;\n";
    let harmless = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", facade),
        (
            "a/inner.rs",
            "pub struct Item;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
        ),
        (
            "b.rs",
            "use crate::{\n    a::{Item, Item as Other},\n};\npub struct B(Item);\n",
        ),
    ];
    assert_eq!(files(&harmless).cycles(), []);
    let mut cyclic = harmless;
    cyclic[2].1 = "pub struct Item;\nfn f(_: super::super::b::B) {}\n";
    let found = files(&cyclic).cycles();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].imports,
        ["a/inner.rs -> b.rs", "b.rs -> a/inner.rs"]
    );
    assert_eq!(found[0].folders, ["", "a"].map(str::to_owned).into());
}
