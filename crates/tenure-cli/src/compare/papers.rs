//! `tenure compare papers`: the papers' claims beside what is measured.

use std::io;
use std::process::ExitCode;

use tenure_lab::paper::{self, Claim, Point};

use crate::cli::ComparePapers;
use crate::exit::Failure;
use crate::output;

const COLUMNS: &[&str] = &[
    "n",
    "k",
    "f",
    "l",
    "p",
    "T_o",
    "T_p",
    "FORMULA",
    "MEASURED",
    "DEVIATION",
    "HOLDS",
    "NAMED",
];

pub(super) fn papers(arguments: &ComparePapers) -> Result<ExitCode, Failure> {
    let points = paper::measure();
    if arguments.json {
        output::json(&points)?;
    } else if arguments.csv {
        csv(&points)?;
    } else {
        print(&points)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(points: &[Point]) -> io::Result<()> {
    for claim in Claim::ALL {
        let mut table = output::table(COLUMNS);
        for point in points.iter().filter(|point| point.claim == claim) {
            let measured = point.measured.map_or_else(|| "never".into(), number);
            let deviation = point.deviation_percent;
            table.add_row([
                point.n.to_string(),
                point.k.to_string(),
                point.f.to_string(),
                point.l.to_string(),
                number(point.p),
                number(point.t_o),
                number(point.t_p),
                number(point.formula),
                measured,
                deviation.map_or_else(|| "-".into(), |it| format!("{it:+.1} %")),
                point.holds.map_or_else(|| "never".into(), number),
                point.named.to_string(),
            ]);
        }
        output::line(claim.about())?;
        output::print_table(&table)?;
        output::line("")?;
    }
    output::line(
        "n members, the best one that is up is k, f are down, l of those that are better than k are on the \
         down lists\n(p = l/f). Times are in T_m. HOLDS is what the algorithm as it was published comes to, if\nT_o is long enough for all answers; \
         NAMED, how many named themselves.",
    )
}

/// With as many places as it has, two at most.
fn number(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

fn csv(points: &[Point]) -> io::Result<()> {
    output::line(
        "claim,unit,n,k,f,l,p,t_o,t_p,t_s,formula,measured,deviation_percent,holds,named",
    )?;
    let some = |number: Option<f64>| number.map(|it| it.to_string()).unwrap_or_default();
    for point in points {
        let Point {
            claim,
            unit,
            n,
            k,
            f,
            l,
            p,
            t_o,
            t_p,
            t_s,
            formula,
            measured,
            deviation_percent,
            holds,
            named,
        } = point;
        let name = claim.name();
        let (measured, deviation) = (some(*measured), some(*deviation_percent));
        let holds = some(*holds);
        output::line(format!(
            "{name},{unit},{n},{k},{f},{l},{p},{t_o},{t_p},{t_s},{formula},{measured},{deviation},{holds},{named}"
        ))?;
    }
    Ok(())
}
