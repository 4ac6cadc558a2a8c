//! `tenure-lab compare papers`: the claims of the papers beside measurements.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::anyhow;
use clap::Args;
use tenure_lab::paper::{Claim, ClaimRow, CounterExample, Paper, Parameters, Point, short};

use crate::exit;
use crate::output::{self, or_dash};

/// Measure the claims of the papers on Bully and Bully_FD: messages and response times
///
/// Prints each table and formula of each paper, as printed, beside a measurement of the algorithm
/// that the paper describes and of the algorithm in its figure, under the paper's own assumptions.
/// Below the values stands the verdict: "as printed", or the difference and its reasons. Without
/// parameters it uses those of the examples in the documentation.
///
/// "tenure-lab compare --report FILE" writes a page with these tables. "tenure-lab compare links" runs the
/// elections of aFLEU and aFLEA.
#[derive(Debug, Args)]
pub(super) struct Papers {
    /// Print only the claims of this paper: 2004, 2008, bully or ring
    #[arg(long, value_name = "NAME")]
    paper: Option<String>,
    /// Print only this claim: "3.3", "table-1" or another name of the JSON output
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,
    /// n: number of members, 2 to 200
    #[arg(long, value_name = "N")]
    n: Option<u32>,
    /// f: number of failed members that are better than the winner
    #[arg(long, value_name = "F")]
    failed: Option<u32>,
    /// l: how many of these are on every down list
    #[arg(long, value_name = "L")]
    listed: Option<u32>,
    /// Number of failed members that are worse than the winner
    #[arg(long, value_name = "F")]
    failed_worse: Option<u32>,
    /// How many of these are on every down list
    #[arg(long, value_name = "L")]
    listed_worse: Option<u32>,
    /// T_o: the timeout, in T_m
    #[arg(long, value_name = "T_M")]
    t_o: Option<f64>,
    /// T_p: the processing time, in T_m
    #[arg(long, value_name = "T_M")]
    t_p: Option<f64>,
    /// Print all points that the tests check, and not only the examples
    #[arg(long, conflicts_with_all = ["n", "failed", "listed", "failed_worse", "listed_worse", "t_o", "t_p"])]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print a counter-example to Figure 1 as a sequence chart, from the published machine: "hang"
    /// (2 members, 1 crash) or "part" (3 members, 1 crash and 1 restart)
    #[arg(long, value_name = "NAME", value_parser = parse_show, exclusive = true)]
    show: Option<CounterExample>,
}

const CSV_COLUMNS: &str = "paper,claim,row,formula,unit,n,k,f,f_worse,l,l_worse,p,t_o,t_p,t_s,printed,described,\
                           described_holds,figure,figure_holds,named,verdict";

const LEGEND: &str = "\
PRINTED: the value of the formula. DESCRIBED: the algorithm that the paper describes there, measured. FIGURE: \
the algorithm of Figure 1 (2004) and Figure 3.1 (2008), measured. Below them, what the measured \
values say about the printed one. n members, of which f failed: those better \
than the winner, or also worse ones; l of the failed ones are on every down list. Times are in T_m, the time \
of one message. T_o is the timeout, T_p the time that a member takes to handle a message.\n";

/// The width of the text before the columns.
const TEXT: usize = 70;

impl Papers {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        if let Some(example) = self.show {
            return Ok(output::line(example.chart().trim_end())?);
        }
        let claims = self.claims()?;
        let mut points = Vec::new();
        let mut replaced = Replaced::default();
        for &claim in &claims {
            let mut used = Vec::new();
            for row in claim.rows {
                for parameters in self.parameters(claim, row)? {
                    points.push(claim.measure(row, parameters));
                    used.push(row.used(parameters));
                }
            }
            replaced.add(claim, &self.given(), &used);
        }
        replaced.print()?;
        if self.json {
            return output::json(&points);
        }
        if self.csv {
            return output::csv(CSV_COLUMNS, &points);
        }
        Ok(print(&claims, &points)?)
    }

    /// The claims that were named, or all.
    fn claims(&self) -> anyhow::Result<Vec<&'static Claim>> {
        let unknown = |what: &str, name: &str, all: &[&str]| {
            let all = all.join(", ");
            exit::bad_configuration(format!("there is no {what} {name:?}; choose one of {all}"))
        };
        let papers: Vec<&str> = Paper::ALL.iter().map(|it| it.name).collect();
        if let Some(name) = self.paper.as_deref()
            && !papers.contains(&name)
        {
            // The paper on aFLEU and aFLEA.
            if name.to_lowercase().starts_with("afle") {
                return Err(exit::bad_configuration(format!(
                    "--paper {name:?}: \"tenure-lab compare links\" runs the elections of aFLEU and aFLEA; \
                     the papers here are {}",
                    papers.join(", ")
                )));
            }
            return Err(unknown("paper", name, &papers));
        }
        let of_paper = |it: &&Claim| {
            self.paper
                .as_deref()
                .is_none_or(|name| it.paper.name == name)
        };
        let claims = Claim::ALL.iter().filter(of_paper);
        let Some(name) = self.claim.as_deref() else {
            return Ok(claims.collect());
        };
        let claims: Vec<&'static Claim> = claims.collect();
        let named = Claim::of_name(name);
        let named = named.filter(|named| claims.iter().any(|it| it.name == named.name));
        let names: Vec<&str> = claims.iter().map(|it| it.name).collect();
        named
            .map(|it| vec![it])
            .ok_or_else(|| unknown("claim", name, &names))
    }

    /// The parameters of a row: those of the command line with the first example's for the others,
    /// or those of the examples, or all.
    fn parameters(&self, claim: &Claim, row: &ClaimRow) -> anyhow::Result<Vec<Parameters>> {
        if self.all {
            return Ok(row.all_parameters());
        }
        if self.given().is_empty() {
            return Ok(row.examples.to_vec());
        }
        let example = row.examples.first().copied();
        let example = example.unwrap_or(Parameters::new(10, 3));
        // Other sizes than that of the example have other numbers of failed members.
        let failed = example
            .better_failed
            .min(self.n.map_or(u32::MAX, |n| n.saturating_sub(1)));
        let better_failed = self.failed.unwrap_or(failed);
        let own = Parameters {
            // (3.2) always measures two members, and with n = 2 other options would be refused.
            n: self.n.unwrap_or_else(|| example.n.max(10)),
            better_failed,
            worse_failed: self.failed_worse.unwrap_or(example.worse_failed),
            better_listed: self
                .listed
                .unwrap_or_else(|| example.better_listed.min(better_failed)),
            worse_listed: self.listed_worse.unwrap_or(example.worse_listed),
            t_o: self.t_o.unwrap_or(example.t_o),
            t_p: self.t_p.unwrap_or(example.t_p),
        };
        own.check().map_err(|error| {
            let place = format!("{}, {}", claim.paper.name, claim.place);
            let hint = "change --n, --failed, --listed, --t-o or --t-p";
            let error = anyhow!(error).context(format!("{place}: {hint}"));
            exit::error(exit::BAD_CONFIGURATION, error)
        })?;
        Ok(vec![own])
    }

    /// The parameters of the command line.
    fn given(&self) -> Vec<Given> {
        let number = |it: Option<u32>| it.map(f64::from);
        let all: [(&str, Option<f64>, OfParameters); 7] = [
            ("--n", number(self.n), |it| it.n.into()),
            ("--failed", number(self.failed), |it| {
                it.better_failed.into()
            }),
            ("--listed", number(self.listed), |it| {
                it.better_listed.into()
            }),
            ("--failed-worse", number(self.failed_worse), |it| {
                it.worse_failed.into()
            }),
            ("--listed-worse", number(self.listed_worse), |it| {
                it.worse_listed.into()
            }),
            ("--t-o", self.t_o, |it| it.t_o),
            ("--t-p", self.t_p, |it| it.t_p),
        ];
        let given = all.into_iter().filter_map(|(option, value, of)| {
            Some(Given {
                option,
                value: value?,
                of,
            })
        });
        given.collect()
    }
}

/// A parameter of the command line.
struct Given {
    option: &'static str,
    value: f64,
    /// The same parameter of a measurement.
    of: OfParameters,
}

/// Returns one of the parameters.
type OfParameters = fn(&Parameters) -> f64;

/// The parameters of the command line that claims do not use, and the claims by the value that they
/// use instead.
#[derive(Debug, Default)]
struct Replaced(BTreeMap<(&'static str, String, String), Vec<&'static str>>);

impl Replaced {
    /// Adds the parameters that no row of the claim uses.
    fn add(&mut self, claim: &Claim, given: &[Given], used: &[Parameters]) {
        for it in given {
            let is_used = |own: &Parameters| ((it.of)(own) - it.value).abs() < 1e-6;
            let first = used.first().filter(|_| !used.iter().any(is_used));
            if let Some(first) = first {
                let key = (it.option, short(it.value), short((it.of)(first)));
                self.0.entry(key).or_default().push(claim.name);
            }
        }
    }

    /// Prints a note for each of them on stderr.
    fn print(&self) -> io::Result<()> {
        for ((option, given, used), claims) in &self.0 {
            let claims = claims.join(", ");
            let note = format!("note: {option} is {used} and not {given} in {claims}");
            writeln!(io::stderr(), "{}", output::wrapped(&note, "", "  "))?;
        }
        Ok(())
    }
}

fn parse_show(name: &str) -> Result<CounterExample, String> {
    let mut all = CounterExample::ALL.iter();
    let known = all.find(|(it, _)| *it == name).map(|(_, example)| *example);
    known.ok_or_else(|| format!("write hang or part, not {name:?}"))
}

fn print(claims: &[&'static Claim], points: &[Point]) -> io::Result<()> {
    output::line(output::wrapped_lines(LEGEND))?;
    output::line("")?;
    for paper in Paper::ALL {
        let of_paper: Vec<_> = claims
            .iter()
            .filter(|it| it.paper.name == paper.name)
            .collect();
        if of_paper.is_empty() {
            continue;
        }
        let (authors, title, year) = (paper.authors, paper.title, paper.year);
        output::line(output::wrapped(
            &format!("{authors}, {title} ({year})"),
            "",
            "  ",
        ))?;
        for claim in of_paper {
            print_claim(claim, points)?;
        }
        output::line("")?;
    }
    Ok(())
}

fn print_claim(claim: &Claim, points: &[Point]) -> io::Result<()> {
    let of_claim: Vec<&Point> = points.iter().filter(|it| it.claim == claim.name).collect();
    let unit = match of_claim.first() {
        Some(point) if point.unit != "messages" => format!(", in {}", point.unit),
        _ => String::new(),
    };
    let head = format!("  {}: {}{unit}", claim.place, claim.about);
    output::line("")?;
    let heads = ["PRINTED", "DESCRIBED", "FIGURE"].map(String::from);
    if head.chars().count() < TEXT {
        output::line(columns(&head, heads))?;
    } else {
        output::line(head)?;
        output::line(columns("", heads))?;
    }
    for row in claim.rows {
        output::line(output::wrapped(
            &format!("{}: {}", row.about, row.formula),
            "    ",
            "      ",
        ))?;
        let mut points = of_claim.iter().filter(|it| it.row == row.name).peekable();
        while let Some(point) = points.next() {
            let values = [
                short(point.printed),
                or_dash(point.described),
                or_dash(point.figure),
            ];
            output::line(columns(&format!("      {}", point.parameters()), values))?;
            // Points with the same verdict share it.
            if points.peek().is_none_or(|it| it.verdict != point.verdict) {
                for line in point.verdict.lines() {
                    output::line(output::wrapped(&line, "        ", "        "))?;
                }
            }
        }
    }
    Ok(())
}

/// A line with three values in columns, if its text leaves room for them.
fn columns(text: &str, [printed, described, figure]: [String; 3]) -> String {
    format!("{text:<TEXT$}{printed:>9}{described:>12}{figure:>9}")
        .trim_end()
        .to_owned()
}
