//! Drawings of a small network with the tree that has grown: as text and as SVG.

use std::fmt::Write;

use super::elect::LinkOutcome;
use super::graph::{LinkNetwork, LinkState};

/// The most nodes of a drawing.
pub const MOST_DRAWN: u32 = 64;

/// The size of the SVG in pixels, and the radius of a node.
const SIZE: f64 = 560.0;
const RADIUS: f64 = 15.0;

/// The most characters of a line.
const WIDTH: usize = 100;

/// Draws the way of each node to the leader as an indented tree, and lists the links that are
/// broken and those that the tree does not use. A node that is the only one below another one is on
/// the same line, so that no line is too wide.
#[must_use]
pub fn draw_link_tree(network: &LinkNetwork, outcome: &LinkOutcome) -> String {
    let ids = network.ids();
    let above = tree(outcome);
    let mut text = String::new();
    let mut roots: Vec<u32> = (0..network.nodes())
        .filter(|it| above[*it as usize].is_none())
        .collect();
    roots.sort_by_key(|it| ids[*it as usize]);
    for root in roots {
        let note = match outcome.leaders.contains(&root) {
            true => " leader",
            false => " knows no leader",
        };
        let _ = writeln!(text, "{}{note}", ids[root as usize]);
        draw_below(network, &above, root, "", &mut text);
    }
    let links_that = |is_meant: &dyn Fn(u32, u32, LinkState) -> bool, sign: &str| {
        let links = network.links().iter();
        let links = links.filter(|it| is_meant(it.one, it.other, it.state));
        let shown = links.map(|it| {
            let [one, other] = [it.one, it.other].map(|node| ids[node as usize]);
            format!("{one}{sign}{other}")
        });
        shown.collect::<Vec<_>>()
    };
    let is_used = |one: u32, other: u32| {
        above[one as usize] == Some(other) || above[other as usize] == Some(one)
    };
    for (name, links) in [
        (
            "dead",
            links_that(&|_, _, state| state == LinkState::Dead, "-x-"),
        ),
        (
            "one way",
            links_that(&|_, _, state| state == LinkState::OneWay, "->"),
        ),
        (
            "not in the tree",
            links_that(
                &|one, other, state| state == LinkState::Works && !is_used(one, other),
                "-",
            ),
        ),
    ] {
        if !links.is_empty() {
            push_words(&format!("{name}:"), " ", &links, &mut text);
        }
    }
    text
}

fn draw_below(
    network: &LinkNetwork,
    above: &[Option<u32>],
    root: u32,
    indent: &str,
    text: &mut String,
) {
    let nodes = 0..network.nodes();
    let mut below: Vec<u32> = nodes
        .filter(|it| above[*it as usize] == Some(root))
        .collect();
    below.sort_by_key(|it| network.ids()[*it as usize]);
    for (number, &node) in below.iter().enumerate() {
        let (branch, more) = match number + 1 == below.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let id = |node: u32| network.ids()[node as usize];
        let mut last = node;
        let mut chain = Vec::new();
        while let Some(next) = only_one_below(above, last) {
            chain.push(format!("- {}", id(next)));
            last = next;
        }
        let indent_below = format!("{indent}{more}");
        let first = format!("{indent}{branch}{}", id(node));
        push_words(&first, &indent_below, &chain, text);
        draw_below(network, above, last, &indent_below, text);
    }
}

fn only_one_below(above: &[Option<u32>], root: u32) -> Option<u32> {
    let nodes = 0..above.len() as u32;
    let mut below = nodes.filter(|it| above[*it as usize] == Some(root));
    below.next().filter(|_| below.next().is_none())
}

/// Adds lines with these words after the first one. Further lines have this indentation.
fn push_words(first: &str, indent: &str, words: &[String], text: &mut String) {
    let mut length = first.chars().count();
    text.push_str(first);
    for word in words {
        let more = 1 + word.chars().count();
        if length + more > WIDTH {
            text.push('\n');
            text.push_str(indent);
            length = indent.chars().count();
        }
        text.push(' ');
        text.push_str(word);
        length += more;
    }
    text.push('\n');
}

/// The tree to the leader, or the forest if there is none.
fn tree(outcome: &LinkOutcome) -> Vec<Option<u32>> {
    match outcome.leaders.is_empty() {
        true => outcome.parents.clone(),
        false => outcome.next_to_leader.clone(),
    }
}

/// Draws the network on a circle as SVG for the page of a report: the tree in bold, dead links
/// dashed.
#[must_use]
pub fn draw_link_svg(network: &LinkNetwork, outcome: &LinkOutcome) -> String {
    let above = tree(outcome);
    let middle = SIZE / 2.0;
    let at = |node: u32| {
        let turn = f64::from(node) / f64::from(network.nodes()) * std::f64::consts::TAU;
        let reach = middle - 2.0 * RADIUS;
        (middle + reach * turn.sin(), middle - reach * turn.cos())
    };
    let mut inner = String::new();
    for link in network.links() {
        let ((x1, y1), (x2, y2)) = (at(link.one), at(link.other));
        let is_used = above[link.one as usize] == Some(link.other)
            || above[link.other as usize] == Some(link.one);
        let style = match (link.state, is_used) {
            (LinkState::Dead, _) => "stroke=\"var(--fault)\" stroke-dasharray=\"3 6\"",
            (LinkState::OneWay, false) => "stroke=\"var(--fault)\" stroke-dasharray=\"12 4\"",
            (_, true) => "stroke=\"var(--c0)\" stroke-width=\"4\"",
            (LinkState::Works, false) => "stroke=\"var(--grid)\" stroke-width=\"1.5\"",
        };
        let _ = write!(
            inner,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
        );
    }
    for node in 0..network.nodes() {
        let (x, y) = at(node);
        let (fill, text) = match outcome.leaders.contains(&node) {
            true => ("var(--c1)", "var(--page)"),
            false => ("var(--card)", "var(--text)"),
        };
        let id = network.ids()[node as usize];
        let _ = write!(
            inner,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{fill}\" \
             stroke=\"var(--muted)\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             font-size=\"12\" fill=\"{text}\">{id}</text>",
            y + 4.0
        );
    }
    format!(
        "<svg role=\"img\" aria-label=\"The network and the tree to the leader\" \
         viewBox=\"0 0 {SIZE} {SIZE}\" width=\"{SIZE}\" font-family=\"system-ui, sans-serif\">\
         {inner}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::super::LinkElection;
    use super::*;

    #[test]
    fn a_drawing_shows_the_tree_and_the_broken_links() {
        let network = LinkNetwork::parse("1 2\n2 3\n3 4\n4 1 dead").unwrap();
        let outcome = LinkElection::on(&network, 1).run(&network).unwrap();
        let drawn = draw_link_tree(&network, &outcome);
        assert!(drawn.contains(" leader\n"), "{drawn}");
        assert!(drawn.contains("└─ "), "{drawn}");
        assert!(drawn.ends_with("dead: 4-x-1\n"), "{drawn}");
        assert_eq!(drawn.lines().next().unwrap().split(' ').count(), 2);
        let svg = draw_link_svg(&network, &outcome);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("var(--fault)").count(), 1);
        assert_eq!(svg.matches("stroke-width=\"4\"").count(), 3);
    }

    #[test]
    fn no_line_of_a_drawing_is_too_wide_and_every_node_is_in_it() {
        for shape in [
            "ring",
            "line",
            "star",
            "caterpillar",
            "tree",
            "complete",
            "grid",
        ] {
            let network = LinkNetwork::new(shape.parse().unwrap(), MOST_DRAWN, 1).unwrap();
            let outcome = LinkElection::on(&network, 1).run(&network).unwrap();
            let drawn = draw_link_tree(&network, &outcome);
            let widest = drawn.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(WIDTH), "{shape}: {widest:?}\n{drawn}");
            let (tree, _) = drawn.split_once("not in the tree").unwrap_or((&drawn, ""));
            let numbers = tree.split(|it: char| !it.is_ascii_digit());
            let mut ids: Vec<u32> = numbers.filter_map(|it| it.parse().ok()).collect();
            ids.sort_unstable();
            assert_eq!(
                ids,
                (1..=MOST_DRAWN).collect::<Vec<_>>(),
                "{shape}: {drawn}"
            );
        }
    }
}
