//! The page of a comparison on one network.

use super::page::{Provenance, escape, figure, page};
use super::plot;
use super::table::scrolling;
use crate::links::{
    LinkComparison, LinkGrowth, LinkNetwork, LinkRow, MOST_DRAWN, draw_link_svg, fit_to_bound,
};

const TEMPLATE: &str = include_str!("links.html");

/// The algorithms of the plot over n, and the bound that they are compared with.
const SERIES: [&str; 4] = ["m + n log² n", "aFLEU", "aFLEA", "flooding"];

/// Returns the page of a comparison on one network as HTML without external references. `growth`
/// is empty if there is no plot over n.
#[must_use]
pub fn links_page(
    network: &LinkNetwork,
    about: &str,
    comparison: &LinkComparison,
    growth: &[LinkGrowth],
    made: &Provenance,
) -> String {
    page(
        TEMPLATE,
        made,
        &[
            ("about", escape(about).replace('\n', "<br>")),
            ("advice", escape(&comparison.advice())),
            ("table", table(network, &comparison.rows)),
            ("drawing", drawing(network, comparison)),
            ("growth", growth_plot(growth)),
        ],
    )
}

fn table(network: &LinkNetwork, rows: &[LinkRow]) -> String {
    let rows = rows.iter().map(|row| {
        let [algorithm, cells @ ..] = row.cells(network.nodes());
        let cells = cells.map(|cell| format!("<td>{cell}</td>")).concat();
        format!("<tr><th>{algorithm}</th>{cells}</tr>\n")
    });
    scrolling(&format!(
        "<tr><th>algorithm</th><th>messages</th><th>bits</th><th>rounds</th><th>leaders</th>\
         <th>nodes that know</th><th>know that it is over</th></tr>\n{}",
        rows.collect::<String>()
    ))
}

fn drawing(network: &LinkNetwork, comparison: &LinkComparison) -> String {
    if network.nodes() > MOST_DRAWN {
        return String::new();
    }
    let svg = draw_link_svg(network, &comparison.afleu);
    let caption = "Bold: the way of each node to the leader. Red dots: links that deliver nothing. Red \
                   dashes: links that deliver in one direction. The leader is filled.";
    format!("<h2>The tree</h2>\n{}", figure(&svg, "", caption))
}

fn growth_plot(growth: &[LinkGrowth]) -> String {
    if growth.is_empty() {
        return String::new();
    }
    let counts: [fn(&LinkGrowth) -> f64; 4] = [
        |row| row.bound,
        |row| row.afleu as f64,
        |row| row.aflea as f64,
        |row| row.flooding as f64,
    ];
    let series = counts.into_iter().enumerate().map(|(place, count)| {
        let line: Vec<_> = growth
            .iter()
            .map(|row| (f64::from(row.nodes), count(row)))
            .collect();
        // The bound is a line without dots.
        let dots = if place == 0 { Vec::new() } else { line.clone() };
        plot::Series { place, line, dots }
    });
    let about = "Messages against the number of nodes";
    let svg = plot::lines(series.collect(), ("nodes", "messages"), about);
    let key = plot::key(SERIES.into_iter().enumerate());
    let [afleu, aflea, flooding] = fit_to_bound(growth);
    let caption = format!(
        "One election for each number of nodes. Fitted to m + n log² n: {afleu:.2} of it for aFLEU, \
         {aflea:.2} for aFLEA, {flooding:.2} for flooding."
    );
    format!(
        "<h2>Messages against the number of nodes</h2>\n{}",
        figure(&svg, &key, &caption)
    )
}
