// Waits of Rust's standard library, in the form of the other test programs (see common.h): PROGRAM
// GATE WAIT_MS, one line of output per case.
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

type Case = (&'static str, fn(Duration) -> String);

const CASES: &[Case] = &[
    ("sleep", |wait| {
        thread::sleep(wait);
        "-".into()
    }),
    ("park_timeout", |wait| {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            thread::park_timeout(wait - begun.elapsed());
        }
        "-".into()
    }),
    ("recv_timeout", |wait| {
        let (_sender, receiver) = mpsc::channel::<()>();
        format!("{:?}", receiver.recv_timeout(wait))
    }),
    ("condvar", |wait| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let guard = mutex.lock().unwrap();
        let (_guard, result) = condvar.wait_timeout_while(guard, wait, |()| true).unwrap();
        format!("{}", result.timed_out())
    }),
    ("tcp_read", |wait| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(wait)).unwrap();
        kind(stream.read(&mut [0; 8]).unwrap_err().kind())
    }),
    ("udp_recv", |wait| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        kind(socket.recv(&mut [0; 8]).unwrap_err().kind())
    }),
    ("child", |wait| {
        let seconds = wait.as_secs_f64().to_string();
        let status = std::process::Command::new("sleep").arg(seconds).status();
        format!("{}", status.unwrap().success())
    }),
    ("wall_clock", |wait| {
        let begun = SystemTime::now();
        thread::sleep(wait);
        format!("{}", begun.elapsed().unwrap() >= wait)
    }),
    ("threads", |wait| {
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(move || thread::sleep(wait)))
            .collect();
        let ended = threads.into_iter().filter_map(|one| one.join().ok()).count();
        format!("{ended}")
    }),
];

fn kind(kind: ErrorKind) -> String {
    format!("{kind:?}")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let wait = Duration::from_millis(arguments[2].parse().unwrap());
    let mut gate = std::fs::File::open(&arguments[1]).unwrap();
    say("ready");
    let _ = gate.read_to_end(&mut Vec::new());
    let threads: Vec<_> = CASES
        .iter()
        .map(|(name, case)| {
            thread::spawn(move || {
                let begun = Instant::now();
                let note = case(wait);
                let (want, lasted) = (wait.as_nanos(), begun.elapsed().as_nanos());
                say(&format!("{name} ret=0 errno=0 want_ns={want} virtual_ns={lasted} note={note}"));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}
