//! What a child may do: its user, its groups, its capabilities. Named by people, looked up
//! before the fork, taken between fork and exec.
//!
//! [`account`](crate::account) knows what the machine's database says of users. This does
//! not know programs, and decides for none what it should have.

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

/// A capability of Linux, by its name in capabilities(7) in small letters and without
/// `cap_`: `net_bind_service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability(CapabilitySet);

/// A name that is no capability's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCapability;

impl Capability {
    /// All names.
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

/// What a child may do, when that is not what its parent may: it gains nothing by what it
/// executes, and has no capability but those that are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Who it is; none: who its parent is.
    account: Option<Account>,
    groups: Vec<Gid>,
    allowed: CapabilitySet,
}

impl Rights {
    /// Those of an account, or of this process's user, with these capabilities.
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

    /// Who the child will be, when that is not its parent.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// To be called in a child between fork and exec, after all that needs its parent's
    /// rights. Makes system calls alone, and no memory. What is named stays through every
    /// exec of a program without privileges of its own (it is ambient).
    ///
    /// # Errors
    /// When this process may not give them: without root there is no other user, and no
    /// capability that it does not have.
    pub fn take(&self) -> Result<(), Errno> {
        if let Some(account) = &self.account {
            let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
            // Else all are lost with the user.
            set_keep_capabilities(true)?;
            if !is_already(account) {
                set_thread_groups(&self.groups)?;
                set_thread_res_gid(group, group, group)?;
                set_thread_res_uid(user, user, user)?;
            }
            set_keep_capabilities(false)?;
        }
        let now = capabilities(None)?;
        // The bounding set holds for a child that stays root, whose next exec would have
        // them all again. Who may not change it has none to lose.
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
                    // One that this kernel does not know yet.
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

/// Whether this process is that user already, so that nobody need be asked for it.
fn is_already(account: &Account) -> bool {
    let is_user = rustix::process::getuid().as_raw() == account.user
        && rustix::process::geteuid().as_raw() == account.user;
    let is_group = rustix::process::getgid().as_raw() == account.group;
    // Root gives up what groups it has; others cannot.
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
