//! Property test of SIP (strictly increasing and precise, from the RVEC paper) over random
//! histories of two cores: frequency changes with and without a duration, idle periods, wraps, and
//! a task that migrates between the cores.

use proptest::prelude::*;
use timeloom_clock::counter::{CoreClock, Frequency, SimulatedCore, TaskClock};
use timeloom_time::Duration;

/// Model of one core: its counter, its clock, and true time since the start.
struct Machine {
    hardware: SimulatedCore,
    clock: CoreClock,
    frequency: Frequency,
    true_ps: u64,
}

impl Machine {
    fn new(start: u32) -> Self {
        let hardware = SimulatedCore::new(start);
        let frequency = Frequency::from_mhz(800);
        Self {
            clock: CoreClock::new(&hardware, frequency),
            hardware,
            frequency,
            true_ps: 0,
        }
    }

    fn run(&mut self, length_ps: u64, frequency: Frequency) {
        self.hardware.advance(length_ps, Some(frequency));
        self.true_ps += length_ps;
    }

    /// Changes the frequency within `length_ps`: one half at the old frequency, one half at the
    /// new.
    fn change(&mut self, next: Frequency, length_ps: u64) {
        self.clock.handle_change_begin(&self.hardware, next);
        self.run(length_ps / 2, self.frequency);
        self.check();
        self.run(length_ps - length_ps / 2, next);
        self.clock.handle_change_end(&self.hardware);
        self.frequency = next;
    }

    fn idle(&mut self, length: Duration) {
        let resolution = Duration::from_us(1); // the paper's 1 MHz system timer
        self.hardware.advance(length.as_ns() as u64 * 1000, None);
        self.true_ps += length.as_ns() as u64 * 1000;
        self.clock.handle_wake(length, resolution);
    }

    /// Checks that true elapsed time lies between `age` and `age` plus `missing`.
    fn check(&mut self) {
        let time = self.clock.read(&self.hardware);
        let truth_ns = (self.true_ps / 1000) as i64;
        let low = time.age.as_duration().as_ns();
        // The cycle in progress has not been counted yet, nor has the one in progress at each
        // earlier reading; at 100 MHz a cycle takes 10 ns.
        assert!(low <= truth_ns + 1, "{low} is ahead of {truth_ns}");
        let high = low + time.missing.as_ns() + 11 + SLACK_NS;
        assert!(high >= truth_ns, "{high} does not reach {truth_ns}");
    }
}

/// Allowance in ns for cycles during which the frequency changes. Such a cycle is counted with one
/// period although it took a part of both: an error of up to one slow cycle per change.
const SLACK_NS: i64 = 2000;

#[derive(Clone, Debug)]
enum Step {
    Run {
        core: usize,
        ns: u64,
    },
    Change {
        core: usize,
        mhz: u64,
        switch_ns: u64,
    },
    Idle {
        core: usize,
        us: i64,
    },
    Migrate {
        ns: u64,
    },
    ReadTwice,
}

fn step() -> impl Strategy<Value = Step> {
    // Periods of up to 2.1 s are below half a wrap at 1 GHz, with a wrap every few steps.
    prop_oneof![
        4 => (0usize..2, 10u64..2_100_000_000).prop_map(|(core, ns)| Step::Run { core, ns }),
        3 => (0usize..2, prop::sample::select(vec![400u64, 800, 100, 1000]), 0u64..100_000)
            .prop_map(|(core, mhz, switch_ns)| Step::Change { core, mhz, switch_ns }),
        1 => (0usize..2, 1i64..1_000_000).prop_map(|(core, us)| Step::Idle { core, us }),
        2 => (10u64..1000).prop_map(|ns| Step::Migrate { ns }),
        2 => Just(Step::ReadTwice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn readings_increase_and_are_precise_over_any_life(
        starts in any::<[u32; 2]>(), steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut cores = starts.map(Machine::new);
        let mut last = cores.each_mut().map(|c| c.clock.read(&c.hardware).age);
        let mut task = TaskClock::new();
        let mut home = 0;
        task.handle_dispatch(last[home]);
        let mut last_task = task.read(last[home]);
        for step in steps {
            match step {
                Step::Run { core, ns } => {
                    let frequency = cores[core].frequency;
                    cores[core].run(ns * 1000, frequency);
                }
                Step::Change { core, mhz, switch_ns } => {
                    cores[core].change(Frequency::from_mhz(mhz), switch_ns * 1000);
                }
                Step::Idle { core, us } => cores[core].idle(Duration::from_us(us)),
                Step::Migrate { ns } => {
                    let age = cores[home].clock.read(&cores[home].hardware).age;
                    task.handle_preempt(age);
                    home = 1 - home;
                    let age = cores[home].clock.read(&cores[home].hardware).age;
                    task.handle_dispatch(age);
                    let frequency = cores[home].frequency;
                    cores[home].run(ns * 1000, frequency);
                }
                Step::ReadTwice => {}
            }
            for (index, core) in cores.iter_mut().enumerate() {
                core.check();
                // A reading takes at least one cycle: 10 ns at 100 MHz.
                let frequency = core.frequency;
                core.run(10_000, frequency);
                let age = core.clock.read(&core.hardware).age;
                prop_assert!(age > last[index], "core {}: {:?} after {:?}", index, age, last[index]);
                last[index] = age;
            }
            let now = task.read(last[home]);
            prop_assert!(now > last_task, "task: {:?} after {:?}", now, last_task);
            last_task = now;
        }
    }
}

#[test]
fn a_frequency_change_updates_one_record_and_no_task() {
    let mut core = Machine::new(0);
    let mut tasks = [TaskClock::new(); 100];
    tasks
        .iter_mut()
        .for_each(|task| task.handle_dispatch(core.clock.read(&core.hardware).age));
    core.run(5_000_000, core.frequency); // 5 us
    core.change(Frequency::from_mhz(400), 0);
    core.run(10_000_000, core.frequency); // 10 us at half the speed
    let age = core.clock.read(&core.hardware).age;
    // The tasks' clocks were not informed of the change, and all show 15 us.
    assert!(
        tasks
            .iter()
            .all(|task| task.read(age).as_duration() == Duration::from_us(15))
    );
}
