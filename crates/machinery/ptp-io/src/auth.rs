//! How a program is authenticated: its key directory, and what it makes of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_ptp::security::{Policy, Security};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::tlv::{EntryForm, Suite};

use crate::keys::{FileLedger, KeyDirectory, KeyLock, Loaded, suite_name};
use crate::{Names, PtpError, Role};

/// Where signatures travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// In a TLV on Follow_Up, with keys of this suite.
    Inline(Suite),
    /// As statements on a second network; keys of either suite.
    Secondary,
}

/// Keys that hold, kept up to date.
#[derive(Debug)]
pub struct Auth {
    directory: KeyDirectory,
    loaded: Loaded,
    once: Option<Once>,
    channel: Channel,
    policy: Policy,
    form: EntryForm,
    max_hops: u8,
    /// What was asked for in place of the suite's own habit.
    watch: Option<bool>,
    look_again: Instant<Wall>,
}

/// What a program has that signs Follow_Ups with keys that serve each Sync once.
#[derive(Debug)]
struct Once {
    path: PathBuf,
    lock: KeyLock,
    ledger: FileLedger,
}

impl Once {
    /// Has what `loaded`'s key signs written down from now on.
    fn open(path: &Path, lock: KeyLock, loaded: &Loaded) -> Result<Self, PtpError> {
        let ledger = FileLedger::open(path, loaded.epoch, &lock)?;
        loaded.secret.keep(Box::new(ledger.clone()));
        Ok(Self {
            path: path.to_owned(),
            lock,
            ledger,
        })
    }

    /// Has what the key of another epoch signs written down, in that epoch's ledger.
    fn turn_to(&mut self, loaded: &Loaded) -> Result<(), PtpError> {
        self.ledger = FileLedger::open(&self.path, loaded.epoch, &self.lock)?;
        loaded.secret.keep(Box::new(self.ledger.clone()));
        Ok(())
    }
}

/// How often the key files' times are looked at.
const LOOK_EVERY: Duration = Duration::from_s(1);

impl Auth {
    /// Reads and checks the keys in `directory`.
    ///
    /// # Errors
    /// Why they are refused; also when their suite is not the channel's, a
    /// grandmaster is not authorised, or, with `bls-once`, another program signs.
    pub fn open(
        path: &Path,
        role: Role,
        channel: Channel,
        policy: Policy,
        form: EntryForm,
        max_hops: u8,
    ) -> Result<Self, PtpError> {
        let mut directory = KeyDirectory::new(path);
        let loaded = directory.load()?;
        if role == Role::Grandmaster && !loaded.may_lead {
            return Err(PtpError::usage(format!(
                "{} is not authorised as grandmaster: `timeloom ptp sign --grandmaster {}`",
                loaded.name, loaded.name
            )));
        }
        let policy = if role == Role::Monitor {
            Policy::Monitor
        } else {
            policy
        };
        let mut auth = Self {
            directory,
            loaded,
            once: None,
            channel,
            policy,
            form,
            max_hops,
            watch: None,
            look_again: wall_now() + LOOK_EVERY,
        };
        auth.check_suite(&auth.loaded)?;
        let signs = matches!(role, Role::Grandmaster | Role::Transparent)
            && channel == Channel::Inline(Suite::BlsOnce);
        if signs {
            auth.once = Some(Once::open(path, KeyLock::take(path)?, &auth.loaded)?);
        }
        Ok(auth)
    }

    fn check_suite(&self, loaded: &Loaded) -> Result<(), PtpError> {
        match self.channel {
            Channel::Inline(suite) if suite != loaded.secret.suite() => {
                Err(PtpError::usage(format!(
                    "the keys are {} and --auth asks for {}",
                    suite_name(loaded.secret.suite()),
                    suite_name(suite)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether a transparent clock verifies what it signs on. By default it does with suites
    /// whose signatures are aggregated, and then blames a link before it vouches for it.
    pub fn set_watch(&mut self, watch: bool) {
        self.watch = Some(watch);
    }

    /// Everybody's names.
    pub fn names(&self) -> Names {
        self.loaded.names.clone()
    }

    pub(crate) const fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    pub(crate) const fn is_secondary(&self) -> bool {
        matches!(self.channel, Channel::Secondary)
    }

    pub(crate) fn security(&self) -> Security {
        let mut security =
            self.loaded
                .security(self.policy, self.form, self.is_secondary(), self.max_hops);
        if let Some(watch) = self.watch {
            security.watch = watch;
        }
        if let Some(once) = &self.once {
            // The civil clock may have been set back; what was signed is written down.
            let beyond = once.ledger.beyond(self.loaded.clock);
            security.first_sequence = security.first_sequence.max(beyond);
        }
        security
    }

    pub(crate) const fn next_look(&self) -> Instant<Wall> {
        self.look_again
    }

    /// Whether it is time to read the files again.
    pub(crate) fn is_due(&mut self, now: Instant<Wall>, asked: bool) -> bool {
        if now < self.look_again && !asked {
            return false;
        }
        self.look_again = now + LOOK_EVERY;
        asked || self.directory.is_changed()
    }

    /// Takes what the files say now; `Err` leaves everything as it was, except
    /// that keys of an epoch that has ended count for nothing any more.
    pub(crate) fn reload(&mut self) -> Result<(), PtpError> {
        let result = self.directory.load().and_then(|mut loaded| {
            if loaded.clock != self.loaded.clock {
                return Err(PtpError::usage(format!(
                    "node.key is now {}'s; start again to be another clock",
                    loaded.clock
                )));
            }
            self.check_suite(&loaded)?;
            if loaded.secret.public() == self.loaded.secret.public() {
                // It is still this key: what was prepared for it is not lost.
                loaded.secret = self.loaded.secret.clone();
            } else if let Some(once) = &mut self.once {
                once.turn_to(&loaded)?;
            }
            Ok(loaded)
        });
        match result {
            Ok(loaded) => {
                self.loaded = loaded;
                Ok(())
            }
            Err(error) => {
                for epoch in self.directory.expired() {
                    let mut ring = (*self.loaded.ring).clone();
                    ring.retire(epoch);
                    self.loaded.ring = Arc::new(ring);
                }
                Err(error)
            }
        }
    }
}
