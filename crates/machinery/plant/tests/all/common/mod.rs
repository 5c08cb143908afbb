//! Common parts of the tests: a fake plant, and a testbed that consists of a clock only.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time;

use serde_json::json;
use timeloom_bus::{Testbed, TestbedError};
use timeloom_plant::{PlantError, PlantInit, PlantLog, PlantProcess, PlantSpec, Timeouts};
use timeloom_time::{Duration, Instant, Virtual};

/// Clock that can be stopped, and that counts its pauses.
pub(crate) struct Clock {
    state: Mutex<(time::Instant, i64, bool)>,
    pub(crate) pauses: AtomicU64,
    /// Called before the clock resumes.
    pub(crate) on_resume: Mutex<Box<dyn FnMut() + Send>>,
}

impl Clock {
    pub(crate) fn new() -> Arc<Self> {
        let state = Mutex::new((time::Instant::now(), 0, false));
        Arc::new(Self {
            state,
            pauses: AtomicU64::new(0),
            on_resume: Mutex::new(Box::new(|| ())),
        })
    }

    pub(crate) fn stands(&self) -> bool {
        self.state.lock().unwrap().2
    }
}

impl Testbed for Clock {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        let mut state = self.state.lock().unwrap();
        assert!(!state.2, "paused twice");
        state.1 += state.0.elapsed().as_nanos() as i64;
        state.2 = true;
        self.pauses.fetch_add(1, SeqCst);
        Ok(Instant::from_ns(state.1))
    }

    fn resume(&self, _until: Instant<Virtual>) -> Result<(), TestbedError> {
        (self.on_resume.lock().unwrap())();
        let mut state = self.state.lock().unwrap();
        assert!(state.2, "resumed twice");
        *state = (time::Instant::now(), state.1, false);
        Ok(())
    }
}

/// Returns an unused path in a temporary directory.
pub(crate) fn scratch(what: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(format!("{}-{what}", COUNT.fetch_add(1, SeqCst)))
}

pub(crate) fn python() -> OsString {
    // A path through the shell scripts of a version manager would be slow.
    let system = "/usr/bin/python3";
    if std::path::Path::new(system).exists() {
        system.into()
    } else {
        "python3".into()
    }
}

/// Creates a new log.
pub(crate) fn log(path: &std::path::Path) -> PlantLog {
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).create_new(true).open(path);
    PlantLog::file(file.expect("a new file")).expect("a descriptor")
}

pub(crate) fn spec(arguments: &[&str]) -> PlantSpec {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_plant.py");
    let mut argv = vec![python(), "-SE".into(), script.into()];
    argv.extend(arguments.iter().map(OsString::from));
    // Only the cases in which a timeout must expire have a short one.
    let is_late = |misdeed: &&str| misdeed.starts_with("hang") || misdeed.starts_with("late");
    let request = match arguments.iter().any(is_late) {
        true => Duration::from_ms(700),
        false => Duration::from_s(60),
    };
    PlantSpec {
        name: "grid".to_owned(),
        argv,
        inherit: Vec::new(),
        env: Vec::new(),
        cwd: None,
        log: log(&scratch("plant.log")),
        rights: None,
        cgroup: None,
        timeouts: Timeouts {
            init: Duration::from_s(60),
            request,
            stop: Duration::from_s(5),
        },
    }
}

pub(crate) fn init(record: &[&str]) -> PlantInit {
    PlantInit {
        seed: 7,
        t: Instant::ZERO,
        config: json!({}),
        record: record.iter().map(|name| name.to_string()).collect(),
        record_every: Duration::from_ms(100),
        step: Duration::from_ms(10),
    }
}

pub(crate) fn start(arguments: &[&str]) -> Result<PlantProcess, PlantError> {
    PlantProcess::start(&spec(arguments), &init(&[]))
}

/// Returns true if a process with this ID exists, even as a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}
