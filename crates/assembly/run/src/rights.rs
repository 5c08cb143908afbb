//! Rights of the plan's programs and plants, and of commands that enter a host from outside.

use std::io;

use timeloom_guest::HostRights;
use timeloom_scenario::{CONTAINER_CAPABILITIES, CapabilityName, Host, Program, User};
use timeloom_sys::account::{Account, UserName};
use timeloom_sys::rights::{Capability, Rights};

/// Error while the rights of a program are determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RightsError {
    #[error("this machine has no user `{0}`")]
    Unknown(User),
    #[error("looking up the user `{0}`: {1}")]
    LookUp(User, io::Error),
    /// The user is given by name, but a container's users differ from the machine's.
    #[error("`{0}` is a name of this machine's; write `UID:GID`")]
    NamedInside(String),
}

/// Returns the rights for a user and capabilities; `None` stands for the rights of this process.
///
/// # Errors
/// Returns an error if the machine does not know the user.
pub(crate) fn of(
    user: Option<&User>,
    capabilities: Option<&[CapabilityName]>,
) -> Result<Option<Rights>, RightsError> {
    if user.is_none() && capabilities.is_none() {
        return Ok(None);
    }
    let account = |user: &User| match Account::of(&user.0) {
        Ok(Some(account)) => Ok(account),
        Ok(None) => Err(RightsError::Unknown(user.clone())),
        Err(error) => Err(RightsError::LookUp(user.clone(), error)),
    };
    let allowed: Vec<Capability> = capabilities
        .iter()
        .copied()
        .flatten()
        .map(|of| of.0)
        .collect();
    let account = user.map(account).transpose()?;
    Ok(Some(Rights::new(account, &allowed)))
}

/// Returns the rights of a program in a container. An ordinary user has only the given
/// capabilities. Root has the capabilities that container runtimes grant, except the one that
/// creates device nodes. The program can never gain further capabilities.
///
/// # Errors
/// Returns an error if the user is given by name.
pub(crate) fn in_container(
    user: Option<&User>,
    capabilities: Option<&[CapabilityName]>,
) -> Result<Rights, RightsError> {
    let (user, group) = match user.map(|user| &user.0) {
        None => (0, 0),
        Some(UserName::Numbered { user, group }) => (*user, group.unwrap_or(*user)),
        Some(UserName::Named(name)) => {
            return Err(RightsError::NamedInside(name.clone()));
        }
    };
    let account = Account {
        user,
        group,
        groups: vec![group],
        known: None,
    };
    let usual = || {
        let names = CONTAINER_CAPABILITIES.iter();
        names.filter_map(|name| name.parse().ok()).collect()
    };
    let allowed: Vec<Capability> = match capabilities {
        Some(named) => named.iter().map(|of| of.0).collect(),
        None if user == 0 => usual(),
        None => Vec::new(),
    };
    Ok(Rights::new(Some(account), &allowed))
}

/// Returns the rights of the programs of a host, if all of them have the same rights.
///
/// # Errors
/// Fails like [`of`].
pub(crate) fn of_host(host: &Host) -> Result<HostRights, RightsError> {
    let is_inside = host.container.is_some();
    let rights = |program: &Program| {
        let (user, capabilities) = (program.user.as_ref(), program.capabilities.as_deref());
        match is_inside {
            true => in_container(user, capabilities).map(Some),
            false => of(user, capabilities),
        }
    };
    let all = host.programs.iter().map(rights);
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.dedup();
    Ok(match (all.len(), all.pop().flatten()) {
        (0, None) if is_inside => HostRights::Those(in_container(None, None)?),
        (0 | 1, None) => HostRights::Supervisors,
        (1, Some(rights)) => HostRights::Those(rights),
        _ => HostRights::Several,
    })
}
