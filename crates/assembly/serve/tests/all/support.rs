//! A server over a temporary directory, and a client that sends exactly what a test says.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use timeloom_results::{EventRow, Manifest, Outcome, Recorder, RunDirectory, SignalRow};
use timeloom_serve::{Server, ServerOptions};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

/// Limit of a wait for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Server whose runs lie in a directory that is removed with it.
pub(crate) struct Lab {
    pub(crate) place: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    acting: String,
    reading: String,
}

/// Answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(place.path().join("runs")).expect("it can be made");
        let options = ServerOptions {
            directory: place.path().join("runs"),
            listen: "127.0.0.1:0".parse().expect("an address"),
            read_only: false,
        };
        let (say, hear) = std::sync::mpsc::channel();
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let server = Server::bind(&options).await.expect("a free port");
                let acting = server.url().expect("pages may act");
                say.send((server.address(), acting, server.read_only_url()))
                    .expect("it is heard");
                match server.run().await {}
            });
        });
        let (address, acting, reading) = hear.recv().expect("the server starts");
        let token = |url: String| url.split_once("#token=").expect("a token").1.to_owned();
        Self {
            place,
            address,
            acting: token(acting),
            reading: token(reading),
        }
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.place.path().join("runs")
    }

    /// Makes a run that goes on, as far as its directory tells.
    pub(crate) fn run(&self, name: &str) -> (RunDirectory, Recorder) {
        let run = RunDirectory::create(self.runs().join(name)).expect("it can be made");
        run.write_manifest(&manifest(name))
            .expect("it can be written");
        let recorder = run.recorder().expect("the first one");
        (run, recorder)
    }

    /// Makes a run that has ended, with a sample and an event.
    pub(crate) fn finished(&self, name: &str) -> RunDirectory {
        let (run, recorder) = self.run(name);
        recorder
            .signal(&sample("level", 1_000_000_000, 2.5))
            .expect("there is room");
        recorder
            .event(&event(0, "start", "python3 plc.py"))
            .expect("there is room");
        recorder.finish().expect("there is room");
        let mut manifest = manifest(name);
        manifest.outcome = Outcome::Done;
        manifest.virtual_duration = timeloom_time::Duration::from_ns(2_000_000_000);
        run.write_manifest(&manifest).expect("it can be written");
        run
    }

    /// Sends a request with these lines after its first one.
    pub(crate) fn ask(&self, first: &str, lines: &[String], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut text = format!("{first} HTTP/1.1\r\nconnection: close\r\n");
        for line in lines {
            text += &format!("{line}\r\n");
        }
        if !body.is_empty() {
            text += "content-type: application/json\r\n";
            text += &format!("content-length: {}\r\n", body.len());
        }
        stream
            .write_all(format!("{text}\r\n{body}").as_bytes())
            .expect("it is taken");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an answer in time");
        let all = String::from_utf8(all).expect("text");
        let (head, body) = all.split_once("\r\n\r\n").expect("a head");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            code: code.expect("a code"),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("host: {}", self.address)
    }

    pub(crate) fn origin(&self) -> String {
        format!("origin: http://{}", self.address)
    }

    pub(crate) fn token(&self, may_act: bool) -> &str {
        match may_act {
            true => &self.acting,
            false => &self.reading,
        }
    }

    /// Returns the line with a token.
    pub(crate) fn access(&self, may_act: bool) -> String {
        format!("authorization: Bearer {}", self.token(may_act))
    }

    /// Asks as a page does that has a token.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(
            &format!("GET {path}"),
            &[self.host(), self.access(false)],
            "",
        )
    }

    /// Asks for a ticket for the report of a run.
    pub(crate) fn ticket(&self, run: &str) -> Answer {
        let lines = [self.host(), self.origin(), self.access(false)];
        self.ask(&format!("POST /api/ticket?run={run}"), &lines, "{}")
    }

    /// Opens a report as a browser does: by its address alone.
    pub(crate) fn report(&self, run: &str, ticket: &str) -> Answer {
        let first = format!("GET /report?run={run}&ticket={ticket}");
        self.ask(&first, &[self.host()], "")
    }

    /// Opens the socket of a page. Returns the reason if it is refused, or closed before the page
    /// gets a message.
    pub(crate) fn watch(
        &self,
        run: &str,
        token: Option<&str>,
        origin: &str,
    ) -> Result<Page, String> {
        let mut socket = self.socket(run, origin)?;
        if let Some(token) = token {
            let greeting = serde_json::json!({ "token": token }).to_string();
            socket.send(Message::text(greeting)).expect("it is taken");
        }
        match socket.read().expect("a message in time") {
            Message::Text(text) => Ok(Page {
                socket,
                first: Some(text.to_string()),
            }),
            Message::Close(Some(frame)) => Err(format!("{}: {}", frame.code, frame.reason)),
            other => panic!("{other:?}"),
        }
    }

    /// Opens a socket, and says nothing on it.
    pub(crate) fn socket(&self, run: &str, origin: &str) -> Result<WebSocket<TcpStream>, String> {
        let url = format!("ws://{}/api/watch?run={run}", self.address);
        let mut request = url.into_client_request().expect("an address");
        let headers = request.headers_mut();
        headers.insert("origin", origin.parse().expect("a value"));
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(socket),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Opens the socket as a page of this server does.
    pub(crate) fn page(&self, run: &str) -> Page {
        let origin = format!("http://{}", self.address);
        self.watch(run, Some(self.token(false)), &origin)
            .expect("it is accepted")
    }
}

/// Page that shows a run.
#[derive(Debug)]
pub(crate) struct Page {
    socket: WebSocket<TcpStream>,
    /// Message that has come already.
    first: Option<String>,
}

impl Page {
    /// Returns the next message, and its length.
    pub(crate) fn next(&mut self) -> (Value, usize) {
        let value = |text: &str| (serde_json::from_str(text).expect("JSON"), text.len());
        if let Some(first) = self.first.take() {
            return value(&first);
        }
        loop {
            match self.socket.read().expect("a message in time") {
                Message::Text(text) => return value(&text),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads messages until `pick` finds something in one.
    pub(crate) fn find<T>(&mut self, pick: impl Fn(&Value) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = pick(&self.next().0) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "it is not told");
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("it is taken");
    }
}

pub(crate) fn manifest(name: &str) -> Manifest {
    Manifest::begin(name, 7, timeloom_time::Instant::ZERO, b"")
}

pub(crate) fn sample(name: &str, ns: i64, value: f64) -> SignalRow {
    SignalRow {
        t_virtual: timeloom_time::Instant::from_ns(ns),
        t_wall: timeloom_time::Instant::ZERO,
        host: "local".into(),
        source: "tank".into(),
        name: name.into(),
        value,
        unit: "m".into(),
    }
}

pub(crate) fn event(ns: i64, kind: &str, text: &str) -> EventRow {
    EventRow {
        t_virtual: timeloom_time::Instant::from_ns(ns),
        t_wall: timeloom_time::Instant::ZERO,
        host: "plc".into(),
        source: "controller".into(),
        kind: kind.into(),
        text: text.into(),
    }
}
