//! Directories of a stranger: names that lead out of them, links, files that are none, and texts
//! that would be markup.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Lab, event, manifest, sample};

const SECRET: &str = "a secret outside of the directory";

#[test]
fn no_name_leads_out_of_the_directory() {
    let lab = Lab::new();
    lab.finished("tank");
    let outside = lab.place.path().join("outside");
    let run = timeloom_results::RunDirectory::create(&outside).expect("it can be made");
    run.write_manifest(&manifest(SECRET))
        .expect("it can be written");
    run.write_report(SECRET).expect("it can be written");
    symlink(&outside, lab.runs().join("link")).expect("it can be made");
    symlink(lab.place.path(), lab.runs().join("above")).expect("it can be made");
    let names = [
        "../outside",
        "..%2foutside",
        "%2e%2e/outside",
        "tank/../../outside",
        "link",
        "above/outside",
        &outside.to_str().expect("text").replace('/', "%2f"),
        "tank%00",
        ".",
        "",
    ];
    for name in names {
        let answer = lab.ticket(name);
        assert!([400, 404].contains(&answer.code), "{name}: {answer:?}");
        assert!(!answer.body.contains(SECRET), "{name}: {answer:?}");
        let origin = format!("http://{}", lab.address);
        let refused = lab.watch(name, Some(lab.token(true)), &origin);
        assert!(refused.is_err(), "{name}");
    }
    let runs = lab.get("/api/runs");
    assert!(!runs.body.contains(SECRET), "{runs:?}");
    assert_eq!(runs.json()["runs"].as_array().map(Vec::len), Some(1));
    for path in [
        "/assets/../Cargo.toml",
        "/assets/..%2f..%2fCargo.toml",
        "/../etc/passwd",
    ] {
        assert_eq!(lab.get(path).code, 404, "{path}");
    }
}

/// Each file of a run may be a link, a FIFO or a folder: it is refused at once, and the others are
/// shown.
#[test]
fn links_and_fifos_are_not_opened() {
    let lab = Lab::new();
    let secret = lab.place.path().join("secret");
    fs::write(&secret, format!("{{\"timeloom_version\": \"{SECRET}\"}}")).expect("written");
    for name in ["manifest.json", "checks.json", "report.html"] {
        let replaced = lab.finished(&format!("link-{name}"));
        let file = lab.runs().join(format!("link-{name}/{name}"));
        let _ = fs::remove_file(&file);
        symlink(&secret, &file).expect("it can be made");
        drop(replaced);
        let run = lab.runs().join(format!("fifo-{name}"));
        drop(lab.finished(&format!("fifo-{name}")));
        let _ = fs::remove_file(run.join(name));
        let made = std::process::Command::new("mkfifo")
            .arg(run.join(name))
            .status();
        assert!(made.expect("mkfifo of coreutils").success());
    }
    let folder = lab.runs().join("link-logs");
    drop(lab.finished("link-logs"));
    symlink(&secret, folder.join("logs/plc.log")).expect("it can be made");
    let listed = lab.get("/api/runs");
    assert!(!listed.body.contains(SECRET), "{listed:?}");
    let runs = listed.json()["runs"].as_array().cloned().expect("a list");
    assert_eq!(runs.len(), 7, "{runs:?}");
    let unreadable = runs.iter().filter(|run| run["state"] == "unreadable");
    let reasons: Vec<&str> = unreadable.filter_map(|run| run["error"].as_str()).collect();
    assert_eq!(reasons.len(), 2, "the manifests: {runs:?}");
    for name in ["link-report.html", "fifo-report.html"] {
        let ticket = lab.ticket(name).json();
        let ticket = ticket["ticket"].as_str().expect("there is an entry");
        let answer = lab.report(name, ticket);
        assert_eq!(answer.code, 404, "{answer:?}");
        assert!(!answer.body.contains(SECRET), "{answer:?}");
    }
    let mut page = lab.page("link-checks.json");
    let remark = page.find(|message| message["run"]["remarks"][0].as_str().map(str::to_owned));
    assert!(remark.contains("link"), "{remark}");
    let mut page = lab.page("link-logs");
    page.say(r#"{"logs":["plc","../../secret","nothing"]}"#);
    let level = page.find(|message| message["signals"][0]["summary"]["last"].as_f64());
    assert_eq!(level, 2.5);
}

#[test]
fn texts_of_a_run_stay_texts_and_its_report_runs_no_script() {
    let lab = Lab::new();
    let markup = "<img src=x onerror=alert(1)></script>";
    let (run, recorder) = lab.run("tank");
    recorder
        .event(&event(1, markup, markup))
        .expect("there is room");
    recorder
        .signal(&sample(markup, 1, 1e300))
        .expect("there is room");
    run.write_report("<script>alert(1)</script>")
        .expect("it can be written");
    let ticket = lab.ticket("tank").json();
    let report = lab.report("tank", ticket["ticket"].as_str().expect("a ticket"));
    assert_eq!(report.code, 200);
    assert!(
        report
            .head
            .contains("content-security-policy: sandbox; default-src 'none'")
    );
    assert_eq!(report.head.matches("content-security-policy").count(), 1);
    let mut page = lab.page("tank");
    let kind = page.find(|message| {
        message["events"]["added"][0]["kind"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(kind, markup, "the page makes it a text node");
    for answer in [lab.get("/api/runs"), lab.ticket("none")] {
        assert!(
            answer.head.contains("content-type: application/json"),
            "{answer:?}"
        );
    }
}
