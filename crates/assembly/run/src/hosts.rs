//! Clocks of the hosts: created as the scenario describes them, and recorded during the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use timeloom_clock::host::HostOscillator;
use timeloom_clock::oscillator::TemperatureCycle;
use timeloom_guest::{Clock, GuestError, Host, HostOptions, HostReading, Session};
use timeloom_scenario::{ClockSpec, Cycles, Plan};
use timeloom_time::{Duration, Instant};

use crate::cores;
use crate::record::RunRecorder;

/// Hosts of a session, by their names in the scenario.
pub(crate) type Hosts = BTreeMap<String, Arc<Host>>;

/// Creates a clock for each host of the plan.
pub(crate) fn add(plan: &Plan, session: &Session) -> Result<Hosts, GuestError> {
    let mut hosts = Hosts::new();
    for (name, host) in &plan.system.hosts {
        let options = match &host.clock {
            Some(clock) => options_of(clock, seed_of(plan.seed, name))?,
            None => HostOptions::default(),
        };
        hosts.insert(name.clone(), session.add_host(name, &options)?);
    }
    Ok(hosts)
}

fn options_of(clock: &ClockSpec, seed: u64) -> Result<HostOptions, GuestError> {
    // The plan has already been checked with these data; only the file of a trace can have changed.
    let cycles = clock.cycles.as_ref().map(Cycles::options).transpose();
    let cycles =
        cycles.map_err(|fault| GuestError::Usage(format!("{}; {}", fault.message, fault.help)))?;
    Ok(HostOptions {
        oscillator: oscillator_of(clock),
        cycles,
        seed,
        offset: clock.offset,
    })
}

/// Returns the oscillator that the scenario describes for a host.
pub(crate) fn oscillator_of(clock: &ClockSpec) -> HostOscillator {
    let temperature = clock
        .temperature
        .as_ref()
        .map_or(TemperatureCycle::STEADY, |temperature| TemperatureCycle {
            swing_k: temperature.swing_k,
            period_s: temperature.period.as_s_f64(),
            above_turnover_k: temperature.above_turnover_k,
        });
    HostOscillator {
        frequency: clock.frequency,
        drift_per_day: clock.drift_per_day,
        wander: clock.wander,
        jitter: clock.jitter,
        temperature,
    }
}

/// Derives a host's seed from the run's seed and the host's name (FNV-1a), independently of other
/// hosts.
pub(crate) fn seed_of(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// Records the clocks that the plan describes, once per virtual second, until `over` returns true.
/// Meanwhile, passes the frequencies of this machine's processors to the hosts that follow them.
pub(crate) fn record(
    plan: &Plan,
    clock: &Clock,
    hosts: &Hosts,
    run_recorder: &RunRecorder,
    over: impl Fn() -> bool + Sync,
) {
    let has_none = |host: &timeloom_scenario::Host| host.clock.is_none() && host.card.is_none();
    if plan.system.hosts.values().all(has_none) {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| cores::follow(plan, clock, hosts, run_recorder, &over));
        sample(plan, clock, run_recorder, &over);
    });
}

/// Samples the clocks once per virtual second until `over` returns true.
fn sample(plan: &Plan, clock: &Clock, run_recorder: &RunRecorder, over: &impl Fn() -> bool) {
    let described = |reading: &HostReading| {
        let host = plan.system.hosts.get(reading.host.name());
        host.is_some_and(|host| host.clock.is_some())
    };
    let mut next = Instant::ZERO;
    while clock.wait_until_in_the_background(next, over) {
        let (at, readings) = clock.host_readings();
        for reading in &readings {
            let source: Arc<str> = reading.host.name().into();
            let sample = |name: &str, value: f64, unit: &str| {
                run_recorder.host_sample(&source, at, name, value, unit);
            };
            if let Some(card) = reading.card {
                sample("card.offset", card.error.as_s_f64(), "s");
                sample("card.frequency", card.frequency_error * 1e6, "ppm");
            }
            if !described(reading) {
                continue;
            }
            sample("clock.offset", reading.error.as_s_f64(), "s");
            sample("clock.frequency", reading.frequency_error * 1e6, "ppm");
            if let Some(missing) = reading.missing {
                sample("clock.missing", missing.as_s_f64(), "s");
            }
            if let Some(stated_error) = reading.stated_error {
                // The kernel's estimated error begins at 16 s, and ptp4l never changes it.
                let estimated = stated_error.estimated_error.as_s_f64();
                if estimated < 16.0 {
                    sample("clock.esterror", estimated, "s");
                }
                sample("clock.maxerror", stated_error.maximum_error.as_s_f64(), "s");
            }
        }
        while next <= at {
            next += EVERY;
        }
    }
}

const EVERY: Duration = Duration::from_s(1);
