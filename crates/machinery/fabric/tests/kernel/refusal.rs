//! Tests of errors and their messages.

use std::process::Command;

use timeloom_fabric::{Fabric, FabricError, Namespace, PacketCapture, SpecError, probe};

use crate::world::{line, link};

#[test]
fn a_contradiction_touches_nothing() {
    let mut spec = line(2, None);
    spec.links.push(link("s1", "h9", None));
    let error = Fabric::build(&spec).expect_err("there is no h9");
    assert!(
        matches!(error, FabricError::Spec(SpecError::UnknownNode { .. })),
        "{error}"
    );
    let mut spec = line(2, None);
    spec.switches.push("h1".into());
    let error = Fabric::build(&spec).expect_err("two h1");
    assert_eq!(error.to_string(), "two nodes are called `h1`");
}

#[test]
fn capture_on_nothing_names_it() {
    let namespace = Namespace::create("empty").expect("root");
    let error = PacketCapture::start(&namespace, "eth7").expect_err("there is no eth7");
    assert!(
        error
            .to_string()
            .contains("record eth7 in `empty`: No such device"),
        "{error}"
    );
}

#[test]
fn probe_finds_everything_here() {
    let features = probe();
    for feature in &features {
        println!(
            "{:20} {:5} {}",
            feature.name, feature.available, feature.detail
        );
    }
    assert_eq!(features.len(), 8);
    assert!(
        features.iter().all(|feature| feature.available),
        "{features:#?}"
    );
}

/// Without root, the same binary must report the missing capability. The test starts itself again
/// as an unprivileged user.
#[test]
fn without_capabilities_the_error_names_them() {
    if std::env::var_os(AS_NOBODY).is_some() {
        let error = Fabric::build(&line(1, None)).expect_err("it needs root");
        println!("{error}");
        println!("{:?}", probe());
        return;
    }
    // The binary is copied to a directory that an unprivileged user can read.
    let copy = std::env::temp_dir().join(format!("timeloom-fabric-test-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args([
            "--exact",
            "--nocapture",
            "refusal::without_capabilities_the_error_names_them",
        ])
        .current_dir("/")
        .env(AS_NOBODY, "1")
        .output()
        .expect("setpriv (util-linux) is installed");
    std::fs::remove_file(&copy).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("cannot create the network namespace of `fabric`"),
        "{said}"
    );
    assert!(
        said.contains("this needs CAP_SYS_ADMIN and CAP_NET_ADMIN (run as root)"),
        "{said}"
    );
    assert!(
        said.contains("not tried: it needs network namespaces"),
        "{said}"
    );
}

const AS_NOBODY: &str = "TIMELOOM_FABRIC_TEST_AS_NOBODY";
