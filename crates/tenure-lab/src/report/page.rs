//! The page as text.

use crate::measure::NODES;
use crate::scenario::{LASTS, Scenario};

use super::{Growth, Report, plot, summary, table};

const TEMPLATE: &str = include_str!("page.html");

/// How a comparison was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// By which command.
    pub by: String,
    /// By which version of it.
    pub version: String,
    /// On which machine.
    pub on: String,
    /// When.
    pub at: String,
}

impl Report {
    /// The page: HTML that refers to nothing outside of itself.
    #[must_use]
    pub fn html(&self, made: &Made) -> String {
        let seeds = &self.comparison.seeds;
        fill(&[
            ("summary", summary::summary(self)),
            ("command", escape(&made.by)),
            ("version", escape(&made.version)),
            ("machine", escape(&made.on)),
            ("at", escape(&made.at)),
            ("nodes", NODES.to_string()),
            ("minutes", (LASTS.as_secs() / 60).to_string()),
            ("seeds", format!("{}..{}", seeds.start, seeds.end)),
            ("seed", seeds.start.to_string()),
            ("overview", table::overview(self)),
            ("trade-off", self.trade_off()),
            ("growth", self.growth_plots()),
            ("papers", self.papers()),
            ("scenarios", self.scenarios()),
            ("table", table::all(self)),
        ])
    }

    fn trade_off(&self) -> String {
        let Some(failover) = self.failover() else {
            return "<p>No scenario was compared in which something goes wrong.</p>".into();
        };
        let contestants = self.comparison.contestants.iter().enumerate();
        let points = contestants.filter_map(|(place, it)| {
            let row = self.row(it, failover)?;
            let times = row.without_leader;
            // What is none has no place among powers.
            let shown =
                row.never_led < row.seeds && row.messages_at_rest > 0.0 && times.median > 0.0;
            let (messages, median, max) = (row.messages_at_rest, times.median, times.max);
            shown.then_some((place, &it.name[..], messages, median, max))
        });
        let points: Vec<_> = points.collect();
        let about = format!(
            "Time without a leader in {} against messages at rest",
            failover.name
        );
        figure(
            &plot::trade_off(&points, &about),
            &format!(
                "<b>{}</b>: {}. The dot is the median of the longest times without a leader, the line \
                 above it goes to the greatest. Left and low is good.",
                escape(failover.name),
                escape(failover.about)
            ),
        )
    }

    fn growth_plots(&self) -> String {
        let of = |count: fn(&Growth) -> f64| {
            let named = self.comparison.contestants.iter().zip(&self.growth);
            let counts = named.enumerate().map(|(place, (contestant, growth))| {
                let counts = growth.iter().map(|it| (f64::from(it.nodes), count(it)));
                (place, &contestant.name[..], counts.collect::<Vec<_>>())
            });
            counts.collect::<Vec<plot::Count<'_>>>()
        };
        let rest = of(|it| it.at_rest);
        let start = of(|it| it.start as f64);
        let failover = of(|it| it.failover as f64);
        let all = [
            (
                rest,
                "messages in a minute at rest",
                "All messages in a minute in which nothing happens.",
            ),
            (
                start,
                "messages to begin with",
                "Messages about who leads in the first minute, in which all start; signs of life do not count.",
            ),
            (
                failover,
                "messages after a failure",
                "Messages about who leads in the minute after the leader was killed, those of the new \
                 leader's renewals among them; signs of life do not count.",
            ),
        ];
        let figures =
            all.map(|(counts, what, caption)| figure(&plot::growth(&counts, what, what), caption));
        figures.concat()
    }

    fn papers(&self) -> String {
        figure(
            &plot::papers(
                &self.papers,
                "Messages in one election, by formula and measured",
            ),
            "Lines: the formulas of the papers; dots: one election each, measured under the papers' own \
             assumptions. The leader is down, and on all down lists; with Chang and Roberts nobody is.",
        )
    }

    fn scenarios(&self) -> String {
        let all = self.comparison.scenarios.iter();
        all.map(|scenario| self.scenario(scenario)).collect()
    }

    fn scenario(&self, scenario: &Scenario) -> String {
        let of = self.of_scenario(scenario);
        if of.is_empty() {
            return String::new();
        }
        let place = |name: &str| {
            let mut contestants = self.comparison.contestants.iter();
            contestants
                .position(|it| it.name == name)
                .unwrap_or_default()
        };
        let times = of
            .iter()
            .map(|(row, _)| (place(&row.contestant), &row.contestant[..], &row.gaps[..]));
        let runs = of.iter().map(|(row, run)| (&row.contestant[..], *run));
        let (name, about) = (scenario.name, scenario.about);
        let open = if self.failover().is_some_and(|it| it.name == name) {
            " open"
        } else {
            ""
        };
        let distribution = plot::distribution(
            &times.collect::<Vec<_>>(),
            &format!("Times without a leader in {name}"),
        );
        let timeline = plot::timeline(
            &runs.collect::<Vec<_>>(),
            &format!("Who led when in {name}"),
        );
        let seed = self.comparison.seeds.start;
        format!(
            "<details id=\"{name}\"{open}><summary><b>{name}</b> {about}</summary>\n{}{}</details>\n",
            figure(
                &distribution,
                "How long nobody led: the box holds the middle half of the runs, the line in it is the \
                 median, dots are single runs, 40 at most."
            ),
            figure(
                &timeline,
                &format!(
                    "Who led when, machine by machine, in the run with seed {seed}. Dashed: faults. Breaks below half a second are not drawn."
                )
            ),
        )
    }
}

fn figure(svg: &str, caption: &str) -> String {
    format!("<figure><div class=\"plot\">{svg}</div><figcaption>{caption}</figcaption></figure>\n")
}

/// The template with these texts in the places that have their names. What is put in is not read again.
fn fill(texts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after
            .split_once("}}")
            .expect("a place in the template that ends");
        let text = texts.iter().find(|(known, _)| *known == name);
        page.push_str(before);
        page.push_str(&text.expect("a text for every place in the template").1);
        rest = after;
    }
    page + rest
}

/// As HTML shows it, in text and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
