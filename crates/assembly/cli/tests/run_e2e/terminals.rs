//! Terminals: the one on which a run was started belongs to none of its programs. A program with
//! access to it could insert input there, which the user's shell would then execute.

use std::fs;

use crate::containers::image;
use crate::support::{Lab, Scenario, log_lines};

/// Python that names each terminal to which its process has access.
const TERMINALS_OF_A_PLANT: &str = "
import os
def terminals():
    found = [number for number in (0, 1, 2) if os.isatty(number)]
    try:
        os.close(os.open('/dev/tty', os.O_RDWR))
        found.append('/dev/tty')
    except OSError as error:
        found.append(f'/dev/tty: error {error.errno}')
    return found
with open('terminals', 'w') as file:
    print(terminals(), 'leads', os.getsid(0) == os.getpid(), file=file)
exec(open('plant.py').read())
";

/// Shell script that does so in a container, and lists the container's devices.
const TERMINALS_OF_A_CONTAINER: &str = "for number in 0 1 2; do
    [ -t $number ] && echo terminal $number
done
(: < /dev/tty) 2>/dev/null && echo terminal /dev/tty
echo devices $(ls /dev)
echo terminals $(ls /dev/pts)";

#[test]
fn a_plant_has_no_access_to_the_terminal_of_its_run() {
    let lab = Lab::new(&Scenario::lasting("1 s").plant("{}"));
    fs::write(lab.path().join("probe.py"), TERMINALS_OF_A_PLANT).expect("there is room");
    let run = "simulation.plants.world.run=[\"python3\", \"probe.py\"]";
    lab.run_on_a_terminal(&[run]).succeeded();
    lab.assert_nothing_left();
    let found = fs::read_to_string(lab.path().join("terminals")).expect("the plant wrote it");
    assert_eq!(found, "['/dev/tty: error 6'] leads True\n");
}

#[test]
fn a_container_has_no_access_to_the_terminal_of_its_run() {
    let program = Scenario::lasting("10 s");
    let program = program.program(
        'a',
        "look",
        &["sh", "-c", TERMINALS_OF_A_CONTAINER],
        "essential = false",
    );
    let lab = Lab::new(&program);
    image(&lab);
    let sets = ["system.hosts.a.container.root=image", "time.mode=skip"];
    lab.run_on_a_terminal(&sets).succeeded();
    lab.assert_nothing_left();
    expect_no_terminal(&lab, "look");
}

#[test]
fn a_bundle_has_no_access_to_the_terminal_of_its_run() {
    let lab = Lab::new(&Scenario::lasting("10 s"));
    let (image, bundle) = (image(&lab), lab.path().join("bundle"));
    fs::create_dir_all(&bundle).expect("there is room");
    fs::rename(image, bundle.join("rootfs")).expect("it is ours");
    // A bundle that requests a terminal does not get the user's.
    let config = format!(
        r#"{{"root": {{"path": "rootfs"}},
             "process": {{"terminal": true, "cwd": "/", "env": ["PATH=/bin"],
                          "args": ["sh", "-c", {TERMINALS_OF_A_CONTAINER:?}]}}}}"#
    );
    fs::write(bundle.join("config.json"), config).expect("there is room");
    let sets = [
        "system.hosts.a.container.bundle=bundle",
        "system.hosts.a.container.essential=false",
        "time.mode=skip",
    ];
    lab.run_on_a_terminal(&sets).succeeded();
    lab.assert_nothing_left();
    expect_no_terminal(&lab, "container-a");
}

/// Checks the output of [`TERMINALS_OF_A_CONTAINER`].
fn expect_no_terminal(lab: &Lab, program: &str) {
    let log = log_lines(&lab.run_path(), program);
    let said: Vec<String> = log.into_iter().map(|(_, line)| line).collect();
    let devices = "devices fd full null ptmx pts random shm stderr stdin stdout tty urandom zero";
    // The pseudo-terminals are the container's own, of which there are none.
    assert_eq!(said, [devices, "terminals ptmx"]);
}
