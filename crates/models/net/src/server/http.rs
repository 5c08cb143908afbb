//! Subset of HTTP/1.1 (RFC 9112), sufficient for curl, browsers and load generators.

use smoltcp::socket::tcp::Socket;

use super::ServiceStats;
use super::pump::{drop_all, fill};

/// State of an HTTP connection.
#[derive(Debug)]
pub(super) struct Http {
    /// Length in bytes of a page whose path contains no number.
    bytes: u64,
    state: State,
    /// Bytes of a request whose head is incomplete, at most [`LONGEST`].
    request: Vec<u8>,
    /// Heads of responses and short texts to send before the present page.
    output: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a request, or for the rest of its head.
    AwaitingRequest,
    /// Receives an upload: `left` bytes are missing, `came` bytes have arrived.
    ReceivingBody { left: u64, came: u64, keep: bool },
    /// Sends the remaining `left` bytes of a page.
    SendingBody { left: u64, keep: bool },
    /// Closes the connection.
    Closing,
}

/// Head of a request, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    method: Method,
    /// Number in the path, as in `/100000`; `None` for other paths.
    bytes: Option<u64>,
    /// Length of the request's body in bytes.
    length: u64,
    /// True if the connection stays open after the response.
    keep: bool,
    /// True if the client waits for "100 Continue" before it sends the body.
    waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Upload,
}

/// Status code and reason phrase of a response.
type Status = (u16, &'static str);

/// Maximum length of a request's head in bytes.
const LONGEST: usize = 8_192;
const MOST_HEADERS: usize = 64;

impl Http {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            state: State::AwaitingRequest,
            request: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Returns true if there are still bytes to send.
    pub(super) fn is_speaking(&self) -> bool {
        !self.output.is_empty() || matches!(self.state, State::SendingBody { .. })
    }

    pub(super) fn go_on(&mut self, socket: &mut Socket<'_>, stats: &mut ServiceStats) {
        loop {
            let sent = socket.send_slice(&self.output).unwrap_or(0);
            stats.sent += sent as u64;
            self.output.drain(..sent);
            if !self.output.is_empty() {
                return;
            }
            match self.state {
                State::AwaitingRequest => {
                    let Some(request) = self.read(socket, stats) else {
                        return;
                    };
                    self.begin(request);
                }
                State::ReceivingBody { left, came, keep } => {
                    let more = take(socket, left, stats);
                    let (left, came) = (left - more, came + more);
                    if left > 0 {
                        self.state = State::ReceivingBody { left, came, keep };
                        return;
                    }
                    let text = format!("{came} bytes came\n");
                    self.say((200, "OK"), text.len() as u64, keep);
                    self.output.extend(text.as_bytes());
                    self.state = State::SendingBody { left: 0, keep };
                }
                State::SendingBody { left, keep } => {
                    let mut left = Some(left);
                    fill(socket, &mut left, stats);
                    if let Some(left @ 1..) = left {
                        self.state = State::SendingBody { left, keep };
                        return;
                    }
                    stats.requests += 1;
                    self.state = if keep {
                        State::AwaitingRequest
                    } else {
                        State::Closing
                    };
                }
                State::Closing => {
                    drop_all(socket, stats);
                    return socket.close();
                }
            }
        }
    }

    /// Reads from the socket until the head of a request is complete.
    fn read(
        &mut self,
        socket: &mut Socket<'_>,
        stats: &mut ServiceStats,
    ) -> Option<Result<Request, Status>> {
        while socket.can_recv() {
            let known = self.request.len();
            let head = &mut self.request;
            let parsed = socket.recv(|bytes| {
                let length = bytes.len().min(LONGEST - known);
                head.extend(&bytes[..length]);
                let parsed = parse(head);
                // Bytes after the head are left for the next state.
                let used = match &parsed {
                    Ok(Some((end, _))) => end - known,
                    _ => length,
                };
                (used, (parsed, used))
            });
            let Ok((parsed, used)) = parsed else { break };
            stats.received += used as u64;
            match parsed {
                Ok(None) if self.request.len() < LONGEST => {}
                Ok(None) => return Some(Err((431, "Request Header Fields Too Large"))),
                Err(status) => return Some(Err(status)),
                Ok(Some((_, request))) => return Some(Ok(request)),
            }
        }
        None
    }

    fn begin(&mut self, request: Result<Request, Status>) {
        self.request.clear();
        let request = match request {
            Ok(request) => request,
            Err(status) => {
                self.say(status, 0, false);
                let (left, keep) = (0, false);
                self.state = State::SendingBody { left, keep };
                return;
            }
        };
        let keep = request.keep;
        let page = request.bytes.unwrap_or(self.bytes);
        self.state = match request.method {
            Method::Upload => {
                if request.waits {
                    self.output.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                let (left, came) = (request.length, 0);
                State::ReceivingBody { left, came, keep }
            }
            method => {
                self.say((200, "OK"), page, keep);
                let left = if method == Method::Get { page } else { 0 };
                State::SendingBody { left, keep }
            }
        };
    }

    fn say(&mut self, (code, reason): Status, length: u64, keep: bool) {
        let connection = if keep { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n"
        );
        self.output.extend(head.as_bytes());
    }
}

/// Reads at most `left` bytes; returns the number of bytes read.
fn take(socket: &mut Socket<'_>, left: u64, stats: &mut ServiceStats) -> u64 {
    let mut all = 0;
    while all < left && socket.can_recv() {
        let taken = socket.recv(|bytes| {
            let length = bytes
                .len()
                .min(usize::try_from(left - all).unwrap_or(usize::MAX));
            (length, length as u64)
        });
        let Ok(length) = taken else { break };
        all += length;
    }
    stats.received += all;
    all
}

/// Parses the head of a request; also returns its length. Returns `None` if the head is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Request)>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let end = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err((400, "Bad Request")),
    };
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST" | "PUT") => Method::Upload,
        _ => return Err((501, "Not Implemented")),
    };
    let value = |name: &str| {
        let found = parsed
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found.map(|header| {
            String::from_utf8_lossy(header.value)
                .trim()
                .to_ascii_lowercase()
        })
    };
    if value("transfer-encoding").is_some() {
        return Err((411, "Length Required"));
    }
    let length = match value("content-length") {
        None => 0,
        Some(text) => text.parse().map_err(|_| (400, "Bad Request"))?,
    };
    if length > 0 && method != Method::Upload {
        return Err((400, "Bad Request"));
    }
    let connection = value("connection").unwrap_or_default();
    let keep = match parsed.version {
        Some(0) => connection == "keep-alive",
        _ => connection != "close",
    };
    let path = parsed.path.unwrap_or_default();
    let request = Request {
        method,
        bytes: path
            .strip_prefix('/')
            .and_then(|number| number.parse().ok()),
        length,
        keep,
        waits: value("expect").is_some_and(|text| text == "100-continue"),
    };
    Ok(Some((end, request)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(usize, Request)>, Status> {
        parse(text.as_bytes())
    }

    #[test]
    fn requests_are_parsed_and_unknown_ones_are_refused() {
        let get = read("GET /1500 HTTP/1.1\r\nHost: web\r\n\r\nrest");
        let (end, request) = get.unwrap().unwrap();
        assert_eq!(end, "GET /1500 HTTP/1.1\r\nHost: web\r\n\r\n".len());
        assert_eq!((request.method, request.bytes), (Method::Get, Some(1500)));
        assert!(request.keep && !request.waits);
        let old = read("HEAD /x HTTP/1.0\r\n\r\n").unwrap().unwrap().1;
        assert_eq!(
            (old.method, old.bytes, old.keep),
            (Method::Head, None, false)
        );
        let put = read("PUT / HTTP/1.1\r\ncontent-LENGTH: 9\r\nExpect: 100-Continue\r\n\r\n");
        let put = put.unwrap().unwrap().1;
        assert_eq!(
            (put.method, put.length, put.waits),
            (Method::Upload, 9, true)
        );

        assert_eq!(read("GET / HTTP/1.1\r\nHost:"), Ok(None));
        for (text, code) in [
            ("\u{7}\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 400),
            ("BREW / HTTP/1.1\r\n\r\n", 501),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        ] {
            assert_eq!(read(text).unwrap_err().0, code, "{text:?}");
        }
    }
}
