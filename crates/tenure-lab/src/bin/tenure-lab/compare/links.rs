//! `tenure-lab compare links`: elections where only some pairs have a link, and some links are broken.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tenure_lab::links::ForestSettings;
use tenure_lab::links::{
    self, GraphShape, LinkComparison, LinkDelay, LinkElection, LinkGrowth, LinkInitiators,
    LinkNetwork, LinkRow, LinkState, MOST_DRAWN,
};
use tenure_lab::report;

use super::report::{Page, made};
use crate::exit;
use crate::output;

/// Compare elections in a network in which only neighbours talk, and some links are broken
///
/// Runs aFLEU, aFLEA, flooding of the greatest identifier, and Bully, over direct links and with
/// messages that the nodes pass on. In aFLEU each process knows its own links, the number of
/// processes n, and a bound f on the number of faulty links; aFLEA has random identifiers. No
/// process is started and no network is used. The same seed gives the same figures on every
/// machine.
#[derive(Debug, Args)]
pub(super) struct Links {
    /// Shape: ring, line, star, grid, torus, hypercube, tree, caterpillar, random:0.3, complete
    #[arg(long, value_name = "SHAPE", default_value = "ring")]
    graph: GraphShape,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=4096))]
    nodes: u32,
    /// Read the network from a file: "1 2" is a link, "1 2 dead" and "1 2 one-way" are broken ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["graph", "nodes", "faulty", "one_way", "anywhere"])]
    file: Option<PathBuf>,
    /// Number of links that deliver nothing
    #[arg(long, value_name = "F", default_value_t = 0)]
    faulty: usize,
    /// Number of links that deliver in one direction only
    #[arg(long, value_name = "F", default_value_t = 0)]
    one_way: usize,
    /// Let faulty links part the network; otherwise the working ones connect all nodes
    #[arg(long)]
    anywhere: bool,
    /// The f that the processes know [default: the number of faulty links]
    #[arg(long, value_name = "F")]
    bound: Option<u32>,
    /// Processes that begin: all, third, one, or a number of them
    #[arg(long, value_name = "NODES", default_value = "all")]
    initiators: LinkInitiators,
    /// Delays of messages: constant, uniform, exponential, heavy-tailed, slow-links
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    delay: LinkDelay,
    /// aFLEA: draw identifiers from 1 to this number [default: of 128 bits]
    #[arg(long, value_name = "D", value_parser = parse_domain)]
    domain: Option<u128>,
    /// Let every region report every change at once, to see what the quotas of aFLEU save
    #[arg(long)]
    without_quotas: bool,
    /// Raise the level also by the count, as the paper does
    #[arg(long)]
    raise_by_count: bool,
    /// The largest network of the comparison over n, 8 to 4096; 0 for none. A file and --anywhere have
    /// no such comparison
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = parse_up_to)]
    up_to: u32,
    /// Seed of the network, the identifiers and the delays
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Draw the tree that has grown, and list the broken links (64 nodes or fewer)
    #[arg(long)]
    draw: bool,
    /// Also write a page with a plot and a drawing: one HTML file without external resources
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const LEGEND: &str = "\
    Rounds: mean delays of a message until no message is left. Bits: of a plain binary form. aFLEA: all \
    its attempts together. Bully, which waits for timeouts and sends JSON: the messages until all agree, \
    or of two minutes. Relayed: each of its messages is flooded. It has 31 members at most.";

fn parse_domain(text: &str) -> Result<u128, String> {
    match text.parse::<u128>() {
        Ok(0) => Err("identifiers are numbers from 1 on; use 1 or more".into()),
        Ok(domain) => Ok(domain),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_up_to(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(most) if most == 0 || (8..=4096).contains(&most) => Ok(most),
        Ok(_) => Err("use 8 to 4096, or 0 for no comparison over n".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl Links {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let page = self.report.as_deref().map(Page::new).transpose()?;
        let network = self.network()?;
        if self.draw && network.nodes() > MOST_DRAWN {
            return Err(exit::bad_configuration(format!(
                "--draw: the network has {} nodes; a drawing has {MOST_DRAWN} at most",
                network.nodes()
            )));
        }
        let election = self.election(&network);
        let (begin, nodes) = (self.initiators.least_nodes(), network.nodes());
        if begin > nodes {
            return Err(exit::bad_configuration(format!(
                "--initiators {begin}: the network has {nodes} nodes; use all, third, one or a number \
                 up to {nodes}"
            )));
        }
        let comparison = links::compare_on_links(&network, &election, self.domain);
        let comparison = comparison.map_err(anyhow::Error::msg)?;
        let (growth, why_no_growth) = self.growth();
        let about = self.about(&network, &election);
        if let Some(page) = page {
            let html = report::links_page(&network, &about, &comparison, &growth, &made());
            page.write_html(&html)?;
        }
        if self.json {
            return self.print_json(&network, &election, &comparison, &growth);
        }
        self.print(&network, &election, &comparison, &about)?;
        print_growth(&growth)?;
        if let Some(why) = why_no_growth {
            output::line(output::wrapped(&why, "\nno comparison over n: ", "  "))?;
        }
        output::line(format!("\n{}", output::wrapped(LEGEND, "", "")))?;
        let advice = output::wrapped(&comparison.advice(), "choose: ", "        ");
        Ok(output::line(format!("\n{advice}"))?)
    }

    fn network(&self) -> anyhow::Result<LinkNetwork> {
        if let Some(file) = &self.file {
            return read(file);
        }
        let network = LinkNetwork::new(self.graph, self.nodes, self.seed)
            .and_then(|it| it.with_faults(self.faulty, self.one_way, self.anywhere, self.seed));
        network.map_err(|error| {
            let hint = match error {
                links::GraphError::Faulty { .. } => {
                    "; --anywhere lets faulty links part the network"
                }
                _ => "",
            };
            exit::bad_configuration(format!("--graph {}: {error}{hint}", self.graph))
        })
    }

    fn election(&self, network: &LinkNetwork) -> LinkElection {
        let faulty = self.bound.unwrap_or_else(|| network.faulty());
        let mut settings = ForestSettings::new(network.nodes(), faulty);
        if network.has_one_way() {
            settings = settings.with_handshake();
        }
        if self.without_quotas {
            settings = settings.without_quotas();
        }
        if self.raise_by_count {
            settings = settings.with_raise_by_count();
        }
        LinkElection {
            settings,
            faulty,
            initiators: self.initiators,
            delay: self.delay,
            ..LinkElection::on(network, self.seed)
        }
    }

    /// Elections on networks of the same shape with other numbers of nodes, or the reason why there is
    /// none although the user expects some.
    fn growth(&self) -> (Vec<LinkGrowth>, Option<String>) {
        if self.file.is_some() || self.anywhere || self.up_to == 0 {
            return (Vec::new(), None);
        }
        let faults = (self.faulty, self.one_way);
        let election = |network: &LinkNetwork| self.election(network);
        let growth =
            links::measure_link_growth(self.graph, self.up_to, faults, election, self.seed);
        match growth {
            Ok(rows) if rows.is_empty() => {
                let (begin, most) = (self.initiators.least_nodes(), self.up_to);
                let why = format!("{begin} nodes can't begin in networks of up to {most}");
                (rows, Some(why))
            }
            Ok(rows) => (rows, None),
            // No network of this shape is small enough.
            Err(error) => (Vec::new(), Some(error.to_string())),
        }
    }

    fn about(&self, network: &LinkNetwork, election: &LinkElection) -> String {
        let shape = match &self.file {
            Some(file) => file.display().to_string(),
            None => self.graph.to_string(),
        };
        let state = |state| {
            let links = network.links().iter();
            links.filter(|it| it.state == state).count()
        };
        format!(
            "{shape}: {} nodes, {} links ({} dead, {} one way); the working links connect {}\n\
             {}; {} delays; the processes know n = {} and f = {}; seed {}",
            network.nodes(),
            network.links().len(),
            state(LinkState::Dead),
            state(LinkState::OneWay),
            match network.largest_part() {
                all if all == network.nodes() => "all".into(),
                part => format!("{part} at most"),
            },
            self.initiators,
            self.delay,
            network.nodes(),
            election.faulty,
            self.seed,
        )
    }

    fn print(
        &self,
        network: &LinkNetwork,
        election: &LinkElection,
        comparison: &LinkComparison,
        about: &str,
    ) -> anyhow::Result<()> {
        output::line(format!("{}\n", output::wrapped_lines(about)))?;
        print_rows(network, &comparison.rows)?;
        let traffic = comparison.afleu.traffic;
        let parts = format!(
            "{} messages to greet, {} to grow, {} to count, {} to announce; the largest has {} bits",
            traffic.greeting,
            traffic.growing,
            traffic.counting,
            traffic.announcing,
            comparison.afleu.largest
        );
        output::line(output::wrapped(&parts, "\naFLEU: ", "  "))?;
        if let Some(why) = comparison.why_no_leader(network, election) {
            output::line(output::wrapped(&why, "aFLEU: ", "  "))?;
        }
        if comparison.aflea_attempts > 1 {
            let attempts = comparison.aflea_attempts;
            output::line(format!(
                "aFLEA: {attempts} attempts, because equal identifiers got stuck"
            ))?;
        }
        if self.draw {
            output::line("")?;
            let drawn = links::draw_link_tree(network, &comparison.afleu);
            output::line(drawn.trim_end())?;
        }
        Ok(())
    }

    fn print_json(
        &self,
        network: &LinkNetwork,
        election: &LinkElection,
        comparison: &LinkComparison,
        growth: &[LinkGrowth],
    ) -> anyhow::Result<()> {
        let id = |node: u32| network.ids()[node as usize];
        let all = network.links().iter();
        let links = all.map(|it| {
            let state = match it.state {
                LinkState::Works => "works",
                LinkState::Dead => "dead",
                LinkState::OneWay => "one-way",
            };
            json!({"from": id(it.one), "to": id(it.other), "state": state})
        });
        let traffic = comparison.afleu.traffic;
        let next = comparison.afleu.next_to_leader.iter().enumerate();
        let tree = next.filter_map(|(node, next)| {
            Some(json!({"node": id(node as u32), "next": id((*next)?)}))
        });
        let leaders = comparison.afleu.leaders.iter().map(|node| id(*node));
        let fit = links::fit_to_bound(growth).map(|it| (!growth.is_empty()).then(|| rounded(it)));
        output::json(&json!({
            "graph": self.file.as_ref().map_or_else(|| self.graph.to_string(), |it| it.display().to_string()),
            "nodes": network.nodes(),
            "faulty": network.faulty(),
            "largest_part": network.largest_part(),
            "known": {"n": network.nodes(), "f": election.faulty},
            "seed": self.seed,
            "bound": network.bound(),
            "algorithms": comparison.rows,
            "afleu": {
                "leaders": leaders.collect::<Vec<_>>(),
                "greeting": traffic.greeting,
                "growing": traffic.growing,
                "counting": traffic.counting,
                "announcing": traffic.announcing,
                "largest_message_bits": comparison.afleu.largest,
                "most_labels": comparison.afleu.most_labels,
                "silent_ports": comparison.afleu.silent_ports,
                "no_leader_because": comparison.why_no_leader(network, election),
                "tree": tree.collect::<Vec<_>>(),
            },
            "aflea": {"attempts": comparison.aflea_attempts},
            "growth": growth,
            "fit": {"afleu": fit[0], "aflea": fit[1], "flooding": fit[2]},
            "links": links.collect::<Vec<_>>(),
            "choose": comparison.advice(),
        }))
    }
}

fn read(file: &Path) -> anyhow::Result<LinkNetwork> {
    let shown = file.display();
    let text =
        fs::read_to_string(file).with_context(|| format!("--file {shown}: can't read the file"))?;
    let network = LinkNetwork::parse(&text);
    network.map_err(|error| exit::bad_configuration(format!("--file {shown}: {error}")))
}

fn print_rows(network: &LinkNetwork, rows: &[LinkRow]) -> anyhow::Result<()> {
    let columns = [
        "ALGORITHM",
        "MESSAGES",
        "BITS",
        "ROUNDS",
        "LEADERS",
        "KNOW",
        "KNOW THE END",
    ];
    let mut table = output::table(&columns);
    for row in rows {
        table.add_row(row.cells(network.nodes()));
    }
    output::print_table(&table)
}

fn print_growth(growth: &[LinkGrowth]) -> anyhow::Result<()> {
    if growth.is_empty() {
        return Ok(());
    }
    let columns = ["N", "M", "M+N LOG²N", "aFLEU", "aFLEA", "FLOODING"];
    let mut table = output::table(&columns);
    for row in growth {
        let of_bound = |messages: u64| format!("{messages} ({:.2})", messages as f64 / row.bound);
        table.add_row([
            row.nodes.to_string(),
            row.links.to_string(),
            format!("{:.0}", row.bound),
            of_bound(row.afleu),
            of_bound(row.aflea),
            of_bound(row.flooding),
        ]);
    }
    output::line("\nmessages over n, and in brackets their share of m + n log² n")?;
    output::print_table(&table)?;
    let [afleu, aflea, flooding] = links::fit_to_bound(growth);
    output::line(format!(
        "fitted: aFLEU {afleu:.2}, aFLEA {aflea:.2}, flooding {flooding:.2} times m + n log² n"
    ))?;
    Ok(())
}

/// Rounded to thousandths, for JSON.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}
