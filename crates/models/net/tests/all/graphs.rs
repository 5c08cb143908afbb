//! Topologies from GML and GraphML files.

use crate::common::{GBIT, bare, ms, run};
use timeloom_engine::Random;
use timeloom_net::topology::{gml, graphml};
use timeloom_net::{NetworkBuilder, Node, TrafficConfig};
use timeloom_time::Duration;

const FILE: &str = r#"
Creator "an author"   # as in the Topology Zoo
graph [
  directed 0
  node [ id 0 label "Here" type "host" graphics [ x 1.0 y 2.0 ] ]
  node [ id 1 label "Middle" ]
  node [ id 7 label "There" type "host" ]
  edge [ source 0 target 1 LinkSpeedRaw 1000000000.0 latency "10 ms" ]
  edge [ source 1 target 7 latency "2.5 ms" packet_loss 0.0 ]
]
"#;

/// Checks that the round-trip time agrees with the links of both files, to the nanosecond.
fn assert_pings(network: NetworkBuilder, from: Node, to: Node) {
    let mut world = network.build().unwrap();
    let ping = world.add_traffic(from, to, TrafficConfig::ping()).unwrap();
    let stats = run(world, ms(500)).model.traffic(ping);
    assert_eq!(stats.delay_sum_ns, 2 * (12_500_000 + 84 * 8 + 84 * 4));
}

#[test]
fn a_graph_becomes_a_network() {
    let mut network = NetworkBuilder::new(1);
    let nodes = gml(&mut network, FILE, &bare(2 * GBIT, Duration::ZERO, 10)).unwrap();
    assert_pings(network, nodes[0], nodes[2]);
}

#[test]
fn faults_are_named_with_their_line() {
    for (from, to, message) in [
        ("target 7", "target 8", "line 9: no node has this id"),
        ("id 7", "id 1", "line 7: another node has this id"),
        ("id 7 ", "", "line 7: this node has no `id`"),
        ("2.5 ms", "2.5 m", "line 9: `2.5 m` is not a length of time"),
        ("1000000000.0", "fast", "line 8: `fast` is not a number"),
        (
            "type \"host\" g",
            "type \"hub\" g",
            "line 5: a `type` must be host, switch or router",
        ),
        (
            "\"There\"",
            "\"There",
            "line 7: the closing quote of a string is missing",
        ),
        ("graph [", "graf [", "line 1: there is no `graph [`"),
        ("\n]\n", "\n", "line 9: a `]` is missing"),
        ("directed 0", "directed [", "line 10: a `]` is missing"),
        ("directed 0", "] 0", "line 5: a key is missing"),
    ] {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE);
        let mut network = NetworkBuilder::new(1);
        let link = bare(GBIT, Duration::ZERO, 10);
        match gml(&mut network, &text, &link) {
            Err(error) => assert!(
                error.to_string().starts_with(message),
                "`{error}`: {message}"
            ),
            Ok(_) => panic!("accepted; expected {message}"),
        }
    }
}

const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- as networkx and the Topology Zoo write it -->
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="label" attr.type="string"/>
  <key id="d1" for="node" attr.name="type" attr.type="string"/>
  <key id="d2" for="edge" attr.name="LinkSpeedRaw" attr.type="double"/>
  <key id="d3" for="edge" attr.name="latency" attr.type="string"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="d0">Here</data><data key="d1">host</data></node>
    <node id="n1"><desc>beyond the sea</desc></node>
    <edge source="0" target="n1"><data key="d2">1e9</data><data key="d3">10 ms</data></edge>
    <node id="7"><data key="d1"> host </data></node>
    <edge id="e" source="n1" target="7"><data key="d3">2.5 ms</data></edge>
  </graph>
</graphml>
"#;

#[test]
fn a_graph_in_xml_becomes_the_same_network() {
    let mut network = NetworkBuilder::new(1);
    let nodes = graphml(&mut network, XML, &bare(2 * GBIT, Duration::ZERO, 10)).unwrap();
    let names: Vec<_> = network.nodes().map(|(name, _)| name).collect();
    assert_eq!(names, ["Here", "n1", "7"]);
    assert_pings(network, nodes[0], nodes[2]);
}

#[test]
fn faults_in_xml_are_named_with_their_line() {
    for (from, to, message) in [
        (
            "target=\"7\"",
            "target=\"8\"",
            "line 13: no node has this id",
        ),
        (
            "<node id=\"7\"",
            "<node id=\"0\"",
            "line 12: another node has this id",
        ),
        ("<node id=\"7\"", "<node", "line 12: this node has no `id`"),
        (
            "2.5 ms",
            "2.5 m",
            "line 13: `2.5 m` is not a length of time",
        ),
        ("1e9", "fast", "line 11: `fast` is not a number"),
        (
            ">host<",
            ">hub<",
            "line 9: a `type` must be host, switch or router",
        ),
        ("</graph>", "", "line 15: "),
        ("<graph ", "<g ", "line 14: "),
        (
            "<!-- as",
            "<!DOCTYPE graphml [<!ENTITY a \"b\">]><!-- as",
            "line 1: this XML has a DTD; remove it",
        ),
    ] {
        let text = XML.replacen(from, to, 1);
        assert_ne!(text, XML, "{from}");
        let mut network = NetworkBuilder::new(1);
        match graphml(&mut network, &text, &bare(GBIT, Duration::ZERO, 10)) {
            Err(error) => assert!(
                error.to_string().starts_with(message),
                "`{error}`: {message}"
            ),
            Ok(_) => panic!("accepted; expected {message}"),
        }
    }
}

#[test]
fn no_graph_causes_a_panic() {
    let mut random = Random::new(2, 0);
    let link = bare(GBIT, Duration::ZERO, 10);
    for round in 0..6_000 {
        let xml = round % 2 == 1;
        let mut bytes = if xml { XML } else { FILE }.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = b" []\"#a0\n</>"[random.below(11) as usize],
                1 => _ = bytes.remove(at),
                _ => bytes.truncate(at.max(9)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut network = NetworkBuilder::new(1);
        let read = if xml { graphml } else { gml };
        if read(&mut network, &text, &link).is_ok() {
            let _ = network.build();
        }
    }
    let deep = "a [ ".repeat(100_000);
    assert!(gml(&mut NetworkBuilder::new(1), &deep, &link).is_err());
    let deep = "<graphml>".repeat(100_000);
    assert!(graphml(&mut NetworkBuilder::new(1), &deep, &link).is_err());
}
