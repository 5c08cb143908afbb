//! Frequencies of this machine's cores, as reported by the kernel's cpufreq subsystem.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use timeloom_clock::counter::{CoreClock, CoreTime, CycleCounter, Frequency};

/// Frequency of one processor, polled from the kernel's file `scaling_cur_freq` (in kHz). The
/// kernel has no event for which an unprivileged program could wait, so the poll interval
/// determines how late a change is noticed.
#[derive(Debug)]
pub struct MachineFrequency {
    file: File,
    last: Frequency,
}

/// Reason why the frequency of a processor is unknown.
#[derive(Debug, thiserror::Error)]
pub enum NoFrequency {
    /// The file does not exist; usually the machine is a virtual one, or its kernel has no cpufreq.
    #[error("this machine does not report the frequency of its processor: there is no {0}")]
    Untold(PathBuf),
    /// The file does not contain a frequency.
    #[error("the reported frequency is not a number of kHz")]
    Absurd,
    /// The file cannot be read.
    #[error("a processor's frequency cannot be read: {0}")]
    System(io::Error),
}

impl MachineFrequency {
    /// Opens the frequency file of the processor with this number.
    ///
    /// # Errors
    /// Fails with [`NoFrequency`], whose text states the reason.
    pub fn of(processor: u32) -> Result<Self, NoFrequency> {
        Self::in_directory(&PathBuf::from(format!(
            "/sys/devices/system/cpu/cpu{processor}/cpufreq"
        )))
    }

    /// Opens the frequency file in a processor's directory `cpufreq`.
    ///
    /// # Errors
    /// Fails as [`Self::of`] does.
    pub fn in_directory(directory: &Path) -> Result<Self, NoFrequency> {
        let path = directory.join("scaling_cur_freq");
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NoFrequency::Untold(path),
            _ => NoFrequency::System(error),
        })?;
        let last = read(&file)?;
        Ok(Self { file, last })
    }

    /// Returns the frequency that the last poll found.
    pub fn last(&self) -> Frequency {
        self.last
    }

    /// Polls the frequency, and returns it if it has changed since the last poll.
    ///
    /// # Errors
    /// Fails as [`Self::of`] does.
    pub fn poll(&mut self) -> Result<Option<Frequency>, NoFrequency> {
        let now = read(&self.file)?;
        let changed = now != self.last;
        self.last = now;
        Ok(changed.then_some(now))
    }

    /// Polls the frequency, reports a change to `clock`, and reads `clock`, which counts the
    /// processor's cycles with `counter`.
    ///
    /// # Errors
    /// Fails as [`Self::of`] does.
    pub fn read_clock(
        &mut self,
        clock: &mut CoreClock,
        counter: &impl CycleCounter,
    ) -> Result<CoreTime, NoFrequency> {
        if let Some(next) = self.poll()? {
            clock.handle_change_begin(counter, next);
            clock.handle_change_end(counter);
        }
        Ok(clock.read(counter))
    }
}

fn read(file: &File) -> Result<Frequency, NoFrequency> {
    let mut bytes = [0; 32];
    let length = file.read_at(&mut bytes, 0).map_err(NoFrequency::System)?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    let text = text.trim();
    let hz = text
        .parse::<u64>()
        .ok()
        .and_then(|khz| khz.checked_mul(1_000));
    let plausible = hz.filter(|hz| (1_000_000..=100_000_000_000).contains(hz));
    plausible
        .and_then(Frequency::from_hz)
        .ok_or(NoFrequency::Absurd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::CoreCycles;
    use timeloom_clock::counter::SimulatedCore;
    use timeloom_time::Duration;

    fn directory(name: &str) -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("timeloom-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[test]
    fn changes_that_the_kernel_tells_reach_the_clock() {
        let directory = directory("cpufreq");
        let tell = |text: &str| std::fs::write(directory.join("scaling_cur_freq"), text);
        tell("800000\n").expect("a file");
        let mut machine = MachineFrequency::in_directory(&directory).expect("a frequency");
        let mut core = SimulatedCore::new(0);
        let mut clock = CoreClock::new(&core, machine.last());
        let (fast, slow) = (Frequency::from_mhz(800), Frequency::from_mhz(400));
        core.advance(5_000_000, Some(fast));
        tell("400000\n").expect("a file");
        let read = machine.read_clock(&mut clock, &core).expect("a frequency");
        assert_eq!(read.age.as_duration(), Duration::from_us(5));
        core.advance(10_000_000, Some(slow));
        let read = machine.read_clock(&mut clock, &core).expect("a frequency");
        assert_eq!(read.age.as_duration(), Duration::from_us(15));
        for absurd in ["", "fast", "-1", "999", "99999999999999999999"] {
            tell(absurd).expect("a file");
            assert!(
                matches!(machine.poll(), Err(NoFrequency::Absurd)),
                "{absurd}"
            );
        }
        std::fs::remove_dir_all(&directory).expect("our own");
        let gone = MachineFrequency::in_directory(&directory).expect_err("gone");
        assert!(gone.to_string().contains("scaling_cur_freq"), "{gone}");
    }

    /// Checks a timer that is coarser than the duration of a read, so that consecutive reads return
    /// equal values. [`SharedStrict`] makes them distinct.
    #[cfg(target_arch = "aarch64")]
    fn increases_by_strict(timer: crate::shm::GenericTimer) {
        use timeloom_clock::Core;
        use timeloom_clock::counter::SharedStrict;
        use timeloom_time::Instant;

        let frequency = timer.frequency().expect("the firmware states it");
        let (mut clock, strict) = (CoreClock::new(&timer, frequency), SharedStrict::new());
        let mut last = Instant::<Core>::ZERO;
        for turn in 0..20_000 {
            let age = clock.read(&timer).age.as_duration();
            let now = strict.next(Instant::<Core>::ZERO + age).at;
            assert!(now > last, "turn {turn}: {now:?} after {last:?}");
            last = now;
        }
        let hz = frequency.as_hz();
        println!("strictly increasing over the generic timer (CNTVCT_EL0, {hz} Hz), by `Strict`");
    }

    /// Tests each counter that is available, with the frequencies that the machine reports, and
    /// prints which counters were tested.
    #[test]
    fn rvec_increases_strictly_over_whichever_counters_there_are() {
        fn increases(name: &str, counter: &impl CycleCounter, told: bool) {
            let mut machine = MachineFrequency::of(0).ok().filter(|_| told);
            // The frequency is nominal if the machine reports none, so the test checks no more than
            // that time advances.
            let first = machine.as_ref().map(MachineFrequency::last);
            let mut clock = CoreClock::new(counter, first.unwrap_or(Frequency::from_mhz(2_000)));
            let mut last = clock.read(counter).age;
            for turn in 0..20_000 {
                let now = match &mut machine {
                    Some(machine) => machine.read_clock(&mut clock, counter).expect("told").age,
                    None => clock.read(counter).age,
                };
                assert!(now > last, "{name}, turn {turn}: {now:?} after {last:?}");
                last = now;
            }
            let told = if machine.is_some() {
                "told"
            } else {
                "not told"
            };
            println!("strictly increasing over {name}, {told} of frequencies");
        }
        match CoreCycles::open() {
            Ok(cycles) => {
                let way = if cycles.is_fast() { "without" } else { "with" };
                increases(
                    &format!("core cycles by perf, {way} system calls"),
                    &cycles,
                    true,
                );
            }
            Err(reason) => println!("not over core cycles: {reason}"),
        }
        #[cfg(target_arch = "x86_64")]
        match crate::shm::TscClock::trusted() {
            Ok(tsc) => increases("the time-stamp counter", &tsc, false),
            Err(reason) => println!("not over the time-stamp counter: {reason}"),
        }
        #[cfg(target_arch = "aarch64")]
        increases_by_strict(crate::shm::GenericTimer);
        let mut simulated = SimulatedCore::new(u32::MAX - 5);
        let mut clock = CoreClock::new(&simulated, Frequency::from_mhz(800));
        let mut last = clock.read(&simulated).age;
        for _ in 0..20_000 {
            simulated.advance(1_250, Some(Frequency::from_mhz(800)));
            let now = clock.read(&simulated).age;
            assert!(now > last, "{now:?} after {last:?}");
            last = now;
        }
    }
}
