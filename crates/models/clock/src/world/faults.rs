//! Faults of a simulated world.

use timeloom_time::Duration;

use timeloom_random::Random;

/// Kind of fault, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The core clock jumps by this length, without notice.
    Step(Duration),
    /// The machine is suspended for this long.
    Suspend(Duration),
    /// The machine is migrated to another host.
    Migrate,
    /// The daemon is stopped for this long and then continues as if nothing had happened (SIGSTOP,
    /// a debugger, an overloaded machine).
    DaemonStops(Duration),
    /// The daemon is killed; a new one is started after this time.
    DaemonDies(Duration),
    /// No source is reachable for this long.
    Blackout(Duration),
}

impl FaultKind {
    /// Number of kinds of faults.
    pub const KINDS: usize = 6;

    /// Returns the number of the kind, 0 … [`Self::KINDS`] − 1, for counting.
    pub fn kind(&self) -> usize {
        match self {
            Self::Step(_) => 0,
            Self::Suspend(_) => 1,
            Self::Migrate => 2,
            Self::DaemonStops(_) => 3,
            Self::DaemonDies(_) => 4,
            Self::Blackout(_) => 5,
        }
    }

    /// Returns a random fault. A step is always larger than the drift that the witness tolerates
    /// over the longest pause of a daemon; a smaller one could not be distinguished from drift.
    pub fn random(noise: &mut Random) -> Self {
        let seconds =
            |noise: &mut Random, most: i64| Duration::from_ms(noise.between(1, most * 1000));
        match noise.below(Self::KINDS as u64) {
            0 => {
                let size = Duration::from_ms(noise.between(1_000, 1_000_000));
                Self::Step(if noise.chance(0.5) { size } else { -size })
            }
            1 => Self::Suspend(Duration::from_ms(10) + seconds(noise, 10_000)),
            2 => Self::Migrate,
            3 => Self::DaemonStops(seconds(noise, 2_000)),
            4 => Self::DaemonDies(seconds(noise, 100)),
            _ => Self::Blackout(seconds(noise, 2_000)),
        }
    }
}
