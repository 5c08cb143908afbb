//! Several machines that agree on pauses, and the measurement of a pause.

use data_encoding::HEXLOWER;

use super::agent::PauseStamps;
use crate::Options;
use crate::error::BenchError;
use crate::remote::{Environment, Remote};
use crate::scratch::{Scratch, unique};
use crate::ticks::Scale;

/// Workers, each of which represents a machine of the same run.
pub(super) struct Fleet {
    machines: Vec<Remote>,
    scale: Scale,
    _scratch: Scratch,
}

/// Measurements of one pause, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    /// By machine: time until the machine's processes were stopped. It counts from the request on
    /// the requesting machine, and from the agreed instant on the others.
    pub(super) own_stop: Vec<f64>,
    /// Time from the request until all machines were stopped and the hold was granted.
    pub(super) stop: f64,
    /// By machine: time from the agreed end until the clock was running and the processes had been
    /// woken.
    pub(super) own_resume: Vec<f64>,
    /// Time from the release until the last machine had resumed.
    pub(super) resume: f64,
    /// Time from the release until the last process had noticed its input.
    pub(super) running: f64,
    /// Virtual time from the request to the agreed instant of the pause.
    pub(super) ahead: f64,
    /// By machine: absolute offset of its clock from the common line.
    pub(super) off: Vec<f64>,
}

impl Fleet {
    /// Starts so many machines with so many processes each; returns when time runs on all of them.
    pub(super) fn start(
        options: &Options,
        hosts: usize,
        processes: usize,
    ) -> Result<Self, BenchError> {
        let scratch = Scratch::new()?;
        let scale = Scale::calibrate();
        let run = unique("run");
        let key = key()?;
        let (mut machines, mut addresses) = (Vec::new(), Vec::new());
        for host in 0..hosts {
            let mut machine = Remote::start(options, &scratch, &Environment::Native)?;
            let address = machine.ask(&format!("agent {run}-{host} {key}"))?;
            addresses.push(format!("{run}-{host}={address}"));
            machines.push(machine);
        }
        for (host, machine) in machines.iter_mut().enumerate() {
            let mut peers = addresses.clone();
            peers.remove(host);
            machine.send(&format!("peers {} {processes}", peers.join(",")))?;
        }
        let mut fleet = Self {
            machines,
            scale,
            _scratch: scratch,
        };
        fleet.all_say("ok")?;
        Ok(fleet)
    }

    /// Makes machine `asks` hold all machines for the given duration.
    ///
    /// # Errors
    /// Fails if the machines did not stop at the same virtual nanosecond, or if one has failed.
    pub(super) fn pause(
        &mut self,
        asks: usize,
        length: std::time::Duration,
    ) -> Result<Pause, BenchError> {
        let held = self.machines[asks].ask("hold")?;
        let (asked, granted) = held
            .split_once(' ')
            .and_then(|(asked, granted)| Some((asked.parse().ok()?, granted.parse().ok()?)))
            .ok_or_else(|| BenchError::Worker(format!("a hold: {held}")))?;
        let mut machines = self.machines.iter_mut();
        machines.try_for_each(|machine| machine.send("stamp"))?;
        self.all_say("ok")?;
        std::thread::sleep(length);
        let free = self.machines[asks].measure("release")? as u64;
        let mut machines = self.machines.iter_mut();
        machines.try_for_each(|machine| machine.send("seen"))?;
        let answers = self.machines.iter_mut().map(|machine| {
            let answer = machine.answer()?;
            serde_json::from_str(&answer)
                .map_err(|error| BenchError::Worker(format!("a pause: {error}: {answer}")))
        });
        let seen = answers.collect::<Result<Vec<PauseStamps>, _>>()?;
        let agreed = (seen[0].at_ns, seen[0].resumed_ns);
        let other = |seen: &&PauseStamps| (seen.at_ns, seen.resumed_ns) != agreed;
        if let Some(other) = seen.iter().find(other) {
            return Err(BenchError::Worker(format!(
                "machines stood at different instants: {:?} and {other:?}",
                seen[0]
            )));
        }
        let since = |from: u64, to: u64| self.scale.between_ns(from, to);
        let own_stop = seen.iter().map(|seen| match seen.alone {
            Some(alone) => since(asked, alone),
            None => seen.stood_after_ns as f64,
        });
        let last = |pick: fn(&PauseStamps) -> u64| seen.iter().map(pick).max().unwrap_or(free);
        Ok(Pause {
            own_stop: own_stop.collect(),
            stop: since(asked, granted),
            own_resume: seen.iter().map(|seen| seen.ran_after_ns as f64).collect(),
            resume: since(free, last(|seen| seen.ran)),
            running: since(free, last(|seen| seen.noticed)),
            ahead: seen[asks].ahead_ns as f64,
            off: seen.iter().map(|seen| seen.off_ns.abs() as f64).collect(),
        })
    }

    fn all_say(&mut self, expected: &str) -> Result<(), BenchError> {
        for machine in &mut self.machines {
            let answer = machine.answer()?;
            if answer != expected {
                return Err(BenchError::Worker(format!("a machine said: {answer}")));
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // A failed machine is ended; the process that supervises it cleans up.
        for machine in &mut self.machines {
            let _ = machine.ask("end");
        }
    }
}

/// Returns a key of 64 random hexadecimal digits.
fn key() -> Result<String, BenchError> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(BenchError::system("reading /dev/urandom"))?;
    Ok(HEXLOWER.encode(&bytes))
}
