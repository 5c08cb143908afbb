//! Token, ticket, Host and Origin.

use timeloom_serve::{Server, ServerOptions};

use crate::support::Lab;

#[test]
fn pages_are_open_and_data_are_not() {
    let lab = Lab::new();
    lab.finished("tank");
    for path in ["/", "/run?run=tank", "/assets/run.js", "/assets/style.css"] {
        let answer = lab.ask(&format!("GET {path}"), &[lab.host()], "");
        assert_eq!(answer.code, 200, "{path}: {answer:?}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(
                answer.head.contains(header),
                "{path} lacks {header}: {}",
                answer.head
            );
        }
        assert!(!answer.body.contains("tank"), "{path} has data");
    }
    for first in [
        "GET /api/runs",
        "GET /api/rights",
        "POST /api/ticket?run=tank",
        "POST /api/act?run=tank",
    ] {
        let answer = lab.ask(first, &[lab.host(), lab.origin()], "{}");
        assert_eq!(answer.code, 401, "{first}: {answer:?}");
        for wrong in [
            "authorization: Bearer 0".to_owned(),
            format!("authorization: Bearer {}", &lab.token(true)[1..]),
            format!("authorization: {}", lab.token(true)),
            format!("cookie: timeloom={}", lab.token(true)),
        ] {
            let answer = lab.ask(first, &[lab.host(), lab.origin(), wrong], "{}");
            assert_eq!(answer.code, 401, "{first}: {answer:?}");
        }
    }
    assert_eq!(
        lab.ask("GET /api/watch?run=tank", &[lab.host()], "").code,
        400
    );
    let runs = lab.get("/api/runs").json();
    assert_eq!(runs["runs"][0]["run"], "tank");
    assert_eq!(runs["runs"][0]["state"], "done");
    assert_eq!(lab.get("/api/rights").json()["may_act"], false);
    assert_eq!(lab.get("/nothing").code, 404);
}

/// A browser would send a cookie to each port of this machine, also to that of another user.
#[test]
fn no_answer_sets_a_cookie() {
    let lab = Lab::new();
    lab.finished("tank");
    let paths = [
        "/",
        "/run?run=tank",
        "/report?run=tank",
        "/api/rights",
        "/api/runs",
    ];
    for answer in paths.map(|path| lab.get(path)) {
        assert_eq!(answer.code, 200, "{answer:?}");
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
    }
    let lines = [lab.host(), lab.origin(), lab.access(true)];
    let answer = lab.ask("POST /api/act?run=tank", &lines, &"a".repeat(5000));
    assert_eq!(answer.code, 413, "{answer:?}");
}

/// A report is opened by its address alone, once; afterwards the address leads to the page that
/// gets another ticket.
#[test]
fn a_report_is_opened_by_a_ticket() {
    let lab = Lab::new();
    assert_eq!(lab.ticket("tank").code, 404);
    let run = lab.finished("tank");
    lab.finished("grid").write_report("another").expect("room");
    let none = lab.ticket("tank");
    assert_eq!(none.code, 404);
    assert!(none.body.contains("no report yet"), "{none:?}");
    run.write_report("<p>the level</p>").expect("room");
    let ticket = |run| {
        let answer = lab.ticket(run).json();
        answer["ticket"].as_str().expect("a ticket").to_owned()
    };
    let is_report = |answer: &crate::support::Answer| answer.body.contains("the level");
    let first = ticket("tank");
    for (run, wrong) in [("tank", ""), ("tank", lab.token(true)), ("grid", &first)] {
        let answer = lab.report(run, wrong);
        assert!(
            answer.body.contains("report.js") && !is_report(&answer),
            "{answer:?}"
        );
        assert!(answer.head.contains("script-src 'self'"), "{answer:?}");
    }
    let answer = lab.report("tank", &first);
    assert!(answer.code == 200 && is_report(&answer), "{answer:?}");
    assert!(answer.head.contains("content-length: 16"), "{answer:?}");
    assert!(!is_report(&lab.report("tank", &first)), "it was used");
    // Many tickets that are not used keep no report from being sent.
    (0..5).for_each(|_| drop(ticket("tank")));
    assert!(is_report(&lab.report("tank", &ticket("tank"))));
}

/// Reports are in memory until they are sent; clients that take none of them keep others out for a
/// while only, and take no memory beyond two.
#[test]
fn clients_that_do_not_read_hold_two_reports() {
    use std::io::Write as _;
    let lab = Lab::new();
    let run = lab.finished("tank");
    // More than the buffers of a connection hold.
    run.write_report(&"x".repeat(30 << 20)).expect("room");
    let ticket = || {
        let answer = lab.ticket("tank").json();
        answer["ticket"].as_str().expect("a ticket").to_owned()
    };
    let open = || {
        let mut stream = std::net::TcpStream::connect(lab.address).expect("it listens");
        let (host, ticket) = (lab.host(), ticket());
        write!(
            stream,
            "GET /report?run=tank&ticket={ticket} HTTP/1.1\r\n{host}\r\n\r\n"
        )
        .expect("it is taken");
        // Its first bytes: it is being sent.
        let mut first = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut first).expect("an answer");
        (stream, String::from_utf8_lossy(&first).into_owned())
    };
    let (one, two) = (open(), open());
    assert_eq!((&*one.1, &*two.1), ("HTTP/1.1 200", "HTTP/1.1 200"));
    assert_eq!(open().1, "HTTP/1.1 503");
    drop(one);
    assert_eq!(open().1, "HTTP/1.1 200", "a client that leaves makes room");
}

/// Another user of the machine opens connections without end, and keeps them open.
#[test]
fn connections_without_a_token_keep_no_page_out() {
    let lab = Lab::new();
    lab.finished("tank");
    let mut page = lab.page("tank");
    let origin = format!("http://{}", lab.address);
    let mut silent: Vec<std::net::TcpStream> = Vec::new();
    for _ in 0..300 {
        silent.push(std::net::TcpStream::connect(lab.address).expect("it listens"));
    }
    // Each is accepted before the next one, so that this answer comes after them.
    assert_eq!(lab.get("/api/runs").code, 200);
    let mut sockets: Vec<_> = (0..300).map(|_| lab.socket("tank", &origin)).collect();
    assert_eq!(lab.get("/api/runs").code, 200);
    let mut byte = [0];
    let read = std::io::Read::read(&mut silent[0], &mut byte);
    assert!(matches!(read, Ok(0) | Err(_)), "the oldest was closed");
    let oldest = sockets[0].as_mut().expect("it was accepted").read();
    assert!(oldest.is_err(), "likewise: {oldest:?}");
    page.find(|message| message["signals"].get(0).cloned());
    let mut another = lab.page("tank");
    another.find(|message| message["signals"].get(0).cloned());
}

#[test]
fn a_name_of_another_site_reads_nothing() {
    let lab = Lab::new();
    let access = lab.access(true);
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "10.0.0.1:8420",
    ] {
        let line = format!("host: {host}");
        for path in ["/", "/api/runs"] {
            let answer = lab.ask(&format!("GET {path}"), &[line.clone(), access.clone()], "");
            assert_eq!(answer.code, 421, "{host}: {answer:?}");
        }
    }
    let tunnel = lab.ask(
        "GET /api/runs",
        &["host: localhost:9000".into(), access],
        "",
    );
    assert_eq!(tunnel.code, 200, "{tunnel:?}");
}

#[test]
fn a_page_of_another_origin_asks_nothing() {
    let lab = Lab::new();
    lab.finished("tank");
    let access = lab.access(true);
    let other_port = "http://127.0.0.1:1".to_owned();
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        other_port,
    ] {
        let lines = [lab.host(), access.clone(), format!("origin: {origin}")];
        for first in ["GET /api/runs", "POST /api/act?run=tank"] {
            let answer = lab.ask(first, &lines, r#"{"op":"pause"}"#);
            assert_eq!(answer.code, 403, "{origin}: {answer:?}");
        }
        let refused = lab.watch("tank", Some(lab.token(true)), &origin);
        assert!(refused.expect_err("it is refused").contains("403"));
    }
    let without = [lab.host(), access.clone()];
    let answer = lab.ask("POST /api/act?run=tank", &without, r#"{"op":"pause"}"#);
    assert_eq!(answer.code, 403, "{answer:?}");
    let own = format!("http://{}", lab.address);
    for wrong in ["", "0", &lab.token(true)[1..]] {
        let refused = lab.watch("tank", Some(wrong), &own);
        let reason = refused.expect_err("no token");
        assert!(
            reason.starts_with("4401: this token is of another server"),
            "{reason}"
        );
    }
    let none = lab.watch("none", Some(lab.token(false)), &own);
    assert!(none.expect_err("no run").starts_with("4503: "));
    assert!(lab.watch("tank", Some(lab.token(false)), &own).is_ok());
}

#[test]
fn a_page_that_only_shows_acts_on_nothing() {
    let lab = Lab::new();
    lab.finished("tank");
    let act = |may_act, body| {
        let lines = [lab.host(), lab.origin(), lab.access(may_act)];
        lab.ask("POST /api/act?run=tank", &lines, body)
    };
    assert_eq!(act(false, r#"{"op":"pause"}"#).code, 403);
    let ended = act(true, r#"{"op":"pause"}"#);
    assert_eq!(ended.code, 409, "{ended:?}");
    assert!(ended.body.contains("is not in progress"), "{ended:?}");
    let wrong = act(true, r#"{"op":"step","span":"soon"}"#);
    assert_eq!(wrong.code, 422, "{wrong:?}");
    assert!(wrong.body.contains("not a length of time"), "{wrong:?}");
    assert_eq!(act(true, r#"{"op":"enter"}"#).code, 422);
}

#[test]
fn other_addresses_are_refused_with_the_reason() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let bind = |listen: &str, directory: &str| {
        let options = ServerOptions {
            directory: directory.into(),
            listen: listen.parse().expect("an address"),
            read_only: true,
        };
        runtime
            .as_ref()
            .expect("a runtime")
            .block_on(Server::bind(&options))
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let here = place.path().to_str().expect("text");
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = bind(listen, here).expect_err("it is refused").to_string();
        assert!(
            error.contains("no TLS") && error.contains("ssh -L"),
            "{error}"
        );
    }
    let error = bind("127.0.0.1:0", "/nonexistent/runs").expect_err("there is none");
    assert!(error.to_string().contains("/nonexistent/runs"), "{error}");
    let server = bind("127.0.0.1:0", here).expect("a free port");
    assert_eq!(server.url(), None);
    let taken = bind(&server.address().to_string(), here).expect_err("it is taken");
    assert!(taken.to_string().contains("--listen"), "{taken}");
}
