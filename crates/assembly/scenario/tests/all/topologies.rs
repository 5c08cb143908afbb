//! Topologies that a scenario generates or reads from a file. Every shape must be built and
//! connected to hosts of the scenario, and must have the expected paths.

use std::path::{Path, PathBuf};

use timeloom_engine::Engine;
use timeloom_net::{Node, Pattern, Size, TrafficConfig, World};
use timeloom_scenario::{Machine, Simulated, load_for, parse};
use timeloom_time::{Duration, Instant};

/// Returns a scenario with two hosts, each of which is 5 ms from the topology. If `lan` is true,
/// they are in one subnet.
fn scenario(topology: &str, [east, west]: [&str; 2], lan: bool) -> String {
    let subnet = if lan { 1 } else { 2 };
    format!(
        r#"schema = "timeloom/1"
name = "net"
time = {{ duration = "10 s" }}
[network]
link = {{ rate = "1000 Gbit/s" }}
{topology}
[system]
links = [
    {{ between = ["east", "{east}"], delay = "5 ms" }},
    {{ between = ["west", "{west}"], delay = "5 ms" }},
]
[system.hosts.east]
address = "192.168.1.10/24"
[system.hosts.west]
address = "192.168.{subnet}.20/24"
"#
    )
}

fn generated(shape: &str, ends: [&str; 2], lan: bool) -> String {
    let topology = format!(
        "generate = [{{ name = \"g\", {shape}, access = {{ delay = \"1 ms\" }}, \
         trunk = {{ delay = \"10 ms\" }} }}]"
    );
    scenario(&topology, ends, lan)
}

/// Returns the one-way delay between two nodes in ms, after neighbour discovery.
fn delay_ms(built: Simulated, from: &str, to: &str) -> f64 {
    let node = |name: &str| -> Node {
        let known = built.nodes.get(name);
        *known.unwrap_or_else(|| panic!("no `{name}` among {:?}", built.nodes.keys()))
    };
    let (from, to) = (node(from), node(to));
    let mut world: World = built.world;
    let pattern = Pattern::Constant { rate_bps: 8_000 };
    let traffic = TrafficConfig::udp(pattern, Size::Fixed(100));
    let source = world.add_traffic(from, to, traffic).unwrap();
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(Instant::ZERO + Duration::from_s(2), u64::MAX);
    let before = engine.model.traffic(source);
    engine.run_until(Instant::ZERO + Duration::from_s(4), u64::MAX);
    let after = engine.model.traffic(source);
    let received = after.received - before.received;
    assert!(received >= 19, "{after:?}");
    (after.delay_sum_ns - before.delay_sum_ns) as f64 / received as f64 / 1e6
}

fn assert_delay(text: &str, base: &Path, from: &str, to: &str, expected_ms: f64) {
    let file = base.join("net.toml").display().to_string();
    for (from, to) in [(from, to), (to, from)] {
        let plan = parse(text, &file, &[]).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let built = plan.simulated().unwrap();
        let built = built.unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
        let got = delay_ms(built, from, to);
        // At each link of 1000 Gbit/s a packet takes some nanoseconds.
        assert!(
            (got - expected_ms).abs() < 0.001,
            "{from} to {to}: {got} ms, not {expected_ms}\n{text}"
        );
    }
}

#[test]
fn every_shape_has_the_paths_it_should_have() {
    // Each entry has a shape, the attachment points of east and west, true if both are on one LAN,
    // and their distance; then two of the topology's own hosts, and their distance.
    let shapes = [
        (
            r#"shape = "dumbbell", size = 2"#,
            ["g-left", "g-right"],
            false,
            20.0,
            ["g-l0", "g-r1"],
            12.0,
        ),
        (
            r#"shape = "star", size = 3"#,
            ["g-switch", "g-switch"],
            true,
            10.0,
            ["g-h0", "g-h2"],
            2.0,
        ),
        (
            r#"shape = "tree", size = 3"#,
            ["g-s3", "g-s6"],
            true,
            14.0,
            ["g-h0-0", "g-h3-1"],
            6.0,
        ),
        (
            r#"shape = "tree", size = 2, fanout = 5"#,
            ["g-s0", "g-s5"],
            true,
            11.0,
            ["g-h0-4", "g-h4-0"],
            4.0,
        ),
        (
            r#"shape = "fat-tree", size = 4"#,
            ["g-edge0-0", "g-edge3-1"],
            false,
            14.0,
            ["g-h0-0-0", "g-h3-1-1"],
            6.0,
        ),
        (
            r#"shape = "ring", size = 5"#,
            ["g-r0", "g-r2"],
            false,
            30.0,
            ["g-h0-0", "g-h4-0"],
            12.0,
        ),
        (
            r#"shape = "line", size = 5"#,
            ["g-r0", "g-r4"],
            false,
            50.0,
            ["g-h0-0", "g-h4-0"],
            42.0,
        ),
        (
            r#"shape = "campus", size = 3"#,
            ["g-b0", "g-g2-1"],
            false,
            30.0,
            ["g-0-0-0-h0", "g-2-1-1-h1"],
            34.0,
        ),
    ];
    for (shape, ends, lan, between_ms, [from, to], own_ms) in shapes {
        let text = generated(shape, ends, lan);
        assert_delay(&text, Path::new(""), "east", "west", between_ms);
        assert_delay(&text, Path::new(""), from, to, own_ms);
    }
}

/// Three cities in a triangle. The direct path is the longer one in milliseconds, but not in hops.
const GML: &str = r#"graph [
  node [ id 0 label "Kiel" ]
  node [ id 1 label "New York" ]
  node [ id 2 label "Ulm" ]
  node [ id 3 label "server" type "host" ]
  edge [ source 0 target 1 latency "80 ms" ]
  edge [ source 0 target 2 latency "7 ms" ]
  edge [ source 1 target 3 latency "1 ms" ]
]
"#;

const GRAPHML: &str = r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="a" for="node" attr.name="label"/><key id="b" for="edge" attr.name="latency"/>
<key id="c" for="node" attr.name="type"/>
<graph>
<node id="0"><data key="a">Kiel</data></node>
<node id="1"><data key="a">New York</data></node>
<node id="2"><data key="a">Ulm</data></node>
<node id="3"><data key="a">server</data><data key="c">host</data></node>
<edge source="0" target="1"><data key="b">80 ms</data></edge>
<edge source="0" target="2"><data key="b">7 ms</data></edge>
<edge source="1" target="3"><data key="b">1 ms</data></edge>
</graph>
</graphml>
"#;

/// Directory that is removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = format!("timeloom-topologies-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(directory);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn hosts_are_bound_to_the_nodes_of_a_graph() {
    let scratch = Scratch::new("bound");
    for (name, text) in [("world.gml", GML), ("world.graphml", GRAPHML)] {
        scratch.write(name, text);
        let text = scenario(
            &format!("topology = \"{name}\""),
            ["Ulm", "New York"],
            false,
        );
        assert_delay(&text, &scratch.0, "east", "west", 97.0);
        assert_delay(&text, &scratch.0, "east", "server", 93.0);
    }
}

/// Returns the message of the mistake in a scenario whose graph is `graph`, and its line.
fn wrong(scratch: &Scratch, graph: (&str, &str), text: &str) -> (String, String) {
    scratch.write(graph.0, graph.1);
    let file = scratch.write("net.toml", text);
    // The programs of a scenario are checked as well, and these do not exist.
    let errors = load_for(&file, &[], Machine::Checked)
        .unwrap_err()
        .to_string();
    let mistakes: Vec<_> = errors.lines().collect();
    assert_eq!(mistakes.len(), 1, "{errors}");
    let place = mistakes[0].strip_prefix(file.to_str().unwrap()).unwrap();
    let line: usize = place.split(':').nth(1).unwrap().parse().unwrap();
    let line = text.lines().nth(line - 1).unwrap().to_owned();
    (mistakes[0].to_owned(), line)
}

#[test]
fn a_graph_that_does_not_fit_is_refused_where_the_scenario_names_it() {
    let scratch = Scratch::new("faults");
    let good = scenario("topology = \"world.gml\"", ["Ulm", "Kiel"], false);
    let file = scratch.write("net.toml", &good);
    scratch.write("world.gml", GML);
    load_for(&file, &[], Machine::Checked).unwrap_or_else(|errors| panic!("{errors}"));
    let apart = GML.replace("edge [ source 0 target 2 latency \"7 ms\" ]", "");
    let cases = [
        // Graph, scenario, message, and the line of the mistake.
        (
            GML.to_owned(),
            good.replace("\"Ulm\"", "\"Ulmm\""),
            "`Ulmm` is not a switch, router",
            "Ulmm",
        ),
        (
            GML.to_owned(),
            good.replace("world.gml", "words.gml"),
            "cannot read",
            "topology",
        ),
        (
            GML.to_owned(),
            good.replace("world.gml", "net.toml"),
            "is not a graph",
            "topology",
        ),
        (
            GML.replace("7 ms", "7 m"),
            good.clone(),
            "world.gml:7: `7 m` is not a length",
            "topology",
        ),
        (
            apart,
            good.clone(),
            "no route from `east` to `west`",
            "hosts.west",
        ),
        (
            GML.replace("\"Kiel\"", "\"east\""),
            good.replace("\"Kiel\"", "\"Ulm\""),
            "two nodes are named `east`",
            "hosts.east",
        ),
        (
            GML.to_owned(),
            good.replace("\"Kiel\"", "\"server\""),
            "the port of host `server` is used twice",
            "server",
        ),
        (
            GML.replace("target 3", "target 0"),
            good.clone(),
            "host `server` has no link",
            "network",
        ),
    ];
    for (graph, text, said, line) in cases {
        let (mistake, found) = wrong(&scratch, ("world.gml", &graph), &text);
        assert!(mistake.contains(said), "`{mistake}`: {said}");
        assert!(found.contains(line), "`{mistake}` at `{found}`");
    }
}

#[test]
fn a_generated_topology_that_does_not_fit_is_refused() {
    let good = generated(
        r#"shape = "dumbbell", size = 2"#,
        ["g-left", "g-right"],
        false,
    );
    for (change, to, said, line) in [
        (
            "\"g-left\"",
            "\"g-lefd\"",
            "`g-lefd` is not a switch, router",
            "g-lefd",
        ),
        (
            "\"g-left\"",
            "\"g-l0\"",
            "the port of host `g-l0` is used twice",
            "g-l0",
        ),
        ("size = 2", "size = 60000", "nodes", "generate"),
        (
            "\"dumbbell\", size = 2",
            "\"fat-tree\", size = 3",
            "the k of a fat tree must be even",
            "generate",
        ),
        (
            "192.168.2.20",
            "192.168.1.20",
            "of one network but are on",
            "192.168.1.20",
        ),
        (
            "192.168.2.20",
            "192.168.1.10",
            "both have 192.168.1.10",
            "192.168.1.10",
        ),
    ] {
        let text = good.replacen(change, to, 1);
        assert_ne!(text, good);
        let errors = parse(&text, "net.toml", &[]).expect_err(to).to_string();
        assert!(errors.contains(said), "{to}: {errors}");
        let number: usize = errors.split(':').nth(1).unwrap().parse().unwrap();
        let found = text.lines().nth(number - 1).unwrap();
        assert!(found.contains(line), "{errors} at `{found}`");
    }
}
