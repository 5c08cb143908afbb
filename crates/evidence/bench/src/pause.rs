//! `pause`: latency of stopping and resuming a session's clock and processes.
//!
//! *Idle* processes wait for input. *Busy* processes compute. If there are more busy processes than
//! processors, a process in the run queue can neither stop nor resume before it is scheduled; that
//! delay is part of the figures.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use timeloom_guest::Session;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::{Environment, Remote, session};
use crate::scratch::{Scratch, unique};
use crate::shared::{Board, Shared};
use crate::ticks::{self, Scale};
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    clock_stop(options, scale, figure)?;
    let idle: &[usize] = options.pick(&[1, 16], &[1, 2, 4, 8, 16, 64]);
    let busy: &[usize] = options.pick(&[2, 16], &[1, 2, 4, 8, 16, 64]);
    for &count in idle {
        let mut crew = Crew::idle(options, count)?;
        report(&mut crew, "idle", options.pick(31, 201), scale, figure)?;
    }
    for &count in busy {
        let mut crew = Crew::busy(options, count)?;
        report(&mut crew, "busy", options.pick(11, 51), scale, figure)?;
    }
    brood(options, scale, figure)
}

/// Measures a thousand idle processes, which are children of one worker.
fn brood(
    options: &Options,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let mut crew = Crew::idle(options, 1)?;
    let children = BROOD - 1;
    crew.workers[0].ask(&format!("brood {children}"))?;
    let (mut stop, mut resume) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(11, 101) {
        std::thread::sleep(Duration::from_millis(20));
        let asked = ticks::now();
        crew.session.pause()?;
        let stand = ticks::now();
        std::thread::sleep(Duration::from_millis(2));
        let asked_again = ticks::now();
        crew.session.resume()?;
        stop.push(scale.between_ns(asked, stand));
        resume.push(scale.between_ns(asked_again, ticks::now()));
    }
    let kind = format!("{:?}", crew.session.freeze_kind()).to_lowercase();
    for (what, samples, bar) in [("stop", &stop, Some(5e6)), ("resume", &resume, None)] {
        let mut one = Figure::new(BENCH, format!("{what}_{BROOD}_idle_ns"), "ns", samples);
        one.bar = bar;
        figure(
            one.with("processes", BROOD)
                .with("freezer", kind.as_str())
                .with("processors", processors()),
        );
    }
    Ok(())
}

/// Measures the clock alone, with a process that has mapped its page.
fn clock_stop(
    options: &Options,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let crew = Crew::idle(options, 1)?;
    let clock = crew.session.clock();
    let samples: Vec<f64> = (0..options.pick(500, 5000))
        .map(|_| {
            let asked = ticks::now();
            clock.pause();
            let stands = ticks::now();
            clock.resume();
            std::thread::sleep(Duration::from_micros(50));
            scale.between_ns(asked, stands)
        })
        .collect();
    figure(
        Figure::new(BENCH, "clock_stop_ns", "ns", &samples)
            .bar(1000.0)
            .with(
                "from_to",
                "call of Clock::pause to its return: its lock, closing the page's window, the counter, the new map, the store and the record of the change; the store is visible before the return",
            ),
    );
    Ok(())
}

/// Pauses and resumes `rounds` times, and reports the three latencies.
fn report(
    crew: &mut Crew,
    state: &str,
    rounds: usize,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    crew.round(scale)?; // warm-up
    let samples = (0..rounds)
        .map(|_| crew.round(scale))
        .collect::<Result<Vec<_>, _>>()?;
    let count = crew.workers.len();
    let column = |pick: fn(&Sample) -> f64| -> Vec<f64> { samples.iter().map(pick).collect() };
    let kind = format!("{:?}", crew.session.freeze_kind()).to_lowercase();
    let common = |figure: Figure| {
        figure
            .with("processes", count)
            .with("state", state)
            .with("freezer", kind.as_str())
            .with("processors", processors())
    };
    let mut stop = Figure::new(
        BENCH,
        format!("stop_{count}_{state}_ns"),
        "ns",
        &column(|sample| sample.stop_ns),
    );
    let mut resume = Figure::new(
        BENCH,
        format!("resume_{count}_{state}_ns"),
        "ns",
        &column(|sample| sample.resume_ns),
    );
    if (count, state) == (16, "idle") {
        stop = stop.bar(100_000.0).with("paper_ns", 282_000);
        resume = resume.bar(100_000.0).with("paper_ns", 234_000);
        for figure in [&mut stop, &mut resume] {
            *figure = figure.clone().with(
                "paper",
                "Hannon et al., 16 processes on a Banana Pi, handler time only",
            );
        }
    }
    figure(common(stop).with(
        "from_to",
        "call of Session::pause until all processes stand",
    ));
    figure(common(resume).with(
        "from_to",
        "call of Session::resume to its return: the clock runs and all processes are awake; with busy ones also the time until the caller gets a processor back from them",
    ));
    // A metric name without a number of processes is that of the figures with bars, by the
    // contract.
    let name = match (count, state) {
        (16, "idle") => "request_to_running_ns".to_owned(),
        _ => format!("request_to_running_{count}_{state}_ns"),
    };
    let running = Figure::new(BENCH, name, "ns", &column(|sample| sample.running_ns));
    figure(common(running).with("from_to", match state {
        "idle" => "call of Session::resume until the last process has woken to input that came while it stood",
        _ => "call of Session::resume until the last process has computed again",
    }));
    Ok(())
}

/// The three latencies of one pause.
struct Sample {
    stop_ns: f64,
    resume_ns: f64,
    running_ns: f64,
}

/// A session with several identical processes.
struct Crew {
    // Fields are dropped in this order: the processes before their session.
    workers: Vec<Remote>,
    session: Session,
    /// Shared memory that busy workers poll; `None` for idle ones.
    board: Option<Shared<Board>>,
    scratch: Scratch,
}

impl Crew {
    fn idle(options: &Options, count: usize) -> Result<Self, BenchError> {
        let scratch = Scratch::new()?;
        let session = session(options)?;
        let workers = (0..count)
            .map(|_| Remote::start(options, &scratch, &Environment::Inside(&session)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            workers,
            session,
            board: None,
            scratch,
        })
    }

    fn busy(options: &Options, count: usize) -> Result<Self, BenchError> {
        let mut crew = Self::idle(options, count)?;
        let path = crew.scratch.path().join(unique("board"));
        let board = Shared::<Board>::create(&path).map_err(BenchError::system("sharing memory"))?;
        for (slot, worker) in crew.workers.iter_mut().enumerate() {
            worker.ask(&format!("spin {} {slot}", path.display()))?;
        }
        crew.board = Some(board);
        Ok(crew)
    }

    /// Lets all processes run for a moment, stops them, gives them input and resumes them.
    /// Returns when the last process has noticed the input.
    fn round(&mut self, scale: Scale) -> Result<Sample, BenchError> {
        std::thread::sleep(Duration::from_millis(2));
        let asked = ticks::now();
        self.session.pause()?;
        let stand = ticks::now();
        match &self.board {
            Some(shared) => {
                shared.get().generation.fetch_add(1, Release);
            }
            None => self
                .workers
                .iter_mut()
                .try_for_each(|worker| worker.send("stamp"))?,
        }
        let asked_again = ticks::now();
        self.session.resume()?;
        let resumed = ticks::now();
        let noticed = match &self.board {
            Some(shared) => wait_for_all(shared, self.workers.len())?,
            None => self.last_stamp()?,
        };
        Ok(Sample {
            stop_ns: scale.between_ns(asked, stand),
            resume_ns: scale.between_ns(asked_again, resumed),
            running_ns: scale.between_ns(asked_again, noticed),
        })
    }

    fn last_stamp(&mut self) -> Result<u64, BenchError> {
        let mut last = 0;
        for worker in &mut self.workers {
            let text = worker.answer()?;
            let stamp = text
                .parse()
                .map_err(|_| BenchError::Worker(format!("a worker's stamp: {text}")))?;
            last = last.max(stamp);
        }
        Ok(last)
    }
}

/// Returns the counter when the last busy worker saw the present generation.
fn wait_for_all(shared: &Shared<Board>, count: usize) -> Result<u64, BenchError> {
    let board = shared.get();
    let generation = board.generation.load(Relaxed);
    let begun = Instant::now();
    let slots = &board.slots[..count];
    while slots
        .iter()
        .any(|slot| slot.generation.load(Acquire) != generation)
    {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(BenchError::Worker(
                "a busy process did not go on after a pause".into(),
            ));
        }
        // Sleeps long, because this thread would otherwise take a processor from the workers that
        // it awaits.
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(slots
        .iter()
        .map(|slot| slot.ticks.load(Relaxed))
        .max()
        .unwrap_or(0))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

const BENCH: Name = Name::Pause;
/// Number of processes that the requirement states.
const BROOD: u32 = 1000;
