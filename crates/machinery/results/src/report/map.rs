//! Map of a network: its nodes in layers, from one end of the network to the opposite end, and
//! lines for its links.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use super::markup::{escape, missing, shortened};
use super::network::{LinkSummary, percent};
use crate::{NodeKind, Topology};

/// Symbol on the map: a node, or a group of simulated hosts that are attached to the same node.
struct Glyph {
    label: String,
    kind: NodeKind,
    /// Number of nodes that the symbol represents.
    count: usize,
    x: f64,
    y: f64,
}

/// Connection of two symbols: one link, or the links of all hosts of a group.
#[derive(Clone, Copy)]
struct MapEdge {
    ends: [usize; 2],
    worst: Option<LinkSummary>,
}

/// Draws the map. `links` has the statistics of the topology's links, by index.
pub(super) fn draw(out: &mut String, topology: &Topology, links: &[Option<LinkSummary>]) {
    let (mut glyphs, lines) = collapsed(topology, links);
    if glyphs.is_empty() {
        return missing(out, "the network has no nodes.");
    }
    if glyphs.len() > MOST_GLYPHS {
        let sentence = format!("{} nodes are too many for a map.", glyphs.len());
        return missing(out, &sentence);
    }
    let height = place(&mut glyphs, &lines);
    let _ = writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Map of the network\">\n\
         <svg class=\"map\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Network of {} nodes and {} links\">",
        topology.nodes.len(),
        topology.links.len()
    );
    for line in &lines {
        draw_line(out, line, &glyphs);
    }
    for glyph in &glyphs {
        draw_glyph(out, glyph);
    }
    // The figures are drawn last, so that no line crosses them.
    for line in &lines {
        draw_figures(out, line, &glyphs);
    }
    out.push_str("</svg>\n</div>\n");
}

/// Returns the symbols and their connections. Simulated hosts with a single link become one symbol
/// if several are attached to the same node.
fn collapsed(topology: &Topology, links: &[Option<LinkSummary>]) -> (Vec<Glyph>, Vec<MapEdge>) {
    let count = topology.nodes.len();
    let mut degrees = vec![0usize; count];
    let whole = |link: &&crate::TopologyLink| link.ends.iter().all(|end| *end < count);
    for link in topology.links.iter().filter(whole) {
        link.ends.iter().for_each(|end| degrees[*end] += 1);
    }
    let is_leaf = |node: usize| degrees[node] == 1 && topology.nodes[node].kind == NodeKind::Host;
    // For each host with a single link, the node to which it is attached; and the number of such
    // hosts at each node.
    let mut home = vec![None; count];
    let mut guests: BTreeMap<usize, usize> = BTreeMap::new();
    for link in topology.links.iter().filter(whole) {
        for [leaf, at] in [link.ends, [link.ends[1], link.ends[0]]] {
            if is_leaf(leaf) && !is_leaf(at) {
                home[leaf] = Some(at);
                *guests.entry(at).or_default() += 1;
            }
        }
    }
    let grouped = |node: usize| home[node].filter(|at| guests[at] >= LEAST_GROUP);
    let mut glyphs = Vec::new();
    let mut glyph_of = vec![0; count];
    let mut groups: BTreeMap<usize, usize> = BTreeMap::new();
    for (node, about) in topology.nodes.iter().enumerate() {
        let glyph = |label: String, count| Glyph {
            label,
            kind: about.kind,
            count,
            x: 0.0,
            y: 0.0,
        };
        glyph_of[node] = match grouped(node) {
            Some(at) => *groups.entry(at).or_insert_with(|| {
                glyphs.push(glyph(format!("{} hosts", guests[&at]), guests[&at]));
                glyphs.len() - 1
            }),
            None => {
                glyphs.push(glyph(about.name.clone(), 1));
                glyphs.len() - 1
            }
        };
    }
    let mut lines: BTreeMap<[usize; 2], MapEdge> = BTreeMap::new();
    for (index, link) in topology.links.iter().enumerate() {
        if !whole(&link) {
            continue;
        }
        let mut ends = link.ends.map(|end| glyph_of[end]);
        ends.sort_unstable();
        let line = lines.entry(ends).or_insert(MapEdge { ends, worst: None });
        let summary = links.get(index).copied().flatten();
        line.worst = match (line.worst, summary) {
            (Some(one), Some(other)) => Some(LinkSummary {
                load: one.load.max(other.load),
                peak_load: one.peak_load.max(other.peak_load),
                loss: one.loss.max(other.loss),
                peak_loss: one.peak_loss.max(other.peak_loss),
                ..one
            }),
            (one, other) => one.or(other),
        };
    }
    (glyphs, lines.into_values().collect())
}

/// Assigns a position to each symbol. Returns the height of the map.
fn place(glyphs: &mut [Glyph], lines: &[MapEdge]) -> f64 {
    let mut neighbours = vec![Vec::new(); glyphs.len()];
    for line in lines {
        let [a, b] = line.ends;
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let layers = layers(&neighbours);
    let last = layers.iter().copied().max().unwrap_or(0);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); last + 1];
    for (glyph, layer) in layers.iter().enumerate() {
        columns[*layer].push(glyph);
    }
    // Each column is sorted by the mean position of the neighbours, which keeps crossings few.
    let mut rank: Vec<f64> = (0..glyphs.len()).map(|glyph| glyph as f64).collect();
    for sweep in 0..SWEEPS {
        let order: Vec<usize> = match sweep % 2 {
            0 => (0..=last).collect(),
            _ => (0..=last).rev().collect(),
        };
        for column in order {
            let wanted = |glyph: usize| {
                let near = &neighbours[glyph];
                let sum: f64 = near.iter().map(|other| rank[*other]).sum();
                if near.is_empty() {
                    rank[glyph]
                } else {
                    sum / near.len() as f64
                }
            };
            let mut members: Vec<(f64, usize)> = columns[column]
                .iter()
                .map(|glyph| (wanted(*glyph), *glyph))
                .collect();
            members.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            columns[column] = members.iter().map(|(_, glyph)| *glyph).collect();
            let length = columns[column].len() as f64;
            for (row, glyph) in columns[column].iter().enumerate() {
                rank[*glyph] = (row as f64 + 0.5) / length;
            }
        }
    }
    let tallest = columns.iter().map(Vec::len).max().unwrap_or(1);
    let height = (tallest as f64 * ROW).max(LEAST_HEIGHT);
    for (column, members) in columns.iter().enumerate() {
        let x = match last {
            0 => WIDTH / 2.0,
            _ => SIDE + column as f64 / last as f64 * (WIDTH - 2.0 * SIDE),
        };
        for (row, glyph) in members.iter().enumerate() {
            glyphs[*glyph].x = x;
            glyphs[*glyph].y = (row as f64 + 0.5) / members.len() as f64 * height;
        }
    }
    height
}

/// Returns the distance of each node from one end of the network, in links. In each further
/// connected component, distances begin at 0 again.
fn layers(neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut layers = vec![usize::MAX; neighbours.len()];
    for start in 0..neighbours.len() {
        if layers[start] != usize::MAX {
            continue;
        }
        let from = distances(start, neighbours);
        let ends = from.iter().filter(|(_, far)| **far != usize::MAX);
        let end = ends.max_by_key(|(node, far)| (**far, std::cmp::Reverse(**node)));
        let end = end.map_or(start, |(node, _)| *node);
        for (node, far) in distances(end, neighbours) {
            layers[node] = far;
        }
    }
    layers
}

fn distances(start: usize, neighbours: &[Vec<usize>]) -> BTreeMap<usize, usize> {
    let mut far = BTreeMap::from([(start, 0)]);
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        let next = far[&node] + 1;
        for other in &neighbours[node] {
            far.entry(*other).or_insert_with(|| {
                queue.push_back(*other);
                next
            });
        }
    }
    far
}

fn draw_line(out: &mut String, line: &MapEdge, glyphs: &[Glyph]) {
    let [a, b] = line.ends.map(|end| &glyphs[end]);
    let (colour, width, dash) = match line.worst {
        Some(it) if it.peak_loss > 0.0 => ("#d55e00", width(it), ""),
        Some(it) => ("#0072b2", width(it), ""),
        None => ("#3e454d", 0.8, "3 3"),
    };
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{colour}\" stroke-width=\"{width:.2}\" stroke-dasharray=\"{dash}\"/>",
        a.x, a.y, b.x, b.y
    );
}

/// Returns the width of the line that represents a link, which depends on the link's load.
fn width(link: LinkSummary) -> f64 {
    1.2 + 5.0 * link.load.min(1.0)
}

/// Writes load and loss beside a line, if they are significant.
fn draw_figures(out: &mut String, line: &MapEdge, glyphs: &[Glyph]) {
    let Some(it) = line
        .worst
        .filter(|it| it.load >= 0.005 || it.peak_loss > 0.0)
    else {
        return;
    };
    let [a, b] = line.ends.map(|end| &glyphs[end]);
    let mut text = percent(it.load);
    if it.peak_loss > 0.0 {
        let _ = write!(text, ", loss {}", percent(it.loss));
    }
    // The text is above the middle of the line. A steep line would run through the text, so the
    // text is raised by the line's rise over half the text's width.
    let half_width = 2.8 * text.len() as f64;
    let steepness = ((b.y - a.y) / (b.x - a.x).abs().max(1.0)).abs();
    let _ = writeln!(
        out,
        "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
        (a.x + b.x) / 2.0,
        (a.y + b.y) / 2.0 - 5.0 - width(it) / 2.0 - (half_width * steepness).min(MOST_RISE)
    );
}

fn draw_glyph(out: &mut String, glyph: &Glyph) {
    let (x, y) = (glyph.x, glyph.y);
    let class = match glyph.kind {
        NodeKind::Real => "node real",
        _ => "node",
    };
    let shape = match glyph.kind {
        NodeKind::Router => {
            format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\"/>")
        }
        NodeKind::Switch => rectangle(class, x, y, 7.0, 7.0),
        NodeKind::Host if glyph.count > 1 => {
            rectangle(class, x + 3.0, y - 3.0, 9.0, 5.0) + &rectangle(class, x, y, 9.0, 5.0)
        }
        NodeKind::Host | NodeKind::Real => rectangle(class, x, y, 9.0, 5.0),
    };
    let weight = if glyph.kind == NodeKind::Real {
        " font-weight=\"600\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "{shape}<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\"{weight}>{}</text>",
        y + 19.0,
        escape(&shortened(&glyph.label, 18))
    );
}

fn rectangle(class: &str, x: f64, y: f64, half_width: f64, half_height: f64) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
        x - half_width,
        y - half_height,
        2.0 * half_width,
        2.0 * half_height
    )
}

const WIDTH: f64 = 940.0;
/// Margin at either side, which has room for half a name.
const SIDE: f64 = 60.0;
const ROW: f64 = 46.0;
const LEAST_HEIGHT: f64 = 110.0;
/// Maximum height of a text above its line. Beyond this, the text would be closer to another line.
const MOST_RISE: f64 = 14.0;
const SWEEPS: usize = 6;
/// Minimum number of hosts at one node that are drawn as one symbol.
const LEAST_GROUP: usize = 3;
const MOST_GLYPHS: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TopologyLink, TopologyNode};

    /// Returns two routers with fifty simulated hosts each, and a real host at each router.
    fn dumbbell() -> Topology {
        let node = |name: String, kind| TopologyNode { name, kind };
        let mut nodes = vec![
            node("left".into(), NodeKind::Router),
            node("right".into(), NodeKind::Router),
            node("client".into(), NodeKind::Real),
            node("server".into(), NodeKind::Real),
        ];
        let mut ends = vec![[0, 1], [2, 0], [3, 1]];
        for index in 0..100 {
            nodes.push(node(format!("h{index}"), NodeKind::Host));
            ends.push([nodes.len() - 1, index % 2]);
        }
        let links = ends.iter().map(|ends| TopologyLink {
            name: format!("{}-{}", ends[0], ends[1]),
            ends: *ends,
            rate_bps: 1_000_000,
            delay_ns: 0,
            recorded: true,
        });
        Topology {
            links: links.collect(),
            nodes,
            flows: Vec::new(),
        }
    }

    #[test]
    fn hosts_of_a_router_stand_together_and_the_ends_are_at_the_ends() {
        let topology = dumbbell();
        let summaries = vec![None; topology.links.len()];
        let (mut glyphs, lines) = collapsed(&topology, &summaries);
        let labels: Vec<&str> = glyphs.iter().map(|glyph| glyph.label.as_str()).collect();
        assert_eq!(
            labels,
            ["left", "right", "client", "server", "50 hosts", "50 hosts"]
        );
        assert_eq!(lines.len(), 5);
        place(&mut glyphs, &lines);
        let x = |label: &str| glyphs.iter().find(|glyph| glyph.label == label).unwrap().x;
        let order = [x("client"), x("left"), x("right"), x("server")];
        assert!(
            order.is_sorted() || order.iter().rev().is_sorted(),
            "{order:?}"
        );
        for (index, one) in glyphs.iter().enumerate() {
            let same = |other: &Glyph| other.x == one.x && other.y == one.y;
            assert!(
                !glyphs[..index].iter().any(same),
                "{} lies on another",
                one.label
            );
        }
    }

    #[test]
    fn a_broken_topology_causes_no_panic() {
        let mut topology = dumbbell();
        topology.links[0].ends = [7, 4_000];
        topology.nodes.truncate(50);
        let mut out = String::new();
        draw(&mut out, &topology, &[]);
        draw(&mut out, &Topology::default(), &[]);
        assert!(out.contains("<svg"));
    }
}
