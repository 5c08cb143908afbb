//! `timeloom serve` beside a run: its actions reach the run, and become events of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::attacks::BY_HAND;
use crate::support::{Lab, Scenario};

/// `timeloom serve`, ended on drop.
struct Serving {
    child: Child,
    address: String,
    token: String,
}

impl Serving {
    fn below(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("timeloom can be started");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("an address");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().expect("an address");
        let (origin, token) = url.split_once("/#token=").expect("a token");
        Self {
            child,
            address: origin.strip_prefix("http://").expect("http").to_owned(),
            token: token.to_owned(),
        }
    }

    /// Returns the code of an answer, and the answer.
    fn ask(&self, first: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let (address, token, length) = (&self.address, &self.token, body.len());
        let request = format!(
            "{first} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n\
             authorization: Bearer {token}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.expect("a code"), answer)
    }

    fn act(&self, body: &str) -> Result<Value, String> {
        let (code, answer) = self.ask("POST /api/act?run=run", body);
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        match code {
            200 => Ok(serde_json::from_str(body).expect("JSON")),
            _ => Err(body.to_owned()),
        }
    }

    fn listed(&self) -> Value {
        let (_, answer) = self.ask("GET /api/runs", "");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        serde_json::from_str::<Value>(body).expect("JSON")["runs"][0].clone()
    }

    /// Returns the nice value of the server's process.
    fn priority(&self) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it runs");
        let after = stat.rsplit_once(") ").expect("a name").1;
        after
            .split(' ')
            .nth(16)
            .and_then(|nice| nice.parse().ok())
            .expect("a number")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn actions_of_a_page_reach_the_run_and_are_recorded_as_events() {
    let lab = Lab::new(&Scenario::lasting("600 s").plant("{}"));
    let mut run = lab.start(&[]);
    run.wait_until(0.2);
    let serving = Serving::below(lab.path());
    assert_eq!(serving.priority(), 10);
    assert_eq!(serving.listed()["state"], "running");

    let refused = serving
        .act(r#"{"op":"step","span":"10 ms"}"#)
        .expect_err("it runs");
    assert!(refused.contains("running"), "{refused}");
    assert_eq!(
        serving.act(r#"{"op":"pause"}"#).expect("it stops")["paused"],
        true
    );
    let frozen = run.control("query").expect("it answers");
    let holds = &frozen["holds"];
    assert_eq!(holds[0]["requester"], "user", "{frozen}");
    assert_eq!(holds[0]["reason"], "timeloom pause", "{frozen}");
    let before = frozen["virtual_ns"].as_i64().expect("a number");
    serving
        .act(r#"{"op":"step","span":"10 ms"}"#)
        .expect("it steps");
    let stepped = run.control("query").expect("it answers");
    assert_eq!(stepped["virtual_ns"].as_i64(), Some(before + 10_000_000));
    serving
        .act(r#"{"op":"dilate","factor":"0.5"}"#)
        .expect("it is faster");
    assert_eq!(
        serving.act(r#"{"op":"resume"}"#).expect("it goes on")["paused"],
        false
    );
    let until = serving.act(r#"{"op":"run-until","instant":"+200ms"}"#);
    assert_eq!(until.expect("it stops again")["paused"], true);
    let run = run.stop();

    let events = run.directory().events().expect("they can be read");
    let by_page: Vec<&str> = events
        .iter()
        .filter(|event| &*event.kind == "control")
        .map(|event| &*event.text)
        .collect();
    let expected = [
        "paused",
        "stepped 10 ms",
        "dilation set to 0.5",
        "resumed",
        "ran for 200 ms",
    ];
    let expected = expected.map(|effect| format!("by the live view: {effect}"));
    assert_eq!(by_page, expected, "the refused step is none");
    // A list is passed on for a second.
    let begun = std::time::Instant::now();
    while serving.listed()["state"] != "interrupted" {
        assert!(begun.elapsed().as_secs() < 60, "{}", serving.listed());
    }
    let gone = serving.act(r#"{"op":"pause"}"#).expect_err("it has ended");
    assert!(gone.contains("is not in progress"), "{gone}");
}

/// In a run whose time advances only by grants, a step requested by a page is a grant.
#[test]
fn a_step_of_a_page_is_a_grant_of_a_stepped_run() {
    let lab = Lab::new(&Scenario::lasting("600 s").plant("{}"));
    let mut run = lab.start(&["time.mode=stepped"]);
    run.wait_for("it does not answer", |run| run.control("query").is_ok());
    let serving = Serving::below(lab.path());
    let step = r#"{"op":"step","span":"10 ms"}"#;
    for _ in 0..2 {
        assert_eq!(serving.act(step).expect("it is granted")["paused"], true);
    }
    let status = run.control("query").expect("it answers");
    assert_eq!(status["virtual_ns"].as_i64(), Some(20_000_000));
    assert_eq!(status["holds"][0]["requester"], "granter", "{status}");
    let refused = serving
        .act(r#"{"op":"resume"}"#)
        .expect_err("by grants only");
    assert!(refused.contains("grants"), "{refused}");
    let run = run.stop();
    let events = run.directory().events().expect("they can be read");
    let texts = events.iter().filter(|event| &*event.kind == "control");
    let texts: Vec<&str> = texts.map(|event| &*event.text).collect();
    assert_eq!(texts, ["by the live view: stepped 10 ms"; 2]);
}

/// The end of the run comes before that of the step: the event says how far it went.
#[test]
fn a_step_beyond_the_end_is_an_event_with_its_length() {
    let lab = Lab::new(&Scenario::lasting("300 ms").plant("{}"));
    let mut run = lab.start(&["time.mode=stepped"]);
    run.wait_for("it does not answer", |run| run.control("query").is_ok());
    let serving = Serving::below(lab.path());
    let answer = serving.act(r#"{"op":"step","span":"10 s"}"#);
    assert_eq!(answer.expect("it is granted")["virtual_s"], 0.3);
    let run = run.wait().succeeded();
    let events = run.directory().events().expect("they can be read");
    let texts = events.iter().filter(|event| &*event.kind == "control");
    let texts: Vec<&str> = texts.map(|event| &*event.text).collect();
    let expected = "by the live view: stepped 10 s, cut short by the end of the session at 300 ms";
    assert_eq!(texts, [expected]);
}

#[test]
fn a_page_changes_links_and_starts_attacks() {
    let lab = Lab::with_text(BY_HAND);
    let mut run = lab.start(&[]);
    run.wait_until(0.1);
    let serving = Serving::below(lab.path());
    let act = |body: &str| serving.act(body);
    act(r#"{"op":"link","link":"a-s1","up":false}"#).expect("it goes down");
    act(r#"{"op":"link","link":"a-s1","mbit_per_s":"5","up":true}"#).expect("it goes up");
    let refused = act(r#"{"op":"link","link":"a-s1","delay":"1 ms"}"#).expect_err("the kernel's");
    assert!(refused.contains("only its rate and state"), "{refused}");
    act(r#"{"op":"start-attack","id":"flood"}"#).expect("it starts");
    run.wait_for_line("flood", "begun");
    act(r#"{"op":"stop-attack","id":"flood"}"#).expect("it stops");
    let refused = act(r#"{"op":"start-attack","id":"flood"}"#).expect_err("it was stopped");
    assert!(refused.contains("was stopped"), "{refused}");
    let run = run.stop();
    let events = run.directory().events().expect("they can be read");
    let mut found: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| ["control", "link", "attack"].contains(&&*event.kind))
        .map(|event| (&*event.kind, &*event.text))
        .collect();
    found.sort_unstable();
    let expected = [
        ("attack", "started by hand"),
        ("attack", "stopped by hand"),
        ("control", "by the live view: attack flood started"),
        ("control", "by the live view: attack flood stopped"),
        ("control", "by the live view: link a-s1: down"),
        (
            "control",
            "by the live view: link a-s1: up, rate 5000000 bit/s",
        ),
        ("link", "a-s1: down"),
        ("link", "a-s1: up, rate 5 Mbit/s"),
    ];
    assert_eq!(found, expected);
}
