//! Hosts whose core follows the frequency of one of this machine's processors. One thread per host
//! reads the frequency from the kernel periodically and passes it to the host's clock. The plan
//! selects the processors.

use std::sync::Arc;

use timeloom_guest::{Clock, Host};
use timeloom_scenario::Plan;
use timeloom_timeline::shm::MachineFrequency;

use crate::hosts::Hosts;
use crate::record::RunRecorder;

/// A host and the processor whose frequency its core follows.
struct Follower<'a> {
    host: &'a Arc<Host>,
    machine: MachineFrequency,
    every: std::time::Duration,
}

/// Passes the processors' frequencies to the hosts' clocks until `over` returns true, with one
/// thread per host. Returns at once if no host follows a processor.
pub(crate) fn follow(
    plan: &Plan,
    clock: &Clock,
    hosts: &Hosts,
    run_recorder: &RunRecorder,
    over: &(impl Fn() -> bool + Sync),
) {
    std::thread::scope(|scope| {
        for (name, host) in hosts {
            let cycles = plan.system.hosts.get(name).and_then(|host| {
                let clock = host.clock.as_ref()?;
                clock.cycles.as_ref()
            });
            let Some((cycles, directory)) =
                cycles.and_then(|cycles| Some((cycles, cycles.cpufreq.as_ref()?)))
            else {
                continue;
            };
            match MachineFrequency::in_directory(directory) {
                Ok(machine) => {
                    let every = cycles.sampling.as_ns().unsigned_abs();
                    let follower = Follower {
                        host,
                        machine,
                        every: std::time::Duration::from_nanos(every),
                    };
                    scope.spawn(move || follower.run(clock, run_recorder, over));
                }
                Err(error) => lost(run_recorder, name, &error),
            }
        }
    });
}

impl Follower<'_> {
    fn run(mut self, clock: &Clock, run_recorder: &RunRecorder, over: &impl Fn() -> bool) {
        let source: Arc<str> = self.host.name().into();
        let tell = |hz: u64| {
            run_recorder.host_sample(&source, clock.now(), "clock.core", hz as f64, "Hz");
        };
        // The frequency may have changed since the clock was created.
        clock.change_frequency(self.host, self.machine.last());
        tell(self.machine.last().as_hz());
        while !over() {
            match self.machine.poll() {
                Ok(Some(next)) => {
                    clock.change_frequency(self.host, next);
                    tell(next.as_hz());
                }
                Ok(None) => {}
                Err(error) => return lost(run_recorder, self.host.name(), &error),
            }
            std::thread::sleep(self.every);
        }
    }
}

/// Records that the processor's frequency can no longer be read. The host's core keeps the last
/// frequency that was read.
fn lost(run_recorder: &RunRecorder, host: &str, error: &timeloom_timeline::shm::NoFrequency) {
    run_recorder.own_event(
        host,
        "clock",
        &format!("its core keeps its last frequency: {error}"),
    );
}
