//! Pages, scripts and styles, embedded in the program. They contain no data of runs.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::access::refuse;

pub(super) async fn library() -> Response {
    html(include_str!("../../assets/library.html"))
}

pub(super) async fn run() -> Response {
    html(include_str!("../../assets/run.html"))
}

/// Returns the page that gets a ticket for a report, and opens it.
pub(super) fn report() -> Response {
    html(include_str!("../../assets/report.html"))
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    match found {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "there is no such file"),
    }
}

fn html(text: &'static str) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($name:literal, $kind:expr) => {
        ($name, $kind, include_str!(concat!("../../assets/", $name)))
    };
}

/// Name, type and text of each file.
const FILES: [(&str, &str, &str); 14] = [
    asset!("style.css", "text/css; charset=utf-8"),
    asset!("icon.svg", "image/svg+xml"),
    asset!("access.js", SCRIPT),
    asset!("controls.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("events.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("header.js", SCRIPT),
    asset!("hosts.js", SCRIPT),
    asset!("library.js", SCRIPT),
    asset!("logs.js", SCRIPT),
    asset!("report.js", SCRIPT),
    asset!("run.js", SCRIPT),
    asset!("strips.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every file which a page or a script names is served, and that none names another
    /// server.
    #[test]
    fn pages_name_files_of_this_server_only() {
        let pages = [
            include_str!("../../assets/library.html"),
            include_str!("../../assets/report.html"),
            include_str!("../../assets/run.html"),
        ];
        let texts = pages
            .into_iter()
            .chain(FILES.iter().map(|(_, _, text)| *text));
        let mut count = 0;
        for text in texts {
            for end in [".js\"", ".css\"", ".svg\""] {
                for (at, _) in text.match_indices(end) {
                    let name = text[..at]
                        .rsplit(['"', '/'])
                        .next()
                        .expect("a quote before");
                    let name = format!("{name}{}", end.trim_end_matches('"'));
                    assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
                    count += 1;
                }
            }
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("://"), "an address: {elsewhere}");
            for unsafe_word in ["innerHTML", "insertAdjacent", "document.write", "eval("] {
                assert!(!text.contains(unsafe_word), "{unsafe_word}");
            }
        }
        assert!(count > 15, "{count}");
    }
}
