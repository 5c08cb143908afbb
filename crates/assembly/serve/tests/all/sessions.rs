//! Sessions beside the server, as far as their sockets tell: which are asked, and how often.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Lab, PATIENCE};

/// Each server finds the sessions of the other test too.
static ALONE: Mutex<()> = Mutex::new(());

/// Control socket of a session, which is removed on drop. A thread serves each connection.
struct Session {
    socket: PathBuf,
    /// Each request of this process, and a `connection` before the first one of each connection.
    /// Other processes on this machine look for sessions too.
    asked: Receiver<String>,
}

impl Session {
    /// Begins to listen. `answers` returns true for requests that are answered.
    fn new(name: &str, directory: Option<&Path>, answers: fn(&Value) -> bool) -> Self {
        let place = timeloom_guest::runtime_directory();
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&place);
        made.expect("the directory of sockets");
        let socket = place.join(format!("{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&socket).expect("the name is free");
        let status = json!({ "ok": {
            "name": name, "virtual_ns": 2_500_000_000_i64, "utc_ns": 0, "wall_ns": 0,
            "paused_total_ns": 0, "paused": false, "dilation": 1.0, "directory": directory,
        }});
        let (say, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (say, status) = (say.clone(), status.clone());
                std::thread::spawn(move || serve(stream, &say, &status, answers));
            }
        });
        Self { socket, asked }
    }

    /// Returns what was asked since the last time.
    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }

    /// Waits until this was asked.
    fn wait_for(&self, what: &str) {
        let begun = Instant::now();
        while self.asked.recv_timeout(PATIENCE).expect("a request") != what {
            assert!(begun.elapsed() < PATIENCE, "no {what}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn serve(
    mut stream: UnixStream,
    say: &Sender<String>,
    status: &Value,
    answers: fn(&Value) -> bool,
) {
    let peer = rustix::net::sockopt::socket_peercred(&stream).expect("a process");
    let is_ours = peer.pid.as_raw_nonzero().get().cast_unsigned() == std::process::id();
    let tell = |what: &str| {
        if is_ours {
            let _ = say.send(what.to_owned());
        }
    };
    tell("connection");
    let lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
    for line in lines.map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        tell(request["op"].as_str().expect("an operation"));
        if answers(&request) && writeln!(stream, "{status}").is_err() {
            return;
        }
    }
}

/// Time that a session without an answer must not cost: a quarter of the patience for one.
const SHORT: Duration = Duration::from_millis(1250);

#[test]
fn a_session_is_asked_once_and_a_silent_one_delays_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let (run, _recorder) = lab.run("live");
    let directory = lab.runs().join("live");
    // By name, it would be asked before the others.
    let silent = Session::new("0-silent", None, |_| false);
    let other = Session::new("test-other", None, |_| true);
    let own = Session::new("test-own", Some(&directory), |_| true);
    let begun = Instant::now();
    for number in 0..20 {
        let list = lab.get("/api/runs").json();
        assert_eq!(list["runs"][0]["state"], "running", "{list}");
        assert_eq!(list["runs"][0]["virtual_s"], 2.5, "{list}");
        if number == 0 {
            assert!(begun.elapsed() < SHORT, "{:?}", begun.elapsed());
        }
    }
    // One connection for the directory, and one for the clock in each list, of which there is one a
    // second for all pages.
    let lists = own.asked();
    let most = 2 + begun.elapsed().as_secs() as usize + 1;
    let connections = lists.iter().filter(|it| *it == "connection").count();
    assert!((2..=most).contains(&connections), "{lists:?}");
    assert!(
        lists.iter().all(|it| it == "connection" || it == "status"),
        "{lists:?}"
    );
    let mut page = lab.page("live");
    page.find(|message| message["clock"]["virtual_s"].as_f64().filter(|s| *s == 2.5));
    own.wait_for("watch");
    let begun = Instant::now();
    let lines = [lab.host(), lab.origin(), lab.access(true)];
    let answer = lab.ask("POST /api/act?run=live", &lines, r#"{"op":"pause"}"#);
    assert_eq!(answer.code, 200, "{answer:?}");
    assert!(begun.elapsed() < SHORT, "{:?}", begun.elapsed());
    own.wait_for("by");
    assert_eq!(other.asked(), ["connection", "status"]);
    assert!(silent.asked().iter().all(|it| it != "watch"));
    drop(run);
}

/// A page that goes away ends its request, and the thread that steps goes on: it counts until the
/// session answers.
#[test]
fn a_step_whose_page_has_left_still_counts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let (_run, _recorder) = lab.run("live");
    let directory = lab.runs().join("live");
    let session = Session::new("test-slow", Some(&directory), |request| {
        request["op"] != "by"
    });
    let step = r#"{"op":"step","span":"1 s"}"#;
    for _ in 0..8 {
        let mut stream = TcpStream::connect(lab.address).expect("it listens");
        let (host, origin, access) = (lab.host(), lab.origin(), lab.access(true));
        let length = step.len();
        write!(
            stream,
            "POST /api/act?run=live HTTP/1.1\r\n{host}\r\n{origin}\r\n{access}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{step}"
        )
        .expect("it is taken");
        session.wait_for("by");
    }
    let lines = [lab.host(), lab.origin(), lab.access(true)];
    // The server sees at some time that the pages have left.
    for _ in 0..200 {
        let answer = lab.ask("POST /api/act?run=live", &lines, step);
        assert_eq!(answer.code, 503, "{answer:?}");
    }
}
