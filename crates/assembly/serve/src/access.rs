//! Access to the server: a token in the printed address becomes a cookie, and only pages of this
//! server may use the cookie.
//!
//! Three attackers: another user of this machine, who can connect but knows no token; a page of
//! another site in the same browser, whose requests carry another origin (and no cookie, which is
//! SameSite=Strict); and a name of another site that resolves to this machine (DNS rebinding), whose
//! requests carry that name as their host.

use std::io;
use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq as _;

use crate::web;

/// Rights of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Shows runs.
    Read,
    /// Shows runs, and acts on those that go on.
    Act,
}

/// Secrets of a server.
pub(crate) struct Access {
    /// Port, which is part of the cookie's name: cookies are shared by all ports of a host.
    port: u16,
    read: Secrets,
    /// None if no page may act.
    act: Option<Secrets>,
}

/// Secrets that give the same rights. The cookie differs from the token, so that a token that was
/// seen in an address says nothing about a cookie.
struct Secrets {
    token: String,
    cookie: String,
}

impl Access {
    pub(crate) fn new(port: u16, read_only: bool) -> io::Result<Self> {
        Ok(Self {
            port,
            read: Secrets::new()?,
            act: match read_only {
                true => None,
                false => Some(Secrets::new()?),
            },
        })
    }

    pub(crate) fn acting_token(&self) -> Option<&str> {
        self.act.as_ref().map(|secrets| secrets.token.as_str())
    }

    pub(crate) fn reading_token(&self) -> &str {
        &self.read.token
    }

    /// Returns the header that sets the cookie for a token; `None` for a wrong token.
    pub(crate) fn exchange(&self, token: &str) -> Option<String> {
        let cookie = self.pick(|secrets| same(&secrets.token, token))?.0;
        let name = self.cookie_name();
        Some(format!(
            "{name}={cookie}; Path=/; HttpOnly; SameSite=Strict"
        ))
    }

    /// Returns the rights of a request by its cookie.
    fn rights(&self, headers: &HeaderMap) -> Option<Rights> {
        let name = self.cookie_name();
        let lines = headers.get_all(COOKIE).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';'));
        pairs.find_map(|pair| {
            let value = pair.trim().strip_prefix(&name)?.strip_prefix('=')?;
            Some(self.pick(|secrets| same(&secrets.cookie, value))?.1)
        })
    }

    /// Returns the cookie and the rights of the secrets for which `is_it` returns true.
    fn pick(&self, is_it: impl Fn(&Secrets) -> bool) -> Option<(&str, Rights)> {
        let act = self.act.as_ref().map(|secrets| (secrets, Rights::Act));
        let both = act.into_iter().chain([(&self.read, Rights::Read)]);
        let mut found = both.filter(|(secrets, _)| is_it(secrets));
        found
            .next()
            .map(|(secrets, rights)| (secrets.cookie.as_str(), rights))
    }

    fn cookie_name(&self) -> String {
        format!("timeloom-{}", self.port)
    }
}

impl Secrets {
    fn new() -> io::Result<Self> {
        Ok(Self {
            token: random()?,
            cookie: random()?,
        })
    }
}

/// No secret is printed.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("port", &self.port)
            .finish_non_exhaustive()
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

/// Refuses requests without a cookie, and passes the rights of the others on.
pub(crate) async fn check_cookie(
    State(state): State<web::State>,
    mut request: Request,
    next: Next,
) -> Response {
    match state.access.rights(request.headers()) {
        Some(rights) => {
            request.extensions_mut().insert(rights);
            next.run(request).await
        }
        None => refuse(
            StatusCode::UNAUTHORIZED,
            "open the address that `timeloom serve` printed; it contains the token",
        ),
    }
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

/// Returns an answer with a sentence.
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
        let access = Access::new(8787, false).expect("random numbers");
        let acting = access.acting_token().expect("pages may act").to_owned();
        let reading = access.reading_token().to_owned();
        assert_ne!(acting, reading);
        for (token, rights) in [(&acting, Rights::Act), (&reading, Rights::Read)] {
            let set = access.exchange(token).expect("it is right");
            assert!(
                set.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
                "{set}"
            );
            let pair = set.split(';').next().expect("a pair");
            assert_eq!(access.rights(&headers(&[("cookie", pair)])), Some(rights));
            assert!(!pair.contains(token.as_str()), "the token is no cookie");
            let as_cookie = format!("timeloom-8787={token}");
            assert_eq!(access.rights(&headers(&[("cookie", &as_cookie)])), None);
        }
        for wrong in ["", "0", &acting[..63], &format!("{acting}0")] {
            assert_eq!(access.exchange(wrong), None);
        }
        let only = Access::new(1, true).expect("random numbers");
        assert!(only.acting_token().is_none());
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
