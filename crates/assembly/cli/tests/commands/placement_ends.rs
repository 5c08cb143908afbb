//! Runs over agents of which not all join. Connections without the key must not lock out peers that
//! have it, and Ctrl-C must end every wait.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use timeloom_test_support::Traces;
use timeloom_test_support::{eventually, need_root, own_address, wait_for};

use crate::support::machines::Agent;
use crate::support::{Scratch, timeloom};

/// Agents on this machine, and a scenario that has a host for each of them.
struct Spread {
    tag: &'static str,
    scratch: Scratch,
    scenario: PathBuf,
    traces: Traces,
}

impl Spread {
    fn new(tag: &'static str, agents: &[SocketAddr]) -> Self {
        need_root();
        let scratch = Scratch::new(tag);
        scratch.write_key("key", &"0123456789abcdef".repeat(4));
        let links =
            (0..agents.len()).map(|index| format!("{{ between = [\"h{index}\", \"s1\"] }}"));
        let mut text = format!(
            "schema = \"timeloom/1\"\nname = \"spread\"\ntime = {{ duration = \"2 s\" }}\n\
             [system]\nswitches = [\"s1\"]\nlinks = [{}]\n\
             [placement]\nkey_file = \"{}\"\npatience = \"30 s\"\ndefault = \"a0\"\n",
            links.collect::<Vec<_>>().join(", "),
            scratch.text("key")
        );
        for (index, address) in agents.iter().enumerate() {
            text.push_str(&format!(
                "[placement.agents.a{index}]\naddress = \"{address}\"\n\
                 [system.hosts.h{index}]\naddress = \"10.0.0.{}/24\"\n\
                 programs = [{{ name = \"p{index}\", run = [\"/bin/sleep\", \"100\"] }}]\n",
                index + 1
            ));
        }
        text.push_str("[placement.nodes]\n");
        for index in 0..agents.len() {
            text.push_str(&format!("h{index} = \"a{index}\"\n"));
        }
        let scenario = scratch.path("case.toml");
        fs::write(&scenario, text).expect("a file");
        let mut traces = Traces::of(&session(tag, 0)).at(&scratch.path(""));
        (1..agents.len()).for_each(|index| traces.also_of(&session(tag, index)));
        Self {
            tag,
            scratch,
            scenario,
            traces,
        }
    }

    /// Starts an agent that waits for runs. Returns it with the path of its output.
    fn serve(&self, index: usize, at: SocketAddr) -> (Agent, PathBuf) {
        let said = self.scratch.path(&format!("{index}.err"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        command.args(["agent", "--serve", "--timeline", "machine"]);
        command.args([
            "--listen",
            &at.to_string(),
            "--key-file",
            &self.scratch.text("key"),
        ]);
        command.args(["--name", &session(self.tag, index)]);
        command.args(["--directory", &self.scratch.text(&format!("agent-{index}"))]);
        command.stderr(fs::File::create(&said).expect("a file"));
        self.traces.mark(&mut command);
        let agent = Agent(command.stdout(Stdio::null()).spawn().expect("an agent"));
        await_text(&said, "waits for runs");
        (agent, said)
    }

    fn run(&self) -> (Child, BufReader<ChildStderr>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
        let mut run = (self.traces.mark(&mut command))
            .args(["run", "--json", "--output", &self.scratch.text("results")])
            .arg(&self.scenario)
            .stdout(fs::File::create(self.scratch.path("out")).expect("a file"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("timeloom run");
        let said = BufReader::new(run.stderr.take().expect("piped"));
        (run, said)
    }
}

/// Returns the name of an agent's session.
fn session(tag: &str, index: usize) -> String {
    format!("{tag}-{index}-{}", std::process::id())
}

fn await_text(file: &PathBuf, text: &str) {
    wait_for(text, || {
        let said = fs::read_to_string(file).unwrap_or_default();
        said.contains(text).then_some(())
    });
}

/// Reads until a line contains `text`. If none does, panics with the lines that have been read.
fn await_line(said: &mut impl BufRead, text: &str) {
    let mut all = String::new();
    while said.read_line(&mut all).expect("UTF-8") > 0 {
        if all
            .lines()
            .next_back()
            .is_some_and(|line| line.contains(text))
        {
            return;
        }
    }
    panic!("`{text}` was not said: {all}");
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Time for which agents wait for each other at the start.
const ASSEMBLY: Duration = Duration::from_secs(50);

/// The test opens far more connections than the agent's quota, and sends nothing on them.
#[test]
fn silent_connections_without_the_key_keep_no_run_out() {
    let at = own_address();
    let spread = Spread::new("silent", &[at]);
    let (_agent, _) = spread.serve(0, at);
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(at).expect("it listens"))
        .collect();
    let (mut run, mut said) = spread.run();
    let mut all = String::new();
    said.read_to_string(&mut all).expect("UTF-8");
    let out = fs::read_to_string(spread.scratch.path("out")).expect("UTF-8");
    assert_eq!(run.wait().expect("it ends").code(), Some(0), "{all}{out}");
    drop(silent);
}

/// The endpoint accepts the connection but sends nothing, so the run waits for its greeting.
#[test]
fn ctrl_c_ends_the_wait_for_an_agent_that_does_not_greet() {
    let listener = TcpListener::bind(own_address()).expect("a port");
    let spread = Spread::new("mute", &[listener.local_addr().expect("its address")]);
    let (mut run, mut said) = spread.run();
    let _mute = listener.accept().expect("the run comes");
    signal(&run, "-INT");
    await_line(&mut said, "interrupted while waiting for agent a0");
    assert_eq!(run.wait().expect("it ends").code(), Some(1));
}

/// One agent is stopped just before the start, so the run must name the agent for which it waits.
/// At Ctrl-C the other agent must give up its own wait and send its results. A second Ctrl-C must
/// end all waits.
#[test]
fn ctrl_c_ends_the_wait_for_an_agent_that_does_not_begin_and_a_second_one_all() {
    let at = [own_address(), own_address()];
    let spread = Spread::new("stuck", &at);
    let (_good, _) = spread.serve(0, at[0]);
    let (stuck, stuck_said) = spread.serve(1, at[1]);
    let (mut run, mut said) = spread.run();
    await_text(&stuck_said, "runs `spread`");
    signal(&stuck.0, "-STOP");
    await_line(&mut said, "time has not begun: waiting for agent");
    let session = session(spread.tag, 0);
    let is_there = || timeloom(&["query", "--name", &session]).code == Some(0);
    assert!(is_there(), "it waits");
    let asked = Instant::now();
    signal(&run, "-INT");
    eventually("the other agent gives up", || !is_there());
    // Without Ctrl-C the wait would end one minute after its start.
    assert!(asked.elapsed() < ASSEMBLY, "it waited for the stuck one");
    await_line(&mut said, "waiting for the results of agent");
    signal(&run, "-INT");
    assert_eq!(run.wait().expect("it ends").code(), Some(1));
    signal(&stuck.0, "-CONT");
}

/// Patience of the scenarios, within which a lost agent must be noticed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Phase of a start in which an agent is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The run waits until the agent is prepared.
    Preparing,
    /// The agent has begun its share, and waits for the other agent or starts its programs.
    Beginning,
}

/// The other agent must end its share and remain ready for further runs.
#[test]
fn an_agent_that_is_killed_while_a_run_starts_ends_the_run_and_leaves_nothing() {
    for (phase, tag, said_of_it) in [
        (Phase::Preparing, "killed-early", "agent a1 ("),
        (
            Phase::Beginning,
            "killed-late",
            "agent a1: the connection to",
        ),
    ] {
        let at = [own_address(), own_address()];
        let mut spread = Spread::new(tag, &at);
        let (mut good, _) = spread.serve(0, at[0]);
        let (mut lost, lost_said) = spread.serve(1, at[1]);
        if phase == Phase::Preparing {
            signal(&lost.0, "-STOP");
        }
        let (mut run, mut said) = spread.run();
        match phase {
            Phase::Preparing => await_line(&mut said, "to be prepared"),
            Phase::Beginning => await_text(&lost_said, "runs `spread`"),
        }
        spread.traces.look();
        let killed = Instant::now();
        lost.0.kill().expect("it is ours");
        let mut all = String::new();
        said.read_to_string(&mut all).expect("UTF-8");
        let code = run.wait().expect("it ends").code();
        let out = fs::read_to_string(spread.scratch.path("out")).expect("UTF-8");
        assert_eq!(code, Some(1), "{phase:?}: {all}{out}");
        assert!(
            killed.elapsed() < PATIENCE,
            "{phase:?}: it waited: {all}{out}"
        );

        let results = spread.scratch.path("results");
        let manifest = fs::read_to_string(results.join("manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["outcome"], "failed", "{manifest}");
        let culprit = manifest["culprit"].as_str().unwrap_or_default();
        assert!(culprit.contains(said_of_it), "{culprit}");
        let names = fs::read_dir(&results).expect("a directory");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let folders: Vec<_> = names
            .filter(|it| it.to_string_lossy().contains("from-"))
            .collect();
        assert!(folders.is_empty(), "{folders:?}");

        assert!(
            matches!(good.0.try_wait(), Ok(None)),
            "it is ready for further runs"
        );
        signal(&good.0, "-TERM");
        good.0.wait().expect("it ends");
        lost.0.wait().expect("it was killed");
        spread.traces.assert_nothing_left();
    }
}
