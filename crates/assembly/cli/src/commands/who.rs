//! Who a program is that `exec` and `shell` start, and what it may do.

use clap::Args;
use timeloom_exit::Failure;
use timeloom_sys::account::{Account, UserName};
use timeloom_sys::rights::{Capability, Rights};

/// Who the program is.
#[derive(Args)]
pub(crate) struct Who {
    /// Who the program is: a name, `UID` or `UID:GID` (needs root). It gains no privilege
    /// by what it executes, and has no capability but those of --capability. Inside a run
    /// it is who the host's programs are, if they are all the same, unless said here
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<UserName>,
    /// What of root's rights the program has, such as net_bind_service; may be given
    /// several times. All others are taken away
    #[arg(long, value_name = "NAME", value_parser = parse_capability)]
    pub(crate) capability: Vec<Capability>,
}

impl Who {
    /// What the program may do, when that is not what we may.
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
