//! Messages between three parties, one in Rust, one in C and one in Python. Each must receive the
//! messages of the two others, and none of a forger.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use timeloom_timeline::messages::{Channel, Endpoints, Seal};
use timeloom_timeline::{Directory, Timeline};

use crate::{compile, library, root, timeline_of};

const KEY: &str = "a key that all three have";
const PATIENCE: Duration = Duration::from_secs(120);

struct Party {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Party {
    fn start(mut command: Command, arguments: &[&str], directory: &Path) -> Self {
        let mut child = command
            .args(arguments)
            .env("TIMELOOM_TIMELINES", directory)
            .env("LD_LIBRARY_PATH", library())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let said = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, said }
    }

    fn must_live(&mut self) {
        let ended = self.child.try_wait().expect("our own child");
        assert_eq!(ended, None, "it ended before it was told to");
    }

    fn wait_for(&mut self, wanted: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        assert_eq!(line, wanted);
    }

    /// Closes the input of the party, which ends it, and returns the rest of its output.
    fn ended(mut self) -> String {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("its end").success(), "{rest}");
        rest
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // If the test has failed, the process must be killed; otherwise it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn rust_c_and_python_hear_each_other_and_no_forger() {
    let directory = tempfile::tempdir().expect("a directory");
    let daemon = timeline_of(directory.path());
    let program = compile(
        "cc",
        &["-std=c11"],
        &root().join(SOURCE_C),
        directory.path(),
    );
    // Each party has an IP address of its own, so that all parties can use the same port number.
    let tap = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = tap.local_addr().expect("its address").port();
    let at = |host: u8| format!("127.0.0.{host}:{port}");
    let (rust, c, python) = (at(11), at(12), at(13));

    let place = Directory::new(directory.path());
    let timeline = Arc::new(Timeline::open_in(&place, "cell").expect("the timeline"));
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    // The tap also receives the parties' messages, so that it can replay them.
    let endpoints = Endpoints {
        listen: address(&rust),
        peers: vec![address(&c), address(&python)],
    };
    let seal = Seal::new(KEY.as_bytes()).expect("a long key");
    let channel = Channel::open(Arc::clone(&timeline), "run", &endpoints, Some(seal));
    let channel = channel.expect("a channel");
    let (sender, heard) = mpsc::channel();
    let told = move |message: &timeloom_timeline::messages::ReceivedMessage| {
        let earliest = message.acted.interval().map(|it| it.earliest());
        assert!(earliest >= message.act_at && message.act_at.is_some());
        let _ = sender.send(message.key.clone());
    };
    channel.subscribe("hello/*", true, told).expect("a pattern");

    let mut in_c = Party::start(
        Command::new(&program),
        &["c", &c, &rust, &python, KEY],
        directory.path(),
    );
    let mut interpreter = Command::new(root().join(".venv/bin/python"));
    interpreter
        .arg(root().join(SOURCE_PYTHON))
        .env("PYTHONPATH", root().join("python"));
    let mut in_python = Party::start(
        interpreter,
        &["p", &python, &rust, &c, KEY],
        directory.path(),
    );

    let mut missing = vec!["hello/c", "hello/p"];
    while !missing.is_empty() {
        in_c.must_live();
        in_python.must_live();
        let act_at = timeline.read().unwrap().interval().map(|it| it.latest());
        channel
            .publish("hello/r", b"r", act_at)
            .expect("it is sent");
        if let Ok(key) = heard.recv_timeout(Duration::from_millis(50)) {
            missing.retain(|wanted| *wanted != key);
        }
    }
    // Publishes repeatedly until both parties have received the message.
    let (done, over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let over = over;
            while over.recv_timeout(Duration::from_millis(50)).is_err() {
                let act_at = timeline.read().unwrap().interval().map(|it| it.latest());
                channel
                    .publish("hello/r", b"r", act_at)
                    .expect("it is sent");
            }
        });
        in_c.wait_for("heard both\n");
        in_python.wait_for("heard both\n");
        done.send(()).expect("the other end");
    });

    let before = channel.counts().unproved;
    // A sender with another key, and a replay of an authentic message.
    let forger = Seal::new(b"what the forger thinks of").expect("a long key");
    let to = vec![
        address(&c),
        address(&python),
        address(&rust),
        tap.local_addr().unwrap(),
    ];
    let endpoints = Endpoints {
        listen: address("127.0.0.1:0"),
        peers: to.clone(),
    };
    let forging = Channel::open(Arc::clone(&timeline), "run", &endpoints, Some(forger)).unwrap();
    forging.publish("hello/r", b"r", None).expect("it is sent");
    let seal = Seal::new(KEY.as_bytes()).expect("a long key");
    let honest = Channel::open(Arc::clone(&timeline), "run", &endpoints, Some(seal)).unwrap();
    let act_at = timeline.read().unwrap().interval().map(|it| it.latest());
    honest.publish("hello/r", b"r", act_at).expect("it is sent");
    let mut datagram = [0; 2000];
    tap.set_read_timeout(Some(PATIENCE)).expect("a length");
    let mut length = 0;
    for _ in 0..2 {
        length = tap.recv(&mut datagram).expect("what was said");
    }
    for peer in &to[..3] {
        tap.send_to(&datagram[..length], peer).expect("it is sent");
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while channel.counts().unproved < before + 2 {
        assert!(
            std::time::Instant::now() < deadline,
            "{:?}",
            channel.counts()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // The messages were sent to the other parties earlier, and the kernel has queued them, so these
    // parties have received the same.
    for party in [in_c, in_python] {
        assert_eq!(party.ended(), "2 heard, 2 unproved, 0 dropped\n");
    }
    drop(daemon);
}

const SOURCE_C: &str = "crates/assembly/capi/tests/party.c";
const SOURCE_PYTHON: &str = "crates/assembly/capi/tests/party.py";
