//! What a program or plant of the plan may do, and who comes in to a host.

use timeloom_guest::HostRights;
use timeloom_scenario::{CapabilityName, Host, Program, User};
use timeloom_sys::account::Account;
use timeloom_sys::rights::{Capability, Rights};

/// Its rights; `None`: those that we have.
///
/// # Errors
/// In words, when the machine does not know the user.
pub(crate) fn of(
    user: Option<&User>,
    capabilities: Option<&[CapabilityName]>,
) -> Result<Option<Rights>, String> {
    if user.is_none() && capabilities.is_none() {
        return Ok(None);
    }
    let account = |user: &User| match Account::of(&user.0) {
        Ok(Some(account)) => Ok(account),
        Ok(None) => Err(format!("this machine has no user `{user}`")),
        Err(error) => Err(format!("looking up the user `{user}`: {error}")),
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

/// What the programs of a host may do, if that is the same for all.
///
/// # Errors
/// As [`of`].
pub(crate) fn of_host(host: &Host) -> Result<HostRights, String> {
    let rights = |program: &Program| of(program.user.as_ref(), program.capabilities.as_deref());
    let all = host.programs.iter().map(rights);
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.dedup();
    Ok(match (all.len(), all.pop().flatten()) {
        (0 | 1, None) => HostRights::Supervisors,
        (1, Some(rights)) => HostRights::Those(rights),
        _ => HostRights::Several,
    })
}
