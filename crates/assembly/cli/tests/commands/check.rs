//! Tests of `timeloom check` and `timeloom schema`.

use crate::support::{Scratch, timeloom};

const CASE: &str = "examples/ieee13/ieee13.toml";

#[test]
fn the_examples_are_right() {
    for (file, summary) in [
        (
            CASE,
            "ieee13: 5 programs on 3 hosts, 2 devices, 4 switches, plant grid, attack dos, 90 s of virtual time\n",
        ),
        (
            "examples/ieee13/spoof.toml",
            "ieee13-spoof: 5 programs on 3 hosts, 4 devices, 4 switches, plants grid and seen, attack spoof, 90 s of virtual time\n",
        ),
        (
            "examples/ieee13/replay.toml",
            "ieee13-replay: 7 programs on 3 hosts, 4 devices, 4 switches, plants grid and seen, attacks eavesdrop and replay, 90 s of virtual time\n",
        ),
        (
            "examples/ieee13/inject.toml",
            "ieee13-inject: 6 programs on 3 hosts, 4 devices, 4 switches, plants grid and seen, attack inject, 90 s of virtual time\n",
        ),
        (
            "examples/ieee13/guarded.toml",
            "ieee13-guarded: 8 programs on 3 hosts, 4 devices, 4 switches, plants grid and seen, attacks eavesdrop and replay, 90 s of virtual time\n",
        ),
        (
            "examples/hello/hello.toml",
            "hello: 2 programs on 2 hosts, 1 switch, 5 s of virtual time\n",
        ),
        (
            "examples/hello/plant.toml",
            "tank: 1 program on 1 host, 1 device, 1 switch, plant tank, 30 s of virtual time\n",
        ),
    ] {
        let ended = timeloom(&["check", "--file-only", file]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(ended.out, summary);
        assert_eq!(ended.err, "");
    }
}

#[test]
fn sets_are_applied() {
    let ended = timeloom(&[
        "check",
        CASE,
        "--file-only",
        "--json",
        "--set",
        "attack.dos.enabled=false",
        "--set",
        "time.duration=30 s",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let [object] = &ended.objects()[..] else {
        panic!("{}", ended.out);
    };
    assert_eq!(object["ok"], true);
    assert_eq!(object["duration_ns"], 30_000_000_000_i64);
    assert_eq!(
        object["programs"],
        serde_json::json!(["controller", "sensor"])
    );
    assert_eq!(object["attacks"], serde_json::json!([]));
    assert_eq!(
        object["checks"], 2,
        "the sag is only expected of the attack"
    );
}

#[test]
fn mistakes_are_shown_where_they_stand_with_their_fix() {
    let scratch = Scratch::new("check");
    let file = scratch.text("bad.toml");
    let text = "schema = \"timeloom/1\"\nname = \"bad\"\ntime = { duraton = \"1 s\" }\nseed = -1\n";
    std::fs::write(&file, text).unwrap();

    let ended = timeloom(&["check", &file]);
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.out, "", "diagnostics go to stderr");
    for part in [
        "bad.toml:3:10",
        "did you mean `duration`?",
        "`seed` must lie in",
        "2 mistakes",
    ] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert!(!ended.err.contains('\u{1b}'), "no colours in a pipe");

    let ended = timeloom(&["check", &file, "--json"]);
    assert_eq!(ended.code, Some(2));
    let mistakes = ended.objects();
    assert_eq!(mistakes.len(), 2);
    assert_eq!(mistakes[0]["line"], 3);
    assert_eq!(mistakes[0]["fix"], "did you mean `duration`?");
    assert_eq!(mistakes[1]["ok"], false);

    let ended = timeloom(&["check", CASE, "--file-only", "--set", "sed=1"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("did you mean `seed`?"), "{}", ended.err);
}

#[test]
fn the_machine_is_looked_at_unless_told() {
    let scratch = Scratch::new("check-machine");
    let file = scratch.text("absent.toml");
    let text = "schema = \"timeloom/1\"\nname = \"absent\"\ntime.duration = \"1 s\"\n[system.hosts.a]\naddress = \"10.0.0.1/24\"\nprograms = [{ name = \"p\", run = [\"no-such-program\"] }]\n";
    std::fs::write(&file, text).unwrap();
    let ended = timeloom(&["check", &file]);
    assert_eq!(ended.code, Some(2));
    let expected = "`no-such-program` is not found on the PATH";
    assert!(ended.err.contains(expected), "{}", ended.err);
    assert_eq!(timeloom(&["check", &file, "--file-only"]).code, Some(0));

    let ended = timeloom(&["check", &scratch.text("nowhere.toml")]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("cannot be read"), "{}", ended.err);
}

#[test]
fn the_schema_is_json() {
    let ended = timeloom(&["schema"]);
    assert_eq!(ended.code, Some(0));
    let schema: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(schema["title"], "Timeloom scenario");
    // A file that extends another may have any part of the schema.
    let whole = &schema["else"];
    assert!(whole["properties"]["panel"].is_object());
}

#[test]
fn every_command_explains_itself() {
    for (command, part) in [
        ("check", "--file-only"),
        ("schema", "editor"),
        ("report", "--proof-on <LABEL=DIR>"),
        ("doctor", "Exit code"),
    ] {
        let ended = timeloom(&[command, "--help"]);
        assert_eq!(ended.code, Some(0), "{command}");
        assert!(ended.out.contains(part), "{command}: {}", ended.out);
        let ended = timeloom(&[command, "--no-such-option"]);
        assert_eq!(ended.code, Some(2), "{command}");
    }
}
