//! The section on the claims of the papers.

use std::fmt::Write;

use super::Report;
use super::page::{escape, figure};
use super::plot;
use super::table::scrolling;
use crate::paper::{Claim, Paper, Point, Value, short};

impl Report {
    /// The claims by paper, with the parameters of the examples, and a plot of the numbers of
    /// messages. Empty for real processes.
    pub(super) fn papers(&self) -> String {
        if self.papers.is_empty() {
            return String::new();
        }
        let about = "Messages in one election, by formula and measured";
        let (plot, key) = plot::papers(&self.papers, about);
        let plot = figure(
            &plot,
            &key,
            "Lines: the formulas of the papers. Dots: one election each, measured under the assumptions of \
             the papers. The leader is down, and on all down lists; with Chang and Roberts all are up.",
        );
        let tables = Paper::ALL.iter().map(|paper| self.of_paper(paper));
        format!(
            "<h2>The claims of the papers</h2>\n<p>Each formula as printed, and measured under the \
             assumptions of its paper: for the algorithm that the paper describes there, and for the \
             algorithm of Figure 1 (2004) and Figure 3.1 (2008). Times are in T_m, the time of one message; \
             n members, f of them failed, l of those on every down list. <code>tenure-lab compare papers</code> \
             prints this table also with other parameters.</p>\n{}{plot}",
            tables.collect::<String>()
        )
    }

    fn of_paper(&self, paper: &Paper) -> String {
        let claims = Claim::ALL.iter().filter(|it| it.paper.name == paper.name);
        let mut table = String::from(
            "<tr><th>claim</th><th>case</th><th>formula</th><th>parameters</th><th>printed</th>\
             <th>described</th><th>figure</th><th>verdict</th></tr>\n",
        );
        for claim in claims {
            for row in claim.rows {
                let points = self.papers.iter();
                let points = points.filter(|it| it.claim == claim.name && it.row == row.name);
                // The examples come first.
                for (number, point) in points.take(row.examples.len()).enumerate() {
                    let mut before = String::new();
                    if number == 0 {
                        let span = row.examples.len();
                        let words = |text: &str| {
                            let text = escape(text);
                            format!("<td class=\"words\" rowspan=\"{span}\">{text}</td>")
                        };
                        let place = escape(claim.place);
                        before = format!("<th rowspan=\"{span}\">{place}</th>");
                        before += &words(row.about);
                        before += &words(row.formula);
                    }
                    let parameters = escape(&point.parameters());
                    let values = values(point);
                    let verdict = escape(&point.verdict.to_string());
                    let _ = writeln!(
                        table,
                        "<tr>{before}<td>{parameters}</td>{values}<td class=\"words\">{verdict}</td></tr>"
                    );
                }
            }
        }
        let (authors, title, year) = (paper.authors, paper.title, paper.year);
        format!(
            "<h3>{}</h3>\n{}",
            escape(&format!("{authors}, {title} ({year})")),
            scrolling(&table)
        )
    }
}

fn values(point: &Point) -> String {
    let value = |of: Option<Value>| of.map_or_else(String::new, |it| it.to_string());
    let cells = [
        short(point.printed),
        value(point.described),
        value(point.figure),
    ];
    cells.map(|cell| format!("<td>{cell}</td>")).concat()
}
