//! What agents are and can do, asked without starting anything: for `timeloom doctor`.
//!
//! An agent answers whoever has its key, also while it runs something. It lets its own
//! `timeloom doctor` try the machine, and says how well the clock is known that it shares.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration as StdDuration;

use serde::{Deserialize, Serialize};
use timeloom_bus::CommonTimeline;
use timeloom_scenario::Plan;
use timeloom_time::{Duration, Instant};

use super::error::{AgentError, SpreadError};
use super::message::{FromAgent, ToAgent};
use super::secret::{Secret, read_key};
use super::serve::{Serve, WhichTimeline};
use crate::channel::{Side, greet};

/// What an agent says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The version of Timeloom.
    pub version: String,
    /// Whether it runs something just now.
    pub busy: bool,
    /// The clock that it shares with others.
    pub timeline: WhichTimeline,
    /// What that showed when it answered, in nanoseconds.
    pub shows_ns: i64,
    /// By how much that may be wrong, as this machine's kernel says, in nanoseconds.
    pub error_ns: i64,
    /// What `timeloom doctor --json` says there: an object to a line.
    pub findings: String,
}

/// What an agent said, and between which instants of this machine's civil time.
pub(crate) type Answer = (Description, [Instant<timeloom_clock::Timeline>; 2]);

/// One agent of a plan, and what it said, or why it said nothing.
#[derive(Debug)]
pub struct Described {
    /// What the plan calls it.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// What it said.
    pub answer: Result<Answer, AgentError>,
}

/// Asks all agents of a plan at once.
///
/// # Errors
/// When there are none, or the key cannot be read.
pub fn describe(plan: &Plan) -> Result<Vec<Described>, SpreadError> {
    let placement = &plan.placement;
    if !placement.is_spread() {
        return Err(SpreadError::NoAgents);
    }
    let file = placement.key_file.as_deref().ok_or(SpreadError::NoKey)?;
    let secret = read_key(file, Secret::from_hex)?;
    Ok(thread::scope(|scope| {
        let ask = |(name, place): (&String, &timeloom_scenario::AgentPlace)| {
            let (name, address) = (name.clone(), place.address.clone());
            let secret = &secret;
            scope.spawn(move || Described {
                answer: ask(&address, secret),
                name,
                address,
            })
        };
        let threads: Vec<_> = placement.agents.iter().map(ask).collect();
        let joined = threads.into_iter().filter_map(|thread| thread.join().ok());
        joined.collect()
    }))
}

fn ask(address: &str, secret: &Secret) -> Result<Answer, AgentError> {
    let address: SocketAddr = address.parse().map_err(|_| AgentError::NoAddress)?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    let (mut sender, mut receiver) = greet(stream, Side::Run, secret, PATIENCE)?;
    receiver.patience(Some(TRIED_WITHIN))?;
    let here = timeloom_bus::SystemTimeline;
    let before = here.read().now;
    sender.say(&ToAgent::Describe)?;
    match receiver.hear::<FromAgent>()? {
        FromAgent::Described(said) => Ok((*said, [before, here.read().now])),
        FromAgent::Refused { why } => Err(AgentError::Refused(why)),
        _ => Err(AgentError::OffTopic),
    }
}

impl Serve {
    /// This agent, as it is now.
    pub(super) fn describe(&self, busy: bool) -> Description {
        let doctor = Command::new(&self.timeloom)
            .args(["doctor", "--json"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let findings = doctor.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        // Last, so that it is fresh.
        let moment = self.timeline.open().read();
        Description {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            busy,
            timeline: self.timeline,
            shows_ns: moment.now.as_ns(),
            error_ns: moment.uncertainty.as_ns(),
            findings,
        }
    }
}

impl Description {
    /// By how much the clock of this agent can be off that of this machine, at least; zero
    /// when what it showed lies between those instants of here, as far as it knows.
    pub fn off_at_least(
        &self,
        [before, after]: [Instant<timeloom_clock::Timeline>; 2],
    ) -> Duration {
        let error = Duration::from_ns(self.error_ns.max(0));
        let shows = Instant::from_ns(self.shows_ns);
        let early = before - (shows + error);
        let late = (shows - error) - after;
        early.max(late).max(Duration::ZERO)
    }
}

/// For what belongs to a conversation's beginning.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
/// It tries what its machine can do.
const TRIED_WITHIN: StdDuration = StdDuration::from_secs(120);
