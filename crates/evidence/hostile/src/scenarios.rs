//! Untrusted input of scenarios: the file, values of `--set`, and OCI bundles.

use std::path::Path;

use timeloom_scenario::{Bundle, parse};

/// Tests a scenario file. An accepted scenario must not change by encoding and decoding; an error
/// must have a place and a reason.
///
/// Input: the file; after a zero byte, `--set` values, separated by zero bytes.
pub(crate) fn scenario(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    let sets: Vec<String> = parts.map(str::to_owned).collect();
    match parse(file, "fuzz.toml", &sets) {
        Ok(plan) => {
            let written = plan.to_toml();
            let again = parse(&written, "fuzz.toml", &[]);
            assert_eq!(again.expect("a plan reads back"), plan, "{written}");
        }
        Err(errors) => {
            assert!(!errors.mistakes().is_empty());
            let (_, _) = (errors.to_string(), errors.render(true));
        }
    }
}

/// Tests the configuration of an OCI bundle. An accepted one must run a program with numeric user
/// and group from an absolute directory, with mounts at absolute paths. An error must have a reason
/// and a help text.
///
/// Input: `config.json`.
pub(crate) fn bundle(input: &[u8]) {
    match Bundle::parse(input, Path::new("/bundle")) {
        Ok(bundle) => {
            let process = bundle.process.expect("a bundle runs something");
            assert!(!process.args[0].is_empty() && process.cwd.is_absolute());
            assert!(!process.user.to_string().starts_with(char::is_alphabetic));
            assert!(process.env.keys().all(|name| !name.contains(['=', '\0'])));
            let targets = bundle.mounts.iter().map(|mount| &mount.target);
            let mut targets = targets.chain(&bundle.rooms);
            assert!(targets.all(|target| target.is_absolute()));
        }
        Err(fault) => assert!(!fault.message.is_empty() && !fault.help.is_empty()),
    }
}
