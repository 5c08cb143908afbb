//! Tests of a plant's lifetime and faults, and of exchanges during a pause.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time;

use crate::common::{Clock, exists, init, log, scratch, spec, start};
use timeloom_bus::{Bus, FreeRunning};
use timeloom_plant::{ExchangeError, Op, PausedPlant, PlantError, PlantFault, PlantProcess};
use timeloom_test_support::Traces;
use timeloom_time::{Duration, Instant};

#[test]
fn a_good_plant_answers_and_ends() {
    let mut plant = PlantProcess::start(&spec(&[]), &init(&["time", "level"])).unwrap();
    let pid = plant.pid();
    assert_eq!(plant.info().name, "fake");
    assert!(plant.info().signal("set").unwrap().writable);
    let advance = plant.advance(Instant::from_ns(250_000_000)).unwrap();
    assert_eq!(advance.solve, Duration::from_ns(1000));
    assert_eq!(advance.samples.len(), 2);
    assert_eq!(advance.samples[1].t, Instant::from_ns(200_000_000));
    assert_eq!(advance.samples[1].values, [0.2, 12.5]);
    plant.write(&[("set", 0.1 + 0.2)]).unwrap();
    assert_eq!(plant.read(&["set", "time"]).unwrap(), [0.1 + 0.2, 0.25]);
    plant.stop().unwrap();
    assert!(!exists(pid));
    assert!(matches!(
        plant.read(&["set"]).unwrap_err().fault,
        PlantFault::Died {
            during: Op::Stop,
            ..
        }
    ));
}

#[test]
fn a_refusal_is_no_failure() {
    let mut plant = start(&[]).unwrap();
    let refused = plant.write(&[("set", 5000.0)]).unwrap_err();
    assert!(!refused.is_fatal());
    assert_eq!(
        refused.to_string(),
        "plant `grid` refused `write`: more than the storage can give (signal `set`)"
    );
    // The samples of an advance before a refused read must not be lost.
    let to = Instant::from_ns(10);
    let step = plant.step(Some(to), &[], &["nothing"]).unwrap();
    assert_eq!(step.advance.unwrap().t, to);
    assert!(!step.values.unwrap_err().is_fatal());
    assert_eq!(plant.at(), to);
    assert!(
        !plant.advance(Instant::from_ns(9)).unwrap_err().is_fatal(),
        "backwards"
    );
    assert!(!plant.write(&[("set", f64::NAN)]).unwrap_err().is_fatal());
    let endless = "x".repeat(1 << 20);
    assert!(!plant.read(&[&endless]).unwrap_err().is_fatal());
    assert_eq!(plant.read(&["level"]).unwrap(), [12.5]);
}

#[test]
fn many_samples_come_in_pieces() {
    let record = ["time", "level", "big"];
    let mut plant = PlantProcess::start(&spec(&[]), &init(&record)).unwrap();
    let rows = 50_000; // more than the fake allows in one reply
    let advance = plant
        .advance(Instant::ZERO + Duration::from_ms(100 * rows))
        .unwrap();
    assert_eq!(advance.samples.len() as i64, rows);
    assert!(advance.samples.windows(2).all(|pair| pair[0].t < pair[1].t));
}

#[test]
fn long_requests_do_not_lock_both_up() {
    let mut plant = start(&[]).unwrap();
    let many = vec!["level"; 60_000];
    let step = plant.step(Some(Instant::from_ns(1)), &[], &many).unwrap();
    assert_eq!(step.values.unwrap().len(), many.len());
}

/// Starts a plant. Also returns a detector of processes that the plant or its children leave
/// behind.
fn traced(misdeed: &str) -> (PlantProcess, Traces) {
    let traces = Traces::of(&format!("plant-{}-{misdeed}", std::process::id()));
    let mut spec = spec(&[misdeed]);
    let (name, value) = traces.variable();
    spec.env.push((name.into(), value.into()));
    (PlantProcess::start(&spec, &init(&[])).unwrap(), traces)
}

/// Starts a plant that misbehaves, and checks that its process has ended afterwards.
fn misbehave(misdeed: &str) -> PlantError {
    let (mut plant, traces) = traced(misdeed);
    let pid = plant.pid();
    assert_eq!(traces.processes(), [pid as i32]);
    let step = plant.step(Some(Instant::from_ns(1)), &[("set", 1.0)], &["set"]);
    let error = match step {
        Err(error) => error,
        Ok(step) => panic!("{misdeed}: {step:?}"),
    };
    assert!(error.is_fatal(), "{misdeed}: {error}");
    assert!(error.to_string().starts_with("plant `grid` "), "{error}");
    assert!(!exists(pid), "{misdeed}: left behind");
    assert_eq!(
        plant.read(&["set"]).unwrap_err(),
        error,
        "{misdeed}: once gone, always gone"
    );
    traces.assert_nothing_left();
    error
}

#[test]
fn every_misdeed_has_its_name() {
    let during = Op::Read;
    let died = misbehave("die-on-read");
    assert!(
        matches!(died.fault, PlantFault::Died { during: Op::Read, status } if status.code() == Some(3))
    );
    assert_eq!(died.log_tail, ["Segmentation fault in the solver"]);
    assert!(
        died.to_string()
            .contains("Segmentation fault in the solver"),
        "{died}"
    );
    let crashed = misbehave("crash-on-advance");
    assert!(
        crashed.to_string().contains("during `advance` (signal: 11"),
        "{crashed}"
    );
    let after = Duration::from_ms(700);
    assert_eq!(
        misbehave("hang-on-read").fault,
        PlantFault::TimedOut { during, after }
    );
    assert_eq!(
        misbehave("close-on-read").fault,
        PlantFault::HungUp { during }
    );
    assert_eq!(
        misbehave("oversize-on-read").fault,
        PlantFault::Oversize {
            during,
            limit: 1 << 20
        }
    );
    assert!(matches!(
        misbehave("nan-on-read").fault,
        PlantFault::NotFinite {
            during: Op::Read,
            ..
        }
    ));
    for (misdeed, complaint) in [
        ("nonsense-on-write", "Loading model ..."),
        ("id-on-advance", "the id is 3 in place of 2"),
        ("binary-on-read", "not UTF-8"),
    ] {
        let error = misbehave(misdeed);
        assert!(
            matches!(error.fault, PlantFault::Nonsense { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(complaint), "{error}");
    }
}

/// The timeout is 700 ms. A reply that arrives later must be discarded.
#[test]
fn an_answer_that_comes_late_is_not_taken() {
    let late = misbehave("late-on-read");
    let during = Op::Read;
    assert!(
        matches!(late.fault, PlantFault::TimedOut { during: op, .. } if op == during),
        "{late}"
    );
}

/// The second reply does not match the next request, which must fail.
#[test]
fn a_plant_that_answers_twice_is_named_at_the_next_request() {
    let (mut plant, traces) = traced("twice-on-read");
    let pid = plant.pid();
    assert_eq!(plant.read(&["level"]).unwrap(), [12.5]);
    let error = plant.write(&[("set", 1.0)]).unwrap_err();
    assert!(error.is_fatal(), "{error}");
    assert!(error.to_string().starts_with("plant `grid` "), "{error}");
    assert!(!exists(pid));
    traces.assert_nothing_left();
}

#[test]
fn a_plant_that_never_starts_is_an_error() {
    let mut missing = spec(&[]);
    missing.argv = vec!["/no/such/program".into()];
    let error = PlantProcess::start(&missing, &init(&[])).err().unwrap();
    assert!(
        error.to_string().contains("/no/such/program: No such file"),
        "{error}"
    );
    missing.argv.clear();
    assert!(matches!(
        PlantProcess::start(&missing, &init(&[]))
            .err()
            .unwrap()
            .fault,
        PlantFault::Start { .. }
    ));
    let error = start(&["die-on-init"]).err().unwrap();
    assert!(
        matches!(
            error.fault,
            PlantFault::Died {
                during: Op::Init,
                ..
            }
        ),
        "{error}"
    );
    let error = PlantProcess::start(&spec(&[]), &init(&["voltage"]))
        .err()
        .unwrap();
    assert!(error.to_string().contains("no signal `voltage`"), "{error}");
}

#[test]
fn a_bad_end_is_an_error() {
    let error = start(&["bad-exit"]).unwrap().stop().unwrap_err();
    assert!(
        matches!(error.fault, PlantFault::Died { during: Op::Stop, status } if status.code() == Some(5))
    );
    let mut deaf = spec(&["hang-on-stop"]);
    deaf.timeouts.stop = Duration::from_ms(100);
    let mut plant = PlantProcess::start(&deaf, &init(&[])).unwrap();
    let pid = plant.pid();
    assert!(matches!(
        plant.stop().unwrap_err().fault,
        PlantFault::TimedOut {
            during: Op::Stop,
            ..
        }
    ));
    assert!(!exists(pid));
}

#[test]
fn the_whole_group_goes() {
    let mut spec = spec(&["child-on-advance"]);
    let path = scratch("plant.log");
    spec.log = log(&path);
    let mut plant = PlantProcess::start(&spec, &init(&[])).unwrap();
    plant.advance(Instant::from_ns(1)).unwrap();
    let log = std::fs::read_to_string(path).unwrap();
    let child: u32 = log.trim().strip_prefix("child ").unwrap().parse().unwrap();
    assert!(exists(child));
    let pid = plant.pid();
    drop(plant);
    assert!(!exists(pid));
    assert!(dead_within(child, time::Duration::from_secs(120)));
}

/// Returns true if an orphaned process ends in time. Its new parent need not have reaped it yet.
fn dead_within(pid: u32, patience: time::Duration) -> bool {
    let began = time::Instant::now();
    while began.elapsed() < patience {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) if !stat.contains(") Z ") => {
                std::thread::sleep(time::Duration::from_millis(5));
            }
            _ => return true,
        }
    }
    false
}

#[test]
fn a_plant_outlives_the_thread_that_started_it() {
    let mut plant = std::thread::spawn(|| start(&[]).unwrap()).join().unwrap();
    std::thread::sleep(time::Duration::from_millis(50));
    assert_eq!(plant.read(&["level"]).unwrap(), [12.5]);
}

#[test]
fn overlapping_accesses_share_a_pause_and_queue_for_the_plant() {
    let journal = crate::common::scratch("journal");
    let plant =
        PlantProcess::start(&spec(&["", journal.to_str().unwrap()]), &init(&["time"])).unwrap();
    let clock = Clock::new();
    let samples = Arc::new(Mutex::new(Vec::new()));
    let (sink, record) = (samples.clone(), std::sync::mpsc::channel());
    let bus = Bus::builder(clock.clone()).records(record.0).build();
    let exchange = PausedPlant::new(bus, plant, move |sample| {
        assert_eq!((sample.signal, sample.unit), ("time", "1"));
        sink.lock().unwrap().push((sample.t, sample.value));
    });
    std::thread::scope(|scope| {
        for me in 0..8 {
            let (exchange, clock) = (&exchange, &clock);
            scope.spawn(move || {
                for _ in 0..40 {
                    let (instant, value) = exchange
                        .access(&format!("thread {me}"), "test", |plant| {
                            assert!(clock.stands());
                            Ok((plant.instant(), plant.read(&["time"])?[0]))
                        })
                        .unwrap();
                    assert!((value - instant.as_ns() as f64 * 1e-9).abs() < 1e-12);
                    std::thread::sleep(time::Duration::from_micros(300 * me));
                }
            });
        }
    });
    assert!(!clock.stands());
    exchange
        .finish(Instant::ZERO + Duration::from_s(100))
        .unwrap();
    exchange.stop().unwrap();
    assert_eq!(exchange.stats().accesses, 320);
    assert_eq!(
        samples.lock().unwrap().len(),
        1000,
        "one per 100 ms, to the end"
    );
    let advances: Vec<i64> = std::fs::read_to_string(journal)
        .unwrap()
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["to_ns"].as_i64()
        })
        .collect();
    assert!(
        advances.windows(2).all(|pair| pair[0] < pair[1]),
        "one advance per pause, forward"
    );
    assert!(advances.len() as u64 <= clock.pauses.load(SeqCst) + 1);
}

#[test]
fn a_failed_access_lets_the_testbed_go_on() {
    let clock = Clock::new();
    let plant = start(&["die-on-read"]).unwrap();
    let exchange = PausedPlant::new(Bus::new(clock.clone()), plant, |_| ());
    let failed = exchange.access("a", "test", |plant| plant.read(&["set"]));
    assert!(matches!(failed, Err(ExchangeError::Plant(error)) if error.is_fatal()));
    assert!(!clock.stands());
}

#[test]
fn real_time_never_sends_the_plant_back() {
    // A free-running clock returns its instants before the callers join the queue for the plant, so
    // a later instant may be served first: here 30 before 20. The bus reads the clock once when it
    // is created.
    let times = Mutex::new(vec![0, 30, 20].into_iter());
    let next = move || Instant::from_ns(times.lock().unwrap().next().unwrap());
    let bus = Bus::new(Arc::new(FreeRunning::new(next)));
    let exchange = PausedPlant::new(bus, start(&[]).unwrap(), |_| ());
    let access = |requester| {
        exchange
            .access(requester, "test", |plant| Ok(plant.instant()))
            .unwrap()
    };
    assert_eq!((access("a").as_ns(), access("b").as_ns()), (30, 30));
}

/// Supervisor that the next test runs in a separate process.
#[test]
#[ignore = "run by a_plant_dies_with_its_supervisor"]
fn a_supervisor_that_waits_for_its_end() {
    let plant = start(&[]).unwrap();
    println!("plant={}", plant.pid());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_plant_dies_with_its_supervisor() {
    use std::io::{BufRead, BufReader};
    let mut supervisor = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "process::a_supervisor_that_waits_for_its_end",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
    let pid: u32 = lines
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("plant=")
                .map(|(_, pid)| pid.trim().parse().unwrap())
        })
        .unwrap();
    assert!(exists(pid));
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    assert!(dead_within(pid, time::Duration::from_secs(120)));
}

#[test]
fn the_python_package_speaks_the_same_protocol() {
    let package = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../python"));
    if !package.join("timeloom/plant.py").exists() {
        return;
    }
    let tank = crate::common::scratch("tank.py");
    std::fs::write(
        &tank,
        "from timeloom.plant import Plant, serve\n\
         class Tank(Plant):\n    name = 'tank'\n    def setup(self, config):\n        \
         self.signal('level', 'm', 1.0)\n        self.signal('inflow', 'm3/s', 0.0, writable=True)\n    \
         def step(self, t_ns, dt_ns):\n        self['level'] += self['inflow'] * dt_ns * 1e-9\n\
         serve(Tank())\n",
    )
    .unwrap();
    let mut spec = spec(&[]);
    spec.argv = vec![crate::common::python(), tank.into()];
    spec.env = vec![("PYTHONPATH".into(), package.into())];
    let mut plant = PlantProcess::start(&spec, &init(&["level"])).unwrap();
    plant.write(&[("inflow", 2.0)]).unwrap();
    let advance = plant.advance(Instant::ZERO + Duration::from_s(1)).unwrap();
    assert_eq!(advance.samples.len(), 11, "the start and ten more");
    assert!((plant.read(&["level"]).unwrap()[0] - 3.0).abs() < 1e-9);
    assert!(!plant.write(&[("level", 2.0)]).unwrap_err().is_fatal());
    let far = plant
        .advance(Instant::ZERO + Duration::from_s(1500))
        .unwrap();
    assert_eq!(far.samples.len(), 14_990);
    plant.stop().unwrap();
}
