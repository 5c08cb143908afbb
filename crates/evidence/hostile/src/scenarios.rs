//! Scenarios: the file, and what `--set` puts in its place.

use timeloom_scenario::parse;

/// A scenario. What is accepted is written, and reads the same; what is not has a place
/// and a reason.
///
/// Input: the file; after a zero byte, `--set` values, apart by zero bytes.
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
