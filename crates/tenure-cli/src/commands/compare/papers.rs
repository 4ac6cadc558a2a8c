//! `tenure compare papers`: the claims of the papers beside measurements.

use clap::Args;
use tenure_lab::paper::{self, Claim, Point};

use crate::output::{self, or_dash};

/// Measure the claims of the papers on Bully and Bully_FD: messages and response times
///
/// Prints each formula beside a measurement of the algorithm under the paper's own assumptions.
/// Times are in T_m, the time of one message.
#[derive(Debug, Args)]
pub(super) struct Papers {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

const CSV_COLUMNS: &str =
    "claim,unit,n,k,f,l,p,t_o,t_p,t_s,formula,measured,deviation_percent,holds,named";

const LEGEND: &str = "\
n members; k is the best member that is up; f members are down, l of the members better than k are
on the down lists (p = l/f). Times are in T_m. HOLDS is the correct value of the claim if T_o is long
enough for all responses; NAMED is the number of members that declared themselves the leader.";

impl Papers {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let points = paper::measure();
        if self.json {
            output::json(&points)?;
        } else if self.csv {
            output::csv(CSV_COLUMNS, &points)?;
        } else {
            print(&points)?;
        }
        Ok(())
    }
}

fn print(points: &[Point]) -> anyhow::Result<()> {
    let header = "n k f l p T_o T_p FORMULA MEASURED DEVIATION HOLDS NAMED";
    let header: Vec<&str> = header.split(' ').collect();
    let or_never = |number: Option<f64>| number.map_or_else(|| "never".into(), short);
    for claim in Claim::ALL {
        let mut table = output::table(&header);
        for point in points.iter().filter(|point| point.claim.name == claim.name) {
            let deviation = point.deviation_percent.map(|it| format!("{it:+.1} %"));
            table.add_row([
                point.n.to_string(),
                point.k.to_string(),
                point.f.to_string(),
                point.l.to_string(),
                short(point.p),
                short(point.t_o),
                short(point.t_p),
                short(point.formula),
                or_never(point.measured),
                or_dash(deviation),
                or_never(point.holds),
                point.named.to_string(),
            ]);
        }
        output::line(claim.about)?;
        output::print_table(&table)?;
        output::line("")?;
    }
    Ok(output::line(LEGEND)?)
}

/// A number with two decimal places at most.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}
