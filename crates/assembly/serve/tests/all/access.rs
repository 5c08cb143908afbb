//! Token, cookie, Host and Origin.

use timeloom_serve::{Options, Server};

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
    for path in [
        "/api/runs",
        "/api/rights",
        "/report?run=tank",
        "/api/watch?run=tank",
    ] {
        let answer = lab.ask(&format!("GET {path}"), &[lab.host()], "");
        assert_eq!(answer.code, 401, "{path}: {answer:?}");
        let wrong = format!(
            "cookie: timeloom-{}={}",
            lab.address.port(),
            lab.token(true)
        );
        let answer = lab.ask(&format!("GET {path}"), &[lab.host(), wrong], "");
        assert_eq!(answer.code, 401, "a token is no cookie: {answer:?}");
    }
    let runs = lab.get("/api/runs").json();
    assert_eq!(runs["runs"][0]["run"], "tank");
    assert_eq!(runs["runs"][0]["state"], "done");
    assert_eq!(lab.get("/api/rights").json()["may_act"], false);
    assert_eq!(lab.get("/nothing").code, 404);
}

#[test]
fn a_token_becomes_a_strict_cookie() {
    let lab = Lab::new();
    let enter = |token: &str| {
        let body = format!(r#"{{"token":"{token}"}}"#);
        lab.ask("POST /api/enter", &[lab.host(), lab.origin()], &body)
    };
    let answer = enter(lab.token(true));
    assert_eq!(answer.code, 204);
    assert!(
        answer.head.contains("httponly; samesite=strict"),
        "{}",
        answer.head
    );
    for wrong in ["", "0", &lab.token(true)[1..]] {
        let answer = enter(wrong);
        assert_eq!(answer.code, 403);
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
    }
    let too_long = enter(&"a".repeat(5000));
    assert_eq!(too_long.code, 413, "{too_long:?}");
}

#[test]
fn a_name_of_another_site_reads_nothing() {
    let lab = Lab::new();
    let cookie = lab.cookie(true);
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "10.0.0.1:8420",
    ] {
        let line = format!("host: {host}");
        for path in ["/", "/api/runs"] {
            let answer = lab.ask(&format!("GET {path}"), &[line.clone(), cookie.clone()], "");
            assert_eq!(answer.code, 421, "{host}: {answer:?}");
        }
    }
    let tunnel = lab.ask(
        "GET /api/runs",
        &["host: localhost:9000".into(), cookie],
        "",
    );
    assert_eq!(tunnel.code, 200, "{tunnel:?}");
}

#[test]
fn a_page_of_another_origin_asks_nothing() {
    let lab = Lab::new();
    lab.finished("tank");
    let cookie = lab.cookie(true);
    let other_port = "http://127.0.0.1:1".to_owned();
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        other_port,
    ] {
        let lines = [lab.host(), cookie.clone(), format!("origin: {origin}")];
        for first in ["GET /api/runs", "POST /api/act?run=tank"] {
            let answer = lab.ask(first, &lines, r#"{"op":"pause"}"#);
            assert_eq!(answer.code, 403, "{origin}: {answer:?}");
        }
        let refused = lab.watch("tank", Some(&cookie), &origin);
        assert!(refused.expect_err("it is refused").contains("403"));
    }
    let without = [lab.host(), cookie.clone()];
    let answer = lab.ask("POST /api/act?run=tank", &without, r#"{"op":"pause"}"#);
    assert_eq!(answer.code, 403, "{answer:?}");
    let own = format!("http://{}", lab.address);
    assert!(
        lab.watch("tank", None, &own)
            .expect_err("no cookie")
            .contains("401")
    );
    assert!(lab.watch("tank", Some(&cookie), &own).is_ok());
}

#[test]
fn a_page_that_only_shows_acts_on_nothing() {
    let lab = Lab::new();
    lab.finished("tank");
    let act = |may_act, body| {
        let lines = [lab.host(), lab.origin(), lab.cookie(may_act)];
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
        let options = Options {
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
