//! Session for a test, and the programs in it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use timeloom_guest::{
    ClockOptions, CommandSpec, Guest, Host, HostOptions, Output, Session, SessionOptions,
};

use super::{PATIENCE, PAUSE, Scratch, unique};

/// Session for a test, with the warnings that it has issued and the gate at which its programs
/// wait.
pub(crate) struct World {
    pub(crate) session: Arc<Session>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
    pub(crate) gate: Gate,
    /// Factor by which long pauses are lengthened.
    pub(crate) longer: AtomicU32,
    /// Host of the programs; `None` for the session's own host.
    host: Option<Arc<Host>>,
}

impl World {
    pub(crate) fn new(theme: &str, dilation: f64) -> Self {
        Self::with_clock(
            theme,
            ClockOptions {
                dilation,
                ..ClockOptions::default()
            },
        )
    }

    pub(crate) fn with_clock(theme: &str, clock: ClockOptions) -> Self {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&warnings);
        let options = SessionOptions {
            name: unique(theme),
            clock,
            warn: Box::new(move |text| heard.lock().expect("no panic while held").push(text)),
        };
        let session = Arc::new(Session::new(options).expect("a session"));
        Self {
            session,
            warnings,
            gate: Gate::new(theme),
            longer: AtomicU32::new(1),
            host: None,
        }
    }

    /// Creates a world whose programs run on a separate host. Returns both.
    pub(crate) fn with_host(theme: &str) -> (Self, Arc<Host>) {
        let mut world = Self::new(theme, 1.0);
        let host = world.add_host("far");
        world.host = Some(Arc::clone(&host));
        (world, host)
    }

    pub(crate) fn add_host(&self, name: &str) -> Arc<Host> {
        let host = self.session.add_host(name, &HostOptions::default());
        host.expect("a host more")
    }

    /// Returns the wall seconds per second of the world's programs.
    pub(crate) fn dilation(&self) -> f64 {
        let (_, times) = self.session.clock().host_times();
        let own = self.host.as_ref().and_then(|host| {
            let time = times.iter().find(|time| time.host.name() == host.name());
            time.map(|time| time.dilation)
        });
        self.session.clock().dilation() * own.unwrap_or(1.0)
    }

    /// Returns the dilation of the session, and that of the host of its programs.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let whole = self.session.clock().dilation();
        (whole, self.dilation() / whole)
    }

    /// Restores the dilations that [`Self::rates`] has returned.
    pub(crate) fn set_rates(&self, (whole, own): (f64, f64)) {
        self.session.dilate(whole).expect("it was possible before");
        if let Some(host) = &self.host {
            let hosts = std::slice::from_ref(host);
            self.session
                .dilate_hosts(hosts, own)
                .expect("it was possible before");
        }
    }

    /// Starts a program in the session.
    pub(crate) fn start(&self, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        self.start_on(self.host.clone(), argv)
    }

    /// Starts a program on `host`, or on the session's own host.
    pub(crate) fn start_on(
        &self,
        host: Option<Arc<Host>>,
        argv: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Program {
        let (read, write) = pipe();
        let mut spec = CommandSpec::new(argv);
        spec.output = Output::To(write);
        spec.host = host;
        let name = spec.argv[0].to_string_lossy().into_owned();
        let guest = self
            .session
            .spawn(&spec)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        drop(spec);
        Program::new(name, Runner::Guest(guest), read)
    }

    /// Starts a program that waits at the gate before it runs its cases.
    pub(crate) fn start_at_gate(
        &self,
        program: &[OsString],
        wait_ms: u32,
        cases: &[&str],
    ) -> Program {
        self.start(self.gate.arguments(program, wait_ms, cases))
    }

    /// Waits until the virtual clock has advanced by `after`.
    pub(crate) fn run_for(&self, after: Duration) {
        let target =
            self.session.clock().now() + timeloom_time::Duration::from_ns(after.as_nanos() as i64);
        self.session.clock().wait_until(target, || false);
    }

    /// Pauses the session for `wall` of wall time.
    pub(crate) fn pause_for(&self, wall: Duration) {
        self.session.pause().expect("pausing");
        std::thread::sleep(wall);
        self.session.resume().expect("resuming");
    }

    /// Returns a length of a pause by which a wait that counts it can be distinguished from the
    /// delay of a busy machine.
    pub(crate) fn long(&self) -> Duration {
        PAUSE * self.longer.load(Ordering::Relaxed)
    }

    /// Returns the identifiers of the session's processes.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.session
            .processes()
            .expect("they can be looked at")
            .into_iter()
            .map(|process| process.pid)
            .collect()
    }
}

/// FIFO at which programs wait, so that all of them begin at the same moment.
pub(crate) struct Gate {
    scratch: Scratch,
    writer: Mutex<Option<File>>,
}

impl Gate {
    pub(crate) fn new(theme: &str) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let scratch = Scratch::new(theme);
        let path = std::ffi::CString::new(scratch.path("gate").as_os_str().as_bytes())
            .expect("no zero byte");
        // SAFETY: a valid C string.
        let made = unsafe { libc::mkfifo(path.as_ptr(), 0o666) };
        assert_eq!(made, 0, "making the gate");
        // It is opened for reading too, so that no process blocks in opening it.
        let writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(scratch.path("gate"));
        Self {
            scratch,
            writer: Mutex::new(Some(writer.expect("opening the gate"))),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path("gate")
    }

    /// Releases all programs that have reported that they are ready.
    pub(crate) fn open(&self) {
        self.writer.lock().expect("no panic while held").take();
    }

    pub(crate) fn arguments(
        &self,
        program: &[OsString],
        wait_ms: u32,
        cases: &[&str],
    ) -> Vec<OsString> {
        let mut argv = program.to_vec();
        argv.push(self.path().into());
        argv.push(wait_ms.to_string().into());
        argv.extend(cases.iter().map(Into::into));
        argv
    }
}

/// Running program, whose output is read line by line.
pub(crate) struct Program {
    name: String,
    runner: Runner,
    lines: Receiver<String>,
    seen: Vec<String>,
}

enum Runner {
    Guest(Guest),
    Native(Child),
}

impl Program {
    /// Starts a program natively, for comparison.
    pub(crate) fn native(argv: &[OsString]) -> Self {
        Self::native_reading(argv, Stdio::null())
    }

    /// Starts a program natively, with this standard input.
    pub(crate) fn native_reading(argv: &[OsString], input: Stdio) -> Self {
        let (read, write) = pipe();
        let name = argv[0].to_string_lossy().into_owned();
        let errors = write.try_clone().expect("duplicating a pipe");
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(input)
            .stdout(write)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Self::new(name, Runner::Native(child), read)
    }

    fn new(name: String, runner: Runner, output: OwnedFd) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(File::from(output)).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            name,
            runner,
            lines,
            seen: Vec::new(),
        }
    }

    pub(crate) fn guest(&self) -> &Guest {
        match &self.runner {
            Runner::Guest(guest) => guest,
            Runner::Native(_) => panic!("{} runs natively", self.name),
        }
    }

    /// Returns the process identifier of a program that runs natively.
    pub(crate) fn native_pid(&self) -> i32 {
        match &self.runner {
            Runner::Native(child) => child.id() as i32,
            Runner::Guest(_) => panic!("{} is a guest", self.name),
        }
    }

    /// Returns the next line of the program's output.
    pub(crate) fn next_line(&mut self) -> String {
        self.wait_for_line(|_| true)
    }

    /// Waits until the program has printed this line.
    pub(crate) fn wait_for(&mut self, wanted: &str) {
        self.wait_for_line(|line| line == wanted);
    }

    /// Waits for a line for which `matches` returns true, and returns the line.
    pub(crate) fn wait_for_line(&mut self, matches: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            match self
                .lines
                .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
            {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if matches(&line) {
                        return line;
                    }
                }
                Err(error) => panic!(
                    "{} did not print what was waited for ({error}); it printed {:#?}",
                    self.name, self.seen
                ),
            }
        }
    }

    /// Returns the program's output up to now.
    pub(crate) fn printed(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// Waits for the program's end. Returns its whole output, and its exit status in the form that
    /// a shell reports.
    pub(crate) fn finish(mut self) -> (Vec<String>, i32) {
        let begun = Instant::now();
        loop {
            match self
                .lines
                .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
            {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "{} does not end; so far it printed {:#?}",
                        self.name, self.seen
                    )
                }
            }
        }
        let status = match &mut self.runner {
            Runner::Guest(guest) => guest
                .wait_for(Some(PATIENCE))
                .expect("it closed its output, so it ends"),
            Runner::Native(child) => child.wait().expect("our own child").code().unwrap_or(-1),
        };
        (self.seen, status)
    }
}

pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: writes two descriptors.
    let made = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "making a pipe");
    // SAFETY: the descriptors were just created, and have no other owner.
    unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) }
}
