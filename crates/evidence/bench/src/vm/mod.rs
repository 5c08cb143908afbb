//! `vm`: the quality of time in virtual machines, compared with that of the machine itself
//! (QuartzV, Table I and Figures 8 to 15).
//!
//! There are three kinds of readers: this program (*native*), guests that read the host's timeline
//! from shared memory (*para-virtual*), and a guest that maintains its own timeline by NTP over the
//! emulated network card (*fully virtual*). All use the machine's clock as reference, so that each
//! reading can be compared with true time (`mailbox`).
//!
//! The processors of the guests are emulated. The cost of a read in a guest is therefore given only
//! relative to the guest's own CLOCK_MONOTONIC, and never in nanoseconds.

mod guest;
mod hungry;
mod image;
mod machine;
mod mailbox;
mod measure;
mod neighbours;
mod settled;
mod sheet;
mod source;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use timeloom_timeline::Timeline;
use timeloom_timeline::shm::SharedCounter;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::scratch::Scratch;
use crate::stats::{median, percentile};
use crate::{Name, Options, cores};

pub(crate) use guest::serve_guest;

use crate::experiment::Experiment;

use hungry::Feeder;
use image::Parts;
use machine::{Machine, Time};
use mailbox::{Answering, Mailbox};
use measure::{CLOCKS, Cost, Sample, costs};
use settled::settled;
use source::Source;

use crate::shared::Shared;

/// Returns a page with charts of the figures of a run of [`Name::Vm`].
pub fn vm_page(figures: &[Figure]) -> Experiment {
    Experiment {
        // The rows were already printed when they were measured.
        rows: Vec::new(),
        sheet: sheet::sheet(figures),
    }
}

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let Some(chronyd) = source::chronyd() else {
        (options.remark)(
            "chronyd is not here (`scripts/chronyd` unpacks it); all of vm is left out",
        );
        return Ok(());
    };
    let scratch = Scratch::new()?;
    let source = Source::start(&chronyd, scratch.path())?;
    let mut bench = Bench::new(options, &source, scratch.path(), figure)?;
    bench.native()?;
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(missing) => {
            (options.remark)(&format!("{missing}; virtual machines are left out"));
            return bench.verdict();
        }
    };
    let counter = match SharedCounter::here() {
        Ok(counter) => counter,
        Err(why) => {
            (options.remark)(&format!("{why}; virtual machines are left out"));
            return bench.verdict();
        }
    };
    let initrd = scratch.path().join("initrd");
    parts.write(Path::new(&options.worker[0]), &initrd)?;
    let guests = Guests {
        parts: &parts,
        initrd: &initrd,
        scratch: scratch.path(),
    };
    let feeder = Feeder::start()?;
    let mut machines = bench.para_virtual(&guests, counter)?;
    if let Some((reader, neighbours)) = machines.split_first_mut() {
        bench.beside_hungry("paravirtual", reader, neighbours, &feeder, &PARA_VIRTUAL)?;
    }
    if !fits(1) {
        (options.remark)("memory is short; the fully virtual guest is left out");
        return bench.verdict();
    }
    let mut own = guests.start("own", &Time::Own(source.port))?;
    bench.fully_virtual(&mut own)?;
    // The first machine is the reader; all others are neighbours.
    let neighbours = machines.get_mut(1..).unwrap_or_default();
    bench.beside_hungry(
        "fully_virtual",
        &mut own,
        neighbours,
        &feeder,
        &FULLY_VIRTUAL,
    )?;
    bench.verdict()
}

impl Bench<'_> {
    /// Waits until the timelines in `machines` are good; reports if they do not become good.
    fn await_settled(&self, name: &str, machines: &mut [Machine]) -> Result<(), BenchError> {
        for machine in machines.iter_mut() {
            machine.send("settle")?;
        }
        for machine in machines.iter_mut() {
            if machine.answer()?.trim_end() != "yes" {
                (self.options.remark)(&format!("{name}: {UNSETTLED}"));
            }
        }
        Ok(())
    }
}

/// Parameters with which guests are started.
struct Guests<'a> {
    parts: &'a Parts,
    initrd: &'a Path,
    scratch: &'a Path,
}

impl Guests<'_> {
    fn start(&self, name: &str, time: &Time<'_>) -> Result<Machine, BenchError> {
        Machine::start(self.parts, self.initrd, &self.scratch.join(name), time)
    }
}

/// The native reader, with the results so far.
struct Bench<'a> {
    options: &'a Options,
    figure: &'a mut dyn FnMut(Figure),
    source: &'a Source,
    timeline: Timeline,
    mailbox: Arc<Shared<Mailbox>>,
    readings: usize,
    /// Number of readings whose interval did not contain true time.
    wrong: usize,
}

impl<'a> Bench<'a> {
    fn new(
        options: &'a Options,
        source: &'a Source,
        scratch: &Path,
        figure: &'a mut dyn FnMut(Figure),
    ) -> Result<Self, BenchError> {
        let deadline = Instant::now() + PATIENCE;
        let timeline = loop {
            if let Some(timeline) = guest::look(source.daemon.directory()) {
                break timeline;
            }
            if Instant::now() > deadline {
                let what = "the timeline over chronyd has no interval";
                return Err(BenchError::Worker(what.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !settled(&timeline) {
            (options.remark)(&format!("native: {UNSETTLED}"));
        }
        Ok(Self {
            options,
            figure,
            source,
            timeline,
            mailbox: mailbox::create(&scratch.join("mailbox"))?,
            readings: 0,
            wrong: 0,
        })
    }

    /// Runs `work` in a thread on the processor of the guests.
    fn natively<T: Send>(&self, work: impl FnOnce(&Timeline, &Mailbox) -> T + Send) -> T {
        let (timeline, mailbox) = (&self.timeline, self.mailbox.get());
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                cores::pin(cores::measuring_core());
                work(timeline, mailbox)
            });
            done.join().expect("reading a clock does not panic")
        })
    }

    fn native(&mut self) -> Result<(), BenchError> {
        let rounds = self.options.pick(31, 301);
        let costs = self.natively(|timeline, _| costs(timeline, rounds, BATCH));
        for cost in &costs {
            let figure = relative("native", cost, &NATIVE)?;
            (self.figure)(figure.with("read_ns", median(&cost.ns)));
        }
        let samples = {
            let _answering = Answering::begin(std::slice::from_ref(&self.mailbox));
            let count = self.options.pick(500, 5_000);
            self.natively(|timeline, mailbox| {
                (0..count)
                    .map(|_| Sample::take(timeline, mailbox))
                    .collect::<Vec<_>>()
            })
        };
        self.quality("native", &samples, 1, &NATIVE)
    }

    /// Measures increasing numbers of guests that read shared memory; the guests are left running.
    fn para_virtual(
        &mut self,
        guests: &Guests<'_>,
        counter: SharedCounter,
    ) -> Result<Vec<Machine>, BenchError> {
        let directory = self.source.daemon.directory().clone();
        let mut machines = Vec::new();
        let usual = self.options.pick(&[1, 2][..], &[1, 2, 4, 8]);
        let counts = match &self.options.guests[..] {
            [] => usual,
            asked => asked,
        };
        for &count in counts {
            if !fits(count - machines.len()) {
                let what = format!("memory is short; {count} guests at once are left out");
                (self.options.remark)(&what);
                break;
            }
            while machines.len() < count {
                let name = format!("guest-{}", machines.len());
                machines.push(guests.start(&name, &Time::FromHost(&directory, counter))?);
            }
            let name = match count {
                1 => "paravirtual".to_owned(),
                more => format!("paravirtual_of_{more}"),
            };
            self.await_settled(&name, &mut machines)?;
            self.guests(&name, &mut machines, &PARA_VIRTUAL)?;
        }
        Ok(machines)
    }

    fn fully_virtual(&mut self, machine: &mut Machine) -> Result<(), BenchError> {
        let machines = std::slice::from_mut(machine);
        self.await_settled("fully_virtual", machines)?;
        self.guests("fully_virtual", machines, &FULLY_VIRTUAL)
    }

    /// Measures in all `machines` at the same time.
    fn guests(
        &mut self,
        name: &str,
        machines: &mut [Machine],
        paper: &Paper,
    ) -> Result<(), BenchError> {
        let rounds = self.options.pick(31, 101);
        let mut all: Vec<Cost> = Vec::new();
        for machine in machines.iter_mut() {
            machine.send(&format!("costs {rounds} {GUEST_BATCH}"))?;
        }
        for machine in machines.iter_mut() {
            let costs: Vec<Cost> = machine.read()?;
            for cost in costs {
                match all.iter_mut().find(|known| known.clock == cost.clock) {
                    Some(known) => known.ratios.extend(cost.ratios),
                    None => all.push(cost),
                }
            }
        }
        for cost in &all {
            (self.figure)(relative(name, cost, paper)?.with("guests", machines.len()));
        }
        // True time is served to all readers. Native readings are taken in between, because NTP
        // improves with time.
        let mut mailboxes: Vec<_> = machines.iter().map(|it| it.mailbox.clone()).collect();
        mailboxes.push(self.mailbox.clone());
        let _answering = Answering::begin(&mailboxes);
        let (mut samples, mut over) = (Vec::new(), Vec::new());
        for _ in 0..self.options.pick(5, 20) {
            for machine in machines.iter_mut() {
                machine.send(&format!("sample {SAMPLES}"))?;
            }
            let mut round = Vec::new();
            for machine in machines.iter_mut() {
                round.extend(machine.read::<Vec<Sample>>()?);
            }
            let native = self.natively(|timeline, mailbox| {
                (0..SAMPLES)
                    .map(|_| Sample::take(timeline, mailbox))
                    .collect::<Vec<_>>()
            });
            let ours = errors_ns(&round);
            let theirs = errors_ns(&native);
            if !ours.is_empty() && !theirs.is_empty() {
                over.push(median(&ours) / median(&theirs));
            }
            samples.extend(round);
        }
        self.quality(name, &samples, machines.len(), paper)?;
        if !over.is_empty() {
            let metric = format!("{name}_error_over_native");
            let made = Figure::new(Name::Vm, metric, "ratio", &over)
                .with("guests", machines.len())
                .with("paper", paper.error_ns / NATIVE.error_ns);
            (self.figure)(if name == "paravirtual" {
                made.bar(1.1)
            } else {
                made
            });
        }
        Ok(())
    }

    /// Reports the errors and intervals of readings, and counts wrong readings.
    fn quality(
        &mut self,
        name: &str,
        samples: &[Sample],
        guests: usize,
        paper: &Paper,
    ) -> Result<(), BenchError> {
        let wrong = samples.iter().filter(|sample| sample.is_wrong()).count();
        let widths: Vec<f64> = samples.iter().filter_map(Sample::width_ns).collect();
        let errors = errors_ns(samples);
        let truth: Vec<f64> = samples.iter().map(|it| it.truth_ns() as f64).collect();
        self.readings += widths.len();
        self.wrong += wrong;
        if widths.is_empty() {
            let what = format!("{name}: no reading of {} had an interval", samples.len());
            return Err(BenchError::Worker(what));
        }
        let common = |made: Figure| {
            made.with("guests", guests)
                .with("wrong", wrong)
                .with("truth_known_to_ns", median(&truth))
        };
        let made = Figure::new(Name::Vm, format!("{name}_interval_ns"), "ns", &widths);
        (self.figure)(common(made));
        if errors.is_empty() {
            (self.options.remark)(&format!(
                "truth was nowhere known to {TRUTH_NS} ns; {name}_error_ns is left out"
            ));
            return Ok(());
        }
        let made = Figure::new(Name::Vm, format!("{name}_error_ns"), "ns", &errors);
        let made = common(made).with("of_samples", samples.len());
        let made = made.with("paper", paper.error_ns);
        (self.figure)(made.with("percentiles", twentieths(samples)));
        Ok(())
    }

    /// Reports the number of readings whose interval did not contain true time, with its bar.
    fn verdict(self) -> Result<(), BenchError> {
        let made = Figure::new(Name::Vm, "readings_outside", "1", &[self.wrong as f64])
            .bar(0.0)
            .with("readings", self.readings);
        (self.figure)(made);
        Ok(())
    }
}

/// Returns the figure for the cost of a clock divided by that of the same reader's CLOCK_MONOTONIC.
fn relative(name: &str, cost: &Cost, paper: &Paper) -> Result<Figure, BenchError> {
    let place = CLOCKS.iter().position(|clock| *clock == cost.clock);
    let said_ns = match place {
        Some(2) => paper.read_ns[3],
        Some(place) => paper.read_ns[place],
        None => paper.read_ns[2],
    };
    if cost.ratios.is_empty() {
        return Err(BenchError::Worker(format!("{name}: nothing was measured")));
    }
    let metric = format!("{name}_{}_over_monotonic", cost.clock);
    let made = Figure::new(Name::Vm, metric, "ratio", &cost.ratios)
        .with("paper", said_ns / paper.read_ns[2]);
    let is_timeline = cost.clock == "timeline";
    Ok(match name {
        "native" | "paravirtual" if is_timeline => made.bar(1.15),
        _ => made,
    })
}

/// Returns the absolute errors of the samples for which true time is known well enough.
fn errors_ns(samples: &[Sample]) -> Vec<f64> {
    let known = samples.iter().filter(|it| it.truth_ns() <= TRUTH_NS);
    known
        .filter_map(|sample| sample.error_ns().map(f64::abs))
        .collect()
}

/// Returns true if the machine has enough memory for `more` guests.
fn fits(more: usize) -> bool {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.is_none_or(|kib| kib / 1024 > (more + 1) * GUEST_MIB)
}

/// Returns every fifth percentile of the signed errors, for samples for which true time is known
/// well enough.
fn twentieths(samples: &[Sample]) -> Vec<f64> {
    let known = samples.iter().filter(|it| it.truth_ns() <= TRUTH_NS);
    let errors: Vec<f64> = known.filter_map(Sample::error_ns).collect();
    let at = |twentieth: u32| percentile(&errors, 5.0 * f64::from(twentieth)).round();
    (0..=20).map(at).collect()
}

/// Values of the paper for one kind of reader.
struct Paper {
    /// Mean read costs of Table I in ns: counter, CLOCK_REALTIME, CLOCK_MONOTONIC, timeline.
    read_ns: [f64; 4],
    /// Mean error of Figure 8, in ns.
    error_ns: f64,
    /// Standard deviation of the error of Figure 8, in ns.
    error_spread_ns: f64,
}

const NATIVE: Paper = Paper {
    read_ns: [7.41, 26.19, 18.41, 32.01],
    error_ns: 24.28e3,
    error_spread_ns: 5.05e3,
};
const PARA_VIRTUAL: Paper = Paper {
    read_ns: [8.28, 40.46, 34.79, 60.71],
    error_ns: 26.12e3,
    error_spread_ns: 5.12e3,
};
const FULLY_VIRTUAL: Paper = Paper {
    read_ns: [8.19, 2038.02, 2022.13, 2435.64],
    error_ns: 70.23e3,
    error_spread_ns: 128.28e3,
};

/// Remark for figures that were measured without a good timeline.
const UNSETTLED: &str =
    "the timeline did not get within ±1 ms in two minutes; its figures are of a wider one";

const BATCH: u32 = 5_000;
/// Number of reads per batch in a guest; a read takes longer on an emulated processor.
const GUEST_BATCH: u32 = 1_000;
const SAMPLES: usize = 100;
/// Greatest uncertainty of true time, in ns, at which a sample shows an error. With more
/// uncertainty, it shows only if the interval contained true time.
const TRUTH_NS: i64 = 20_000;
const GUEST_MIB: usize = 400;
const PATIENCE: Duration = Duration::from_secs(120);
