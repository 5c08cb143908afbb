//! User and rights of a program that `exec` or `shell` starts.

use clap::Args;
use timeloom_run::exit::Failure;
use timeloom_sys::account::{Account, UserName};
use timeloom_sys::rights::{Capability, Rights};

/// User and capabilities of a program.
#[derive(Args)]
pub(crate) struct Identity {
    /// User of the program: a name, `UID` or `UID:GID` (needs root). The user cannot gain
    /// privileges by executing programs, and has only the capabilities of --capability. Inside a
    /// run the default is the user of the host's programs, if all have the same
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<UserName>,
    /// A capability of root that the program has, such as net_bind_service; may be given several
    /// times. All others are removed
    #[arg(long, value_name = "NAME", value_parser = parse_capability)]
    pub(crate) capability: Vec<Capability>,
}

impl Identity {
    /// Returns the rights of the program; `None` if they are those of this process.
    pub(crate) fn rights(&self) -> Result<Option<Rights>, Failure> {
        if self.user.is_none() && self.capability.is_empty() {
            return Ok(None);
        }
        let account = |user| match Account::of(user) {
            Ok(Some(account)) => Ok(account),
            Ok(None) => Err(Failure::usage(format!(
                "this machine has no user `{user}`: name one that it has, or write UID:GID"
            ))),
            Err(error) => Err(Failure::run(format!("looking up `{user}`: {error}"))),
        };
        let account = self.user.as_ref().map(account).transpose()?;
        Ok(Some(Rights::new(account, &self.capability)))
    }
}

fn parse_capability(text: &str) -> Result<Capability, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(
            "no capability of Linux; names are those of capabilities(7), as in net_bind_service",
        )
    })
}
