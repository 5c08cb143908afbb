//! Access to the server by a token, which the printed address contains. A page keeps it in its
//! `sessionStorage`, and sends it as a header of each request and as the first message of its
//! socket.
//!
//! There is no cookie. A browser sends a cookie to each port of a host, and other users of this
//! machine can listen on one. The storage of a page belongs to its origin, which includes the port.
//!
//! This protects against three attackers. Another user of this machine can connect, but has no
//! token. A page of another origin in the same browser sends requests that name its origin and have
//! no token. A site whose name resolves to this machine (DNS rebinding) causes requests that have
//! this name as their host.
//!
//! A report is opened by a plain navigation, which sends no header. Its address contains a ticket,
//! which is valid for a single request of one report within some seconds.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq as _;

use crate::web;

/// Rights of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Right to show runs.
    Read,
    /// Right to show runs, and to act on running ones.
    Act,
}

/// Tokens and tickets of a server.
pub(crate) struct Access {
    read: String,
    /// Token that permits actions; `None` if no page may act.
    act: Option<String>,
    /// Unused tickets, oldest first.
    tickets: Mutex<VecDeque<Ticket>>,
}

/// Right to open the report of a run once.
struct Ticket {
    secret: String,
    run: String,
    until: Instant,
}

impl Access {
    pub(crate) fn new(read_only: bool) -> io::Result<Self> {
        Ok(Self {
            read: random()?,
            act: match read_only {
                true => None,
                false => Some(random()?),
            },
            tickets: Mutex::default(),
        })
    }

    pub(crate) fn acting_token(&self) -> Option<&str> {
        self.act.as_deref()
    }

    pub(crate) fn reading_token(&self) -> &str {
        &self.read
    }

    /// Returns the rights that a token gives; `None` for a wrong one.
    pub(crate) fn rights(&self, token: &str) -> Option<Rights> {
        let acts = self.act.as_ref().is_some_and(|act| same(act, token));
        let reads = same(&self.read, token);
        acts.then_some(Rights::Act)
            .or(reads.then_some(Rights::Read))
    }

    /// Returns a ticket for the report of a run.
    pub(crate) fn ticket(&self, run: &str) -> io::Result<String> {
        let secret = random()?;
        let mut tickets = self.tickets.lock();
        if tickets.len() >= MOST_TICKETS {
            tickets.pop_front();
        }
        tickets.push_back(Ticket {
            secret: secret.clone(),
            run: run.to_owned(),
            until: Instant::now() + TICKET_LIFE,
        });
        Ok(secret)
    }

    /// Removes a ticket. Returns true if the ticket is for the report of this run and is still
    /// valid at `now`.
    pub(crate) fn redeem(&self, ticket: &str, run: &str, now: Instant) -> bool {
        let mut tickets = self.tickets.lock();
        tickets.retain(|it| now < it.until);
        let is_it = |it: &Ticket| same(&it.secret, ticket) && it.run == run;
        let found = tickets.iter().position(is_it);
        found.and_then(|place| tickets.remove(place)).is_some()
    }
}

/// Prints no tokens or tickets.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// Returns 256 random bits in hexadecimal.
fn random() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(HEXLOWER.encode(&bytes))
}

fn same(secret: &str, given: &str) -> bool {
    secret.as_bytes().ct_eq(given.as_bytes()).into()
}

/// Maximum number of tickets that are kept.
const MOST_TICKETS: usize = 64;
/// Validity of a ticket. A page uses its ticket at once.
const TICKET_LIFE: Duration = Duration::from_secs(20);

/// Refuses requests by a foreign name of this machine, and requests of pages of other origins.
pub(crate) async fn check_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(host) = host_of(headers) else {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers to 127.0.0.1, localhost and [::1] only",
        );
    };
    let acts = request.method() != Method::GET && request.method() != Method::HEAD;
    let is_socket = headers.contains_key("sec-websocket-key");
    match headers.get(ORIGIN) {
        Some(origin) if origin.as_bytes() != format!("http://{host}").as_bytes() => refuse(
            StatusCode::FORBIDDEN,
            "a page of another origin must not ask this server",
        ),
        None if acts || is_socket => refuse(
            StatusCode::FORBIDDEN,
            "the request has no Origin, which each browser sends",
        ),
        _ => next.run(request).await,
    }
}

/// Refuses requests without a valid token, and attaches the token's rights to all other requests.
pub(crate) async fn check_token(
    State(state): State<web::State>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = bearer(request.headers());
    match token.and_then(|token| state.access.rights(token)) {
        Some(rights) => {
            request.extensions_mut().insert(rights);
            next.run(request).await
        }
        None => refuse(
            StatusCode::UNAUTHORIZED,
            match token {
                Some(_) => NOT_THIS_TOKEN,
                None => "open the address that `timeloom serve` printed; it contains the token",
            },
        ),
    }
}

/// Error message for an invalid token.
pub(crate) const NOT_THIS_TOKEN: &str = "this token is of another server, or of an earlier one; \
                                         open the address that `timeloom serve` printed last";

/// Returns the token of a request (RFC 6750, 2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

/// Returns the host of a request, with its port, if it is this machine's loopback interface.
fn host_of(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HOST).iter();
    let (host, None) = (all.next()?.to_str().ok()?, all.next()) else {
        return None;
    };
    // Any port: the server may be reached through a tunnel.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    // A literal address cannot be made to resolve to another one, as a name can.
    let literal = name
        .strip_prefix('[')
        .map_or(name, |it| it.trim_end_matches(']'));
    let is_loopback = || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (name == "localhost" || is_loopback()).then_some(host)
}

/// Returns an HTTP response with this status and a sentence as plain text.
pub(crate) fn refuse(code: StatusCode, sentence: &str) -> Response {
    (code, axum::Json(serde_json::json!({ "error": sentence }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                name.parse().expect("a name"),
                value.parse().expect("a value"),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_token_gives_its_own_rights_and_no_other_text_does() {
        let access = Access::new(false).expect("random numbers");
        let acting = access.acting_token().expect("pages may act").to_owned();
        let reading = access.reading_token().to_owned();
        assert_ne!(acting, reading);
        assert_eq!(access.rights(&acting), Some(Rights::Act));
        assert_eq!(access.rights(&reading), Some(Rights::Read));
        let ticket = access.ticket("tank").expect("random numbers");
        for wrong in ["", "0", &acting[..63], &format!("{acting}0"), &ticket] {
            assert_eq!(access.rights(wrong), None);
        }
        let only = Access::new(true).expect("random numbers");
        assert!(only.acting_token().is_none());
        assert_eq!(only.rights(""), None);
    }

    #[test]
    fn a_ticket_is_good_for_one_report_once_and_for_some_seconds() {
        let access = Access::new(false).expect("random numbers");
        let now = Instant::now();
        let ticket = access.ticket("tank").expect("random numbers");
        for (wrong, run) in [("", "tank"), (&ticket[..63], "tank"), (&ticket, "grid")] {
            assert!(!access.redeem(wrong, run, now));
        }
        assert!(!access.redeem(access.reading_token(), "tank", now));
        assert!(access.redeem(&ticket, "tank", now));
        assert!(!access.redeem(&ticket, "tank", now), "it was used");
        let late = access.ticket("tank").expect("random numbers");
        assert!(!access.redeem(&late, "tank", now + TICKET_LIFE * 2));
        let first = access.ticket("tank").expect("random numbers");
        for _ in 0..MOST_TICKETS {
            access.ticket("tank").expect("random numbers");
        }
        assert!(!access.redeem(&first, "tank", now), "the oldest made room");
    }

    #[test]
    fn names_of_this_machine_are_few() {
        for host in [
            "127.0.0.1:8787",
            "localhost:9",
            "[::1]:8787",
            "127.0.0.2",
            "[::1]",
        ] {
            assert_eq!(host_of(&headers(&[("host", host)])), Some(host));
        }
        for host in [
            "evil.example:8787",
            "127.0.0.1.evil.example",
            "localhost:x",
            "10.0.0.1",
            "",
        ] {
            assert_eq!(host_of(&headers(&[("host", host)])), None, "{host}");
        }
        let mut two = headers(&[("host", "localhost")]);
        two.append("host", "evil.example".parse().expect("a value"));
        assert_eq!(host_of(&two), None);
    }
}
