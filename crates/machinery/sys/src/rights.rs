//! Rights of a child process: its user, groups and capabilities. Callers give them by name; the
//! names are looked up before the fork, and the rights are applied between fork and exec.
//!
//! [`account`](crate::account) reads the machine's user database. This module does not decide which
//! rights a program has.

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::account::Account;

/// Linux capability, given by its name in capabilities(7) in lower case and without `cap_`, such as
/// `net_bind_service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability(CapabilitySet);

/// Error for a name that no capability has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCapability;

impl Capability {
    /// Returns the names of all capabilities.
    pub fn names() -> impl Iterator<Item = String> {
        CapabilitySet::all()
            .iter_names()
            .map(|(name, _)| name.to_ascii_lowercase())
    }
}

impl FromStr for Capability {
    type Err = NoCapability;

    fn from_str(text: &str) -> Result<Self, NoCapability> {
        let is_small = text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        let found = CapabilitySet::from_name(&text.to_ascii_uppercase());
        found.filter(|_| is_small).map(Self).ok_or(NoCapability)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.iter_names().next().map_or("", |(name, _)| name);
        f.write_str(&name.to_ascii_lowercase())
    }
}

/// Rights of a child process that differ from its parent's. The child has only the listed
/// capabilities, and no exec adds privileges to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// User of the child; `None` for its parent's user.
    account: Option<Account>,
    groups: Vec<Gid>,
    allowed: CapabilitySet,
}

impl Rights {
    /// Creates rights with the user of `account`, or this process's user, and the capabilities
    /// `allowed`.
    pub fn new(account: Option<Account>, allowed: &[Capability]) -> Self {
        let groups = account.iter().flat_map(|account| account.groups.iter());
        Self {
            groups: groups.map(|group| Gid::from_raw(*group)).collect(),
            account,
            allowed: allowed
                .iter()
                .fold(CapabilitySet::empty(), |all, one| all | one.0),
        }
    }

    /// Returns the user of the child, or `None` if it is its parent's user.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Applies the rights to the calling process. A child calls this between fork and exec, after
    /// all steps that need its parent's rights. The function makes only system calls and allocates
    /// nothing. The allowed capabilities are ambient: they persist through every exec of a program
    /// without privileges of its own.
    ///
    /// # Errors
    /// Fails if this process may not grant the rights. A process that is not root can grant no
    /// other user, and no capability that it lacks itself.
    pub fn take(&self) -> Result<(), Errno> {
        if let Some(account) = &self.account {
            let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
            // Otherwise the change of user would clear all capabilities.
            set_keep_capabilities(true)?;
            if !is_already(account) {
                set_thread_groups(&self.groups)?;
                set_thread_res_gid(group, group, group)?;
                set_thread_res_uid(user, user, user)?;
            }
            set_keep_capabilities(false)?;
        }
        let now = capabilities(None)?;
        // The bounding set matters for a child that remains root: its next exec would otherwise
        // restore all capabilities. A process that may not change the set has none to lose.
        if now.permitted.contains(CapabilitySet::SETPCAP) {
            set_capabilities(
                None,
                CapabilitySets {
                    effective: now.permitted,
                    ..now
                },
            )?;
            for capability in CapabilitySet::all().difference(self.allowed).iter() {
                match remove_capability_from_bounding_set(capability) {
                    // A capability that this kernel does not know yet.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        clear_ambient_capability_set()?;
        set_capabilities(
            None,
            CapabilitySets {
                effective: self.allowed,
                permitted: self.allowed,
                inheritable: self.allowed,
            },
        )?;
        for capability in self.allowed.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
        set_no_new_privs(true)
    }
}

/// Returns true if this process already has the user and group of `account`, so that no change is
/// needed. Always false for root.
fn is_already(account: &Account) -> bool {
    let is_user = rustix::process::getuid().as_raw() == account.user
        && rustix::process::geteuid().as_raw() == account.user;
    let is_group = rustix::process::getgid().as_raw() == account.group;
    // Root drops its supplementary groups; other users cannot.
    is_user && is_group && account.user != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_the_names_of_the_manual() {
        let capability: Capability = "net_bind_service".parse().unwrap();
        assert_eq!(capability.to_string(), "net_bind_service");
        for bad in ["", "NET_ADMIN", "cap_net_admin", "net admin", "all", "1"] {
            assert_eq!(bad.parse::<Capability>(), Err(NoCapability), "{bad:?}");
        }
        for name in Capability::names() {
            assert_eq!(name.parse::<Capability>().unwrap().to_string(), name);
        }
    }
}
