//! Controller of a worker process: starts the worker, sends commands, and receives answers.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use timeloom_guest::{ClockOptions, CommandSpec, Guest, Session, SessionOptions};
use timeloom_sys::command::Signal;

use crate::Options;
use crate::error::BenchError;
use crate::scratch::{Scratch, unique};

/// Environment in which a worker runs.
pub(crate) enum Environment<'a> {
    /// A native process with the machine's clock.
    Native,
    /// A native process with these environment variables.
    With(Vec<(OsString, OsString)>),
    /// A process of this session, with the session's clock.
    Inside(&'a Session),
}

/// Connection to a worker that waits for commands. Dropping it ends the worker.
pub(crate) struct Remote {
    stream: BufReader<UnixStream>,
    process: Process,
}

enum Process {
    Native(Child),
    Guest(Guest),
}

impl Remote {
    /// Starts a worker and waits until it has connected.
    pub(crate) fn start(
        options: &Options,
        scratch: &Scratch,
        environment: &Environment<'_>,
    ) -> Result<Self, BenchError> {
        let socket = scratch.path().join(unique("worker"));
        let listener = UnixListener::bind(&socket).map_err(BenchError::system(format!(
            "listening at {}",
            socket.display()
        )))?;
        let mut command = options.worker.clone();
        command.push(socket.clone().into());
        let mut process = match environment {
            Environment::Inside(session) => {
                Process::Guest(session.spawn(&CommandSpec::new(command))?)
            }
            Environment::Native => start_native(&command, &[])?,
            Environment::With(variables) => start_native(&command, variables)?,
        };
        let stream = accept(&listener, &mut process);
        let _ = fs::remove_file(&socket);
        let mut remote = Self {
            stream: BufReader::new(stream?),
            process,
        };
        // Every answer arrives well within this time, so that a worker that hangs causes an error.
        remote
            .stream
            .get_ref()
            .set_read_timeout(Some(PATIENCE))
            .map_err(BenchError::system("preparing a worker's socket"))?;
        remote.ask("hello")?;
        Ok(remote)
    }

    /// Returns the process identifier of the worker.
    pub(crate) fn pid(&self) -> i32 {
        match &self.process {
            Process::Native(child) => child.id() as i32,
            Process::Guest(guest) => guest.pid(),
        }
    }

    /// Sends a command and returns the text of the answer.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String, BenchError> {
        self.send(command)?;
        self.answer()
    }

    /// Sends a command and returns the answer, which is a number of ticks.
    pub(crate) fn measure(&mut self, command: &str) -> Result<f64, BenchError> {
        let text = self.ask(command)?;
        text.parse()
            .map_err(|_| BenchError::Worker(format!("a worker answered `{command}`: {text}")))
    }

    /// Sends a command without waiting for the answer, since the worker may be frozen.
    pub(crate) fn send(&mut self, command: &str) -> Result<(), BenchError> {
        self.stream
            .get_mut()
            .write_all(format!("{command}\n").as_bytes())
            .map_err(BenchError::system("commanding a worker"))
    }

    /// Waits for the answer to a command that was sent before.
    pub(crate) fn answer(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        let length = self
            .stream
            .read_line(&mut line)
            .map_err(BenchError::system("waiting for a worker's answer"))?;
        if length == 0 {
            return Err(BenchError::Worker("a worker ended too early".into()));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        match &mut self.process {
            Process::Native(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Process::Guest(guest) => {
                guest.signal(Signal::KILL.as_raw());
                guest.wait();
            }
        }
    }
}

fn start_native(
    command: &[OsString],
    variables: &[(OsString, OsString)],
) -> Result<Process, BenchError> {
    let (program, arguments) = command.split_first().expect("ends in the socket");
    Command::new(program)
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .spawn()
        .map(Process::Native)
        .map_err(BenchError::system("starting a worker"))
}

fn accept(listener: &UnixListener, process: &mut Process) -> Result<UnixStream, BenchError> {
    let doing = "waiting for a worker to call back";
    listener
        .set_nonblocking(true)
        .map_err(BenchError::system(doing))?;
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream
                    .set_nonblocking(false)
                    .map_err(BenchError::system(doing))?;
                return Ok(stream);
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                return Err(BenchError::system(doing)(error));
            }
            Err(_) => {}
        }
        let ended = match process {
            Process::Native(child) => matches!(child.try_wait(), Ok(Some(_))),
            Process::Guest(guest) => guest.wait_for(Some(Duration::ZERO)).is_some(),
        };
        if ended || begun.elapsed() > PATIENCE {
            return Err(BenchError::Worker("a worker did not start".into()));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Creates a session for measurements.
pub(crate) fn session(options: &Options) -> Result<Session, BenchError> {
    session_with(options, ClockOptions::default())
}

/// Creates a session with these options for its clock.
pub(crate) fn session_with(options: &Options, clock: ClockOptions) -> Result<Session, BenchError> {
    let remark = options.remark;
    Ok(Session::new(SessionOptions {
        name: unique("bench"),
        clock,
        warn: Box::new(move |text| remark(&text)),
    })?)
}

const PATIENCE: Duration = Duration::from_secs(30);
