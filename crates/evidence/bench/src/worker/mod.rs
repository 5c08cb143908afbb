//! Worker: the measured process, which carries out commands that it receives over a socket.
//!
//! Each command and each answer is a line; see [`obey`]. Times are in ticks of the cycle counter,
//! because the worker's clock may be virtual.

mod batch;
mod plant;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use timeloom_run::exit::note;

use crate::cores::pin;
use crate::machines::agent;
use crate::shared::{Board, Shared};
use crate::ticks;
use crate::vm::serve_guest;

/// Argument that makes a worker process act as a plant.
pub(crate) const PLANT: &str = "plant";

/// Argument that makes a worker process the worker in a virtual machine.
const GUEST: &str = "vm-guest";

/// Runs a worker process. `argument` is the one that was appended to [`crate::Options::worker`].
pub fn worker_main(argument: &str) -> ExitCode {
    let done = match argument {
        PLANT => plant::serve(),
        GUEST => serve_guest(),
        socket => serve(socket),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("bench worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(socket: &str) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let woken = ticks::now();
        if let Some(words) = line.strip_prefix("agent ") {
            return agent::serve(words.trim_end(), stream, lines);
        }
        let answer =
            obey(line.trim_end(), woken, &mut stream).unwrap_or_else(|| format!("what? {line}"));
        stream.write_all(format!("{}\n", answer.trim_end()).as_bytes())?;
        line.clear();
    }
    Ok(())
}

/// Carries out one command, and returns the answer; `None` if the command is invalid.
///
/// | command | answer |
/// |---|---|
/// | `hello` | `ok` |
/// | `pin CORE` | `ok`; runs on that processor only from now on |
/// | `clock ID COUNT` | ticks per `clock_gettime(ID)` through the C library |
/// | `call NAME COUNT` | ticks per system call, see [`batch::system_call`] |
/// | `read PATH COUNT` | ticks for opening, reading and closing a file |
/// | `spawn` | ticks of fork + exec of /bin/true + wait |
/// | `sleep NS COUNT` | ticks of a sleep of NS, the median of COUNT |
/// | `brood COUNT` | `ok`; has that many children, which wait until they are ended |
/// | `doze COUNT` | `ok`; has that many sleeping threads, and one that sleeps for 1 ms repeatedly |
/// | `events` | number of times that the latter has slept |
/// | `agent NAME KEY` | see [`agent::serve`], which takes over |
/// | `stamp` | the counter as soon as the command was read |
/// | `spin PATH SLOT` | `ok` at once; then spins on the board for ever |
fn obey(command: &str, woken: u64, stream: &mut UnixStream) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    match words[..] {
        ["hello"] => Some("ok".into()),
        ["pin", core] => pin(core.parse().ok()?).then(|| "ok".into()),
        ["clock", id, count] => {
            let ticks = batch::clock_read(id.parse().ok()?, count.parse().ok()?);
            Some(ticks.to_string())
        }
        ["call", name, count] => {
            let ticks = batch::system_call(name, count.parse().ok()?)?;
            Some(ticks.to_string())
        }
        ["read", path, count] => {
            let ticks = batch::read_file(path, count.parse().ok()?)?;
            Some(ticks.to_string())
        }
        ["sleep", ns, count] => {
            let ticks = batch::sleep(ns.parse().ok()?, count.parse().ok()?);
            Some(ticks.to_string())
        }
        ["brood", count] => {
            batch::brood(count.parse().ok()?)?;
            Some("ok".into())
        }
        ["doze", count] => {
            batch::doze(count.parse().ok()?)?;
            Some("ok".into())
        }
        ["events"] => Some(batch::events().to_string()),
        ["spawn"] => Some(batch::spawn()?.to_string()),
        ["stamp"] => Some(woken.to_string()),
        ["spin", path, slot] => {
            let board = Shared::<Board>::open(Path::new(path)).ok()?;
            let slot: usize = slot.parse().ok()?;
            stream.write_all(b"ok\n").ok()?;
            spin(&board, slot)
        }
        _ => None,
    }
}

/// Polls the shared memory until the process is killed.
fn spin(shared: &Shared<Board>, slot: usize) -> ! {
    let board = shared.get();
    let slot = &board.slots[slot];
    let mut seen = 0;
    loop {
        let generation = board.generation.load(Acquire);
        if generation != seen {
            slot.ticks.store(ticks::now(), Relaxed);
            slot.generation.store(generation, Release);
            seen = generation;
        }
    }
}
