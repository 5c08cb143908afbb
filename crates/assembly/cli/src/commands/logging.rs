//! Log lines on stderr: what the libraries do, as spans and events.
//!
//! `TIMELOOM_LOG` selects them. Without it, nothing is installed, and an event costs one load.

use std::io::{self, Write};
use std::sync::OnceLock;

use timeloom_run::exit::{Failure, note};
use timeloom_sys::environment::LOG;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// True if the log lines of this process are JSON objects.
static IS_JSON: OnceLock<bool> = OnceLock::new();

/// Installs the log of this process, if `TIMELOOM_LOG` is set or `as_json` is true. To be called
/// once, before other threads start.
pub(crate) fn install(as_json: bool) -> Result<(), Failure> {
    // This function is called only once.
    let _ = IS_JSON.set(as_json);
    let text = std::env::var_os(LOG).filter(|text| !text.is_empty());
    let filter = match (text, as_json) {
        (Some(text), _) => {
            let text = text.to_string_lossy();
            parse(&text).map_err(|part| {
                Failure::usage(format!(
                    "the log filter {LOG}={text} has `{part}` in it: write a level (`error`, \
                     `warn`, `info`, `debug`, `trace`, `off`), or parts such as \
                     `timeloom_guest=trace`, separated by commas"
                ))
            })?
        }
        (None, true) => Targets::new().with_default(LevelFilter::INFO),
        (None, false) => return Ok(()),
    };
    let lines = layer()
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(|| FilteredLine);
    let installed = match as_json {
        true => {
            let lines = lines.json().flatten_event(true);
            registry().with(lines.with_filter(filter)).try_init()
        }
        false => registry().with(lines.with_filter(filter)).try_init(),
    };
    installed.map_err(|error| Failure::run(format!("starting the log: {error}")))
}

/// Returns true if log lines are JSON objects, so that processes which this one starts must write
/// such lines, too.
pub(crate) fn is_json() -> bool {
    IS_JSON.get().is_some_and(|is_json| *is_json)
}

/// Parses `LEVEL` or `TARGET=LEVEL`, several separated by commas. Returns the part that is neither.
fn parse(text: &str) -> Result<Targets, &str> {
    let mut targets = Targets::new();
    for part in text.split(',') {
        let part = part.trim();
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, part),
        };
        // An empty text would be a level.
        let level: Option<LevelFilter> = level.parse().ok().filter(|_| !level.is_empty());
        targets = match (target, level) {
            (_, None) | (Some(""), _) => return Err(part),
            (None, Some(level)) => targets.with_default(level),
            (Some(target), Some(level)) => targets.with_target(target, level),
        };
    }
    Ok(targets)
}

/// Writer of log lines. Each write is a whole line, and goes through the filter of output: fields
/// may contain texts of programs and of other machines.
struct FilteredLine;

impl Write for FilteredLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        note!("{}", one_line(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the text without its last newline. Other newlines are shown, so that a text from outside
/// cannot look like a line of the log.
fn one_line(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_or_names_targets() {
        let debug = parse("debug").expect("a level");
        let expected = Targets::new().with_default(LevelFilter::DEBUG);
        assert_eq!(debug, expected);
        let both = parse("info, timeloom_guest=trace").expect("a level and a target");
        let expected = Targets::new()
            .with_default(LevelFilter::INFO)
            .with_target("timeloom_guest", LevelFilter::TRACE);
        assert_eq!(both, expected);
        for (text, part) in [
            ("verbose", "verbose"),
            ("debug,", ""),
            ("info,timeloom_guest=loud", "timeloom_guest=loud"),
            ("=debug", "=debug"),
        ] {
            assert_eq!(parse(text).expect_err("no filter"), part, "{text}");
        }
    }

    #[test]
    fn a_line_of_the_log_stays_one_line() {
        assert_eq!(one_line("DEBUG a=1\n"), "DEBUG a=1");
        assert_eq!(one_line("name=a\nDEBUG b=2\n"), "name=a\\nDEBUG b=2");
    }
}
