//! Authentication of a PTP program: the key directory and the keys in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_ptp::security::{Policy, Security};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::tlv::{EntryForm, Suite};

use crate::keys::{FileLedger, KeyDirectory, KeyLock, LoadedKeys, suite_name};
use crate::{Names, PtpError, Role};

/// Channel by which signatures are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Signatures are in a TLV of Follow_Up, made with keys of this suite.
    Inline(Suite),
    /// Signatures are in statements on a second network, made with keys of either suite.
    Secondary,
}

/// Keys of a program, which are reloaded when their files change.
#[derive(Debug)]
pub struct Auth {
    directory: KeyDirectory,
    loaded: LoadedKeys,
    once: Option<Once>,
    channel: Channel,
    policy: Policy,
    form: EntryForm,
    max_hops: u8,
    /// Setting by the user; overrides the suite's default ([`Auth::set_watch`]).
    watch: Option<bool>,
    look_again: Instant<Wall>,
}

/// State of a program that signs Follow_Ups with `bls-once` keys, each of which may sign a Sync
/// once.
#[derive(Debug)]
struct Once {
    path: PathBuf,
    lock: KeyLock,
    ledger: FileLedger,
}

impl Once {
    /// Opens the ledger that records which Syncs the key of `loaded` has signed.
    fn open(path: &Path, lock: KeyLock, loaded: &LoadedKeys) -> Result<Self, PtpError> {
        let ledger = FileLedger::open(path, loaded.epoch, &lock)?;
        loaded.secret.keep(Box::new(ledger.clone()));
        Ok(Self {
            path: path.to_owned(),
            lock,
            ledger,
        })
    }

    /// Opens the ledger of the epoch of `loaded`, after a change of epoch.
    fn turn_to(&mut self, loaded: &LoadedKeys) -> Result<(), PtpError> {
        self.ledger = FileLedger::open(&self.path, loaded.epoch, &self.lock)?;
        loaded.secret.keep(Box::new(self.ledger.clone()));
        Ok(())
    }
}

/// Interval at which the modification times of the key files are checked.
const LOOK_EVERY: Duration = Duration::from_s(1);

impl Auth {
    /// Reads and checks the keys in `directory`.
    ///
    /// # Errors
    /// Fails with the reason if the keys are refused. Also fails if their suite does not fit the
    /// channel, if a grandmaster is not authorised, or, with `bls-once`, if another program signs.
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

    fn check_suite(&self, loaded: &LoadedKeys) -> Result<(), PtpError> {
        match self.channel {
            Channel::Inline(suite) if suite != loaded.secret.suite() => {
                Err(PtpError::usage(format!(
                    "the keys are {} and --auth requires {}",
                    suite_name(loaded.secret.suite()),
                    suite_name(suite)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Enables or disables verification of the Syncs that a transparent clock forwards and signs.
    /// By default a transparent clock verifies Syncs for suites with aggregated signatures. It then
    /// reports a link on which a Sync was changed, instead of signing that Sync.
    pub fn set_watch(&mut self, watch: bool) {
        self.watch = Some(watch);
    }

    /// Returns the names of all clocks.
    pub fn names(&self) -> Names {
        self.loaded.names.clone()
    }

    pub(crate) const fn loaded(&self) -> &LoadedKeys {
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
            // The system clock may have been set back. The ledger records which numbers were
            // signed.
            let beyond = once.ledger.beyond(self.loaded.clock);
            security.first_sequence = security.first_sequence.max(beyond);
        }
        security
    }

    pub(crate) const fn next_look(&self) -> Instant<Wall> {
        self.look_again
    }

    /// Returns true if the key files must be read again: on request, or if they have changed since
    /// the last check.
    pub(crate) fn is_due(&mut self, now: Instant<Wall>, asked: bool) -> bool {
        if now < self.look_again && !asked {
            return false;
        }
        self.look_again = now + LOOK_EVERY;
        asked || self.directory.is_changed()
    }

    /// Loads the current key files. If that fails, the keys in force remain, except that keys of an
    /// expired epoch become invalid.
    pub(crate) fn reload(&mut self) -> Result<(), PtpError> {
        let result = self.directory.load().and_then(|mut loaded| {
            if loaded.clock != self.loaded.clock {
                return Err(PtpError::usage(format!(
                    "node.key now belongs to {}; restart this program to run as that clock",
                    loaded.clock
                )));
            }
            self.check_suite(&loaded)?;
            if loaded.secret.public() == self.loaded.secret.public() {
                // The key is unchanged. Keeping it preserves the signatures that were prepared for
                // it.
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
