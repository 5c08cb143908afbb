//! Hosts that count a core's cycles, by a trace and under a governor. The scenario's own checks
//! limit the error of their clocks.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::passed;

use timeloom_results::RunDirectory;

#[test]
fn a_clock_made_of_cycles_increases_over_changes_and_lags_as_reported() {
    let directory = std::env::temp_dir().join(format!("timeloom-dvfs-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/dvfs/dvfs.toml", "-o"])
        .arg(&directory)
        .current_dir(root)
        .output()
        .expect("our own program");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for host in ["board", "governed"] {
        let log = fs::read_to_string(directory.join(format!("logs/{host}.log")));
        let log = log.unwrap_or_default();
        assert!(log.contains("not_increasing=0"), "{host}: {log}\n{text}");
    }
    assert!(passed(output.status), "{text}");
    let run = RunDirectory::open(&directory).expect("a run");
    for host in ["board", "governed"] {
        let names = ["offset", "missing"].map(|name| format!("{host}.clock.{name}"));
        let series = run.series(&[&names[0], &names[1]]).expect("recorded");
        let values = |index: usize| series[index].samples.iter().map(|(_, value)| *value);
        let mut seen = 0;
        for (offset, missing) in values(0).zip(values(1)) {
            // The error is exact to the nanosecond of a host's clock, and one cycle.
            assert!(
                offset <= 1e-8 && -offset <= missing + 1e-8,
                "{host}: {offset} {missing}"
            );
            seen += 1;
        }
        assert!(seen >= 10, "one a second: {seen}");
        let least = values(0).fold(0f64, f64::min);
        println!("{host} is {:.1} µs behind", -least * 1e6);
    }
    fs::remove_dir_all(&directory).expect("our own");
}

/// Directory `cpufreq` as made by a kernel, in which the test sets a core's frequency.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let name = format!("timeloom-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let machine = Self(directory);
        machine.run_at(FREQUENCIES_KHZ[0]);
        machine
    }

    /// Sets the frequency by one write of constant length, so that no reader finds a partial value.
    fn run_at(&self, khz: u32) {
        let mut file = fs::OpenOptions::new();
        let file = file.write(true).create(true).truncate(false);
        let file = file.open(self.0.join("scaling_cur_freq")).expect("a file");
        let text = format!("{khz:>8}\n");
        file.write_all_at(text.as_bytes(), 0)
            .expect("it can be written");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FREQUENCIES_KHZ: [u32; 3] = [800_000, 2_400_000, 1_200_000];

/// Returns a scenario with a host that counts the cycles of a core. The core follows the given
/// directory `cpufreq`.
fn following(cpufreq: &Path, time: &str) -> String {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/dvfs/reader.py");
    format!(
        "schema = \"timeloom/1\"\nname = \"followed\"\ntime = {{ duration = \"2 s\"{time} }}\n\
         [system]\nswitches = [\"s1\"]\nlinks = [{{ between = [\"board\", \"s1\"] }}]\n\
         [system.hosts.board]\naddress = \"10.0.0.1/24\"\n\
         programs = [{{ name = \"reader\", run = [\"python3\", {reader:?}, \"1.5\"], essential = false }}]\n\
         [system.hosts.board.clock.cycles]\ncpufreq = {cpufreq:?}\nsampling = \"1 ms\"\n"
    )
}

fn timeloom(action: &str, directory: &Path, scenario: &str) -> std::process::Output {
    let file = directory.join("scenario.toml");
    fs::write(&file, scenario).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command.arg(action).arg(file);
    if action == "run" {
        command.arg("-o").arg(directory.join("run"));
    }
    command.output().expect("our own program")
}

/// Uses the machine's own frequency if the machine reports one, and an artificial one otherwise.
/// The test prints which one it uses.
#[test]
fn a_clock_over_the_machines_own_frequency_increases_strictly() {
    let real = Path::new("/sys/devices/system/cpu/cpu0/cpufreq");
    let made_up = Machine::new("cpufreq-of");
    let made_up_path = made_up.0.clone();
    let sources: Vec<&Path> = match real.join("scaling_cur_freq").exists() {
        true => vec![real, &made_up_path],
        false => vec![&made_up_path],
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for khz in FREQUENCIES_KHZ.iter().cycle() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                made_up.run_at(*khz);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let runs = std::panic::catch_unwind(|| {
            for source in sources {
                let directory = tempfile::tempdir().expect("a directory");
                let output = timeloom("run", directory.path(), &following(source, ""));
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(passed(output.status), "{text}");
                let log = fs::read_to_string(directory.path().join("run/logs/reader.log"));
                let log = log.unwrap_or_default();
                assert!(log.contains("not_increasing=0"), "{log}\n{text}");
                let run = RunDirectory::open(directory.path().join("run")).expect("a run");
                let names = [
                    "board.clock.core",
                    "board.clock.offset",
                    "board.clock.missing",
                ];
                let series = run.series(&names).expect("recorded");
                let changes = series[0].samples.len();
                println!(
                    "strictly increasing over {}, {changes} frequencies",
                    source.display()
                );
                if source == made_up_path {
                    assert!(changes > 3, "{changes} of them were noticed");
                }
                let values = |index: usize| series[index].samples.iter().map(|(_, value)| *value);
                for (offset, missing) in values(1).zip(values(2)) {
                    assert!(
                        offset <= 1e-8 && -offset <= missing + 1e-8,
                        "{offset} {missing}"
                    );
                }
            }
        });
        over.store(true, Ordering::SeqCst);
        if let Err(panic) = runs {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_machine_that_tells_no_frequency_is_refused_where_it_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = directory.path().join("cpufreq");
    let output = timeloom("check", directory.path(), &following(&none, ""));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [
        "this machine does not report the frequency of its processor",
        "scaling_cur_freq",
        "take a `governor`",
        "scenario.toml:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let machine = Machine::new("cpufreq-and");
    let reproducible = ", mode = \"skip\", compute = \"none\"";
    let output = timeloom(
        "check",
        directory.path(),
        &following(&machine.0, reproducible),
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("differs in each run"), "{text}");
}
