//! What a program or plant of the plan may do.

use timeloom_scenario::{CapabilityName, User};
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
