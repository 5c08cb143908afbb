//! `timeloom query`: state of a session, and the causes because of which its time stands.

use std::process::ExitCode;

use clap::Args;
use timeloom_guest::{Request, connect};
use timeloom_run::exit::{Failure, say};

use super::control::{Target, print};
use super::why;

/// Show a session's clock: virtual time, wall time, total paused, dilation
///
/// With --why, also shows what time waits for at this instant: a participant that holds the pause,
/// a grant, a plant, an engine or an agent, or the threads over which time does not skip.
#[derive(Args)]
#[command(after_help = "Example: timeloom query --why lab")]
pub(crate) struct Query {
    /// Session; the same as --name
    #[arg(value_name = "SESSION", conflicts_with = "name")]
    session: Option<String>,
    /// State what time waits for
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    target: Target,
}

impl Query {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let name = self.session.or(self.target.name);
        let request = match self.why {
            true => Request::Why,
            false => Request::Query,
        };
        let status = connect(name.as_deref(), &request)?;
        print(&status, self.target.json);
        if !self.target.json {
            let sentences = status.why.as_ref().map(|why| why::sentences(&status, why));
            for sentence in sentences.into_iter().flatten() {
                say!("{sentence}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
