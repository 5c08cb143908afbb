//! Command that a client starts on one of a session's hosts. It runs in the host's network and by
//! the host's clock, with the client's standard streams.
//!
//! The session sends three answers. The first says that the command is admitted. The client then
//! sends the descriptors of standard input, output and error, with a byte each. The second answer
//! says that the command has been started, and the third has its exit status. If a client closes
//! the connection before that, the command receives a SIGHUP.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use timeloom_sys::account::{Account, BadUserName, UserName};
use timeloom_sys::environment;
use timeloom_sys::rights::{Capability, Rights};

use crate::clock::Host;
use crate::control::controlled::{Controlled, HostRights, Welcome};
use crate::control::error::Refusal;
use crate::control::granter::has_hung_up;
use crate::control::obey::obey;
use crate::control::protocol::{Entry, Lines, Request, Response, send};
use crate::enter::guest::Guest;
use crate::enter::spec::{CommandSpec, Output, Variables};
use crate::error::GuestError;
use crate::linux::descriptor::receive_descriptor;
use crate::session::Session;

/// Serves the client of this request until its command has ended. `lines` must have no unread data:
/// a client sends no descriptor before it is asked to.
pub(crate) fn serve<C: Controlled>(
    controlled: &Weak<C>,
    mut stream: UnixStream,
    lines: Lines,
    entry: &Entry,
) {
    drop(lines);
    let started = start(controlled, &mut stream, entry);
    let (guest, host) = match started {
        Ok(started) => started,
        Err(refusal) => return send(&mut stream, &refusal.into()),
    };
    if let Ok(started) = obey(controlled, Request::Query) {
        send(&mut stream, &started);
    }
    let status = see_through(&guest, &stream);
    if let Some(controlled) = controlled.upgrade() {
        let how = format!("ended with status {status}");
        controlled.came_in(&host, &entry.command[0], "end", &how);
    }
    send(&mut stream, &Response::Exited(status));
}

/// Starts the command. Returns it with its host.
fn start<C: Controlled>(
    controlled: &Weak<C>,
    stream: &mut UnixStream,
    entry: &Entry,
) -> Result<(Guest, String), Refusal> {
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let Some(command) = entry.command.first() else {
        return Err(GuestError::Usage("no command was given".into()).into());
    };
    let host = host_of(held.session(), entry.host.as_deref())?;
    let Welcome {
        network,
        root,
        identity,
        env,
        rights,
    } = held.welcome(host.name())?;
    let rights = rights_of(entry, rights, host.name())?;
    // The reference is dropped, since a slow operation must not keep the session alive.
    drop(held);
    send(stream, &obey(controlled, Request::Query)?);
    let Some(streams) = receive_streams(stream) else {
        return Err(GuestError::Usage("the command's streams did not arrive".into()).into());
    };
    let account = rights.as_ref().and_then(Rights::account);
    let is_another = account.is_some_and(|account| !account.is_own());
    let passes = |name: &str| !is_another || environment::is_usual(name.as_ref(), true);
    let given = entry.env.iter().filter(|(name, _)| passes(name));
    let mut variables: BTreeMap<OsString, OsString> = given
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    // Variables of the supervisor's user do not apply to another user.
    for (own, _) in rights
        .iter()
        .flat_map(Rights::account)
        .flat_map(Account::variables)
    {
        variables.remove(OsStr::new(own));
    }
    variables.extend(env);
    let name = std::path::Path::new(command).file_name();
    let spec = CommandSpec {
        argv: entry.command.iter().map(Into::into).collect(),
        inherits: Variables::All,
        env: variables,
        // The client's directory does not exist in a container.
        directory: Some(match root {
            Some(_) => "/".into(),
            None => entry.directory.clone().into(),
        }),
        output: Output::Streams {
            streams,
            is_terminal: entry.terminal,
        },
        network,
        root,
        identity,
        rights,
        host: Some(Arc::clone(&host)),
        name: name.map(|name| format!("from outside: {}", name.to_string_lossy())),
    };
    let held = controlled.upgrade().ok_or(Refusal::Ended)?;
    let guest = held.session().spawn(&spec)?;
    held.came_in(host.name(), command, "start", &entry.command.join(" "));
    Ok((guest, host.name().to_owned()))
}

/// Returns the privileges of the command. Only the supervisor's user and root can access the
/// socket, so the privileges that the client states take precedence over those of the host's
/// programs.
fn rights_of(entry: &Entry, hosts: HostRights, host: &str) -> Result<Option<Rights>, GuestError> {
    if entry.user.is_none() && entry.capabilities.is_empty() {
        return match hosts {
            HostRights::Supervisors => Ok(None),
            HostRights::Those(rights) => Ok(Some(rights)),
            HostRights::Several => Err(several(host)),
        };
    }
    let bad = |text: &str| GuestError::Usage(format!("Linux has no capability `{text}`"));
    let capability = |text: &String| text.parse().map_err(|_| bad(text));
    let capabilities: Vec<Capability> = entry
        .capabilities
        .iter()
        .map(capability)
        .collect::<Result<_, _>>()?;
    let account = match (&entry.user, hosts) {
        (Some(user), _) => Some(account(user)?),
        (None, HostRights::Supervisors) => None,
        (None, HostRights::Those(rights)) => rights.account().cloned(),
        (None, HostRights::Several) => return Err(several(host)),
    };
    Ok(Some(Rights::new(account, &capabilities)))
}

fn several(host: &str) -> GuestError {
    GuestError::Usage(format!(
        "the programs of host `{host}` have different users or capabilities: choose a user with \
         --user"
    ))
}

fn account(user: &str) -> Result<Account, GuestError> {
    let name: UserName = user
        .parse()
        .map_err(|error: BadUserName| GuestError::Usage(error.to_string()))?;
    let looking = format!("looking up the user `{name}`");
    let account = Account::of(&name).map_err(GuestError::system(looking))?;
    account.ok_or_else(|| {
        GuestError::Usage(format!(
            "this machine has no user `{name}`: name one that it has, or write UID:GID"
        ))
    })
}

/// Returns the host of this name. A name is required if the hosts of the session have names.
fn host_of(session: &Session, name: Option<&str>) -> Result<Arc<Host>, GuestError> {
    match name {
        Some(name) => Ok(session.hosts_named(&[name.to_owned()])?.remove(0)),
        None => session.only_host(),
    }
}

fn receive_streams(stream: &UnixStream) -> Option<[OwnedFd; 3]> {
    let next = || receive_descriptor(stream);
    Some([next()?, next()?, next()?])
}

/// Waits for the end of the command. If the client has disconnected, sends the command a SIGHUP, as
/// a terminal does, and goes on waiting.
fn see_through(guest: &Guest, stream: &UnixStream) -> i32 {
    let mut told = false;
    loop {
        if let Some(status) = guest.wait_for(Some(LOOK_EVERY)) {
            return status;
        }
        if !told && has_hung_up(stream) {
            told = true;
            guest.hang_up();
        }
    }
}

/// Interval at which the session checks whether the client is still connected.
const LOOK_EVERY: Duration = Duration::from_millis(100);
