//! Description of agents and their capabilities, for `timeloom doctor`. No run is started.
//!
//! An agent answers every peer that has its key, even during a run. It runs `timeloom doctor` on
//! its own machine, and reports the error bound of the clock that it shares with other agents.

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
use super::serve::{AgentTimeline, Serve};
use crate::channel::{Side, greet};

/// Description of an agent, as reported by the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Version of Timeloom.
    pub version: String,
    /// True if the agent is running a share.
    pub busy: bool,
    /// Clock that the agent shares with others.
    pub timeline: AgentTimeline,
    /// Reading of the shared clock when the agent answered, in nanoseconds.
    pub shows_ns: i64,
    /// Error bound of that clock according to the agent's kernel, in nanoseconds.
    pub error_ns: i64,
    /// Output of `timeloom doctor --json` on the agent: one JSON object per line.
    pub findings: String,
}

/// Description of an agent, and this machine's civil time just before and just after the query.
pub(crate) type Answer = (Description, [Instant<timeloom_clock::TimelineTime>; 2]);

/// An agent of a plan with its description, or the reason for its absence.
#[derive(Debug)]
pub struct AgentDescription {
    /// Name in the plan.
    pub name: String,
    /// Address in the plan.
    pub address: String,
    /// Description, or the reason why there is none.
    pub answer: Result<Answer, AgentError>,
}

/// Queries all agents of a plan concurrently.
///
/// # Errors
/// Returns an error if there are no agents or the key cannot be read.
pub fn describe(plan: &Plan) -> Result<Vec<AgentDescription>, SpreadError> {
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
            scope.spawn(move || AgentDescription {
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
    /// Returns the description of this agent; `busy` is true while the agent runs a share.
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
        // The clock is read last, because the test of the machine takes seconds.
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
    /// Returns a lower bound of the offset between the agent's clock and this machine's clock.
    /// `before` and `after` are this machine's readings around the query. The bound is zero if the
    /// agent's reading, within its error bound, may lie between them.
    pub fn off_at_least(
        &self,
        [before, after]: [Instant<timeloom_clock::TimelineTime>; 2],
    ) -> Duration {
        let error = Duration::from_ns(self.error_ns.max(0));
        let shows = Instant::from_ns(self.shows_ns);
        let early = before - (shows + error);
        let late = (shows - error) - after;
        early.max(late).max(Duration::ZERO)
    }
}

/// Timeout of the exchanges at the start of a conversation.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
/// Time within which the agent must have tested its machine.
const TRIED_WITHIN: StdDuration = StdDuration::from_secs(120);
