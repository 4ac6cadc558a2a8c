//! The page as text.

use crate::measure::NODES;
use crate::scenario::{LASTS, Scenario};

use super::{Growth, Report, Setting, plot, summary, table};

const TEMPLATE: &str = include_str!("page.html");

/// How a comparison was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
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
    pub fn html(&self, made: &Provenance) -> String {
        fill(&[
            ("about", self.about()),
            ("summary", summary::summary(self)),
            ("command", escape(&made.by)),
            ("version", escape(&made.version)),
            ("machine", escape(&made.on)),
            ("at", escape(&made.at)),
            ("overview", table::overview(self)),
            ("trade-off", self.trade_off()),
            ("growth", self.growth_plots()),
            ("papers", self.papers()),
            ("scenarios", self.scenarios()),
            ("counts", self.counts().into()),
            ("table", table::all(self)),
        ])
    }

    /// What was compared, and how.
    fn about(&self) -> String {
        match &self.setting {
            Setting::Simulated(seeds) => format!(
                "In simulated time: {NODES} members, or candidates and a store; {} virtual minutes in each run, \
                 one run for each seed of {}..{}. The same seeds give the same figures on every machine. Of \
                 real disks, sockets and threads they say nothing.",
                LASTS.as_secs() / 60,
                seeds.start,
                seeds.end
            ),
            Setting::Live {
                candidates,
                runs,
                proxies,
                scale,
            } => format!(
                "Live: {candidates} candidates as real processes on one machine, in real time; {} of each \
                 contestant in each scenario. Between them lie {}. Whoever leads writes every few milliseconds to \
                 a receiver that checks epochs, and all times are those of what came there. The times that \
                 scenarios are described with are in proportion to the lease: {scale:.2} of what is said, with \
                 the longest.",
                match runs {
                    1 => "one run".into(),
                    runs => format!("{runs} runs"),
                },
                match proxies {
                    true => "proxies",
                    false => "network namespaces",
                }
            ),
        }
    }

    /// What the figures of all runs count.
    const fn counts(&self) -> &'static str {
        match self.setting {
            Setting::Simulated(_) => {
                "Messages about who leads, those of an election while nobody leads, signs of life and bytes are \
                 means over whole runs; at rest they are of the time before anything goes wrong. Bytes are those \
                 of bodies, without the heads of requests."
            }
            Setting::Live { proxies: true, .. } => {
                "Messages are requests and answers on all links, those of an election all that pass while nobody \
                 leads; bytes are with their heads. CPU at rest is that of the store, the candidates and their \
                 watchdogs together, of one processor."
            }
            Setting::Live { .. } => {
                "Messages are requests and answers on all links (packets that end a write), those of an election \
                 all that pass while nobody leads; bytes are those of all packets. CPU at rest is that of the \
                 store, the candidates and their watchdogs together, of one processor."
            }
        }
    }

    fn key(&self) -> String {
        let contestants = self.contestants.iter().enumerate();
        plot::key(contestants.map(|(place, name)| (place, &name[..])))
    }

    fn trade_off(&self) -> String {
        let Some(failover) = self.failover() else {
            return "<p>No scenario was compared in which something goes wrong.</p>".into();
        };
        let contestants = self.contestants.iter().enumerate();
        let points = contestants.filter_map(|(place, it)| {
            let row = self.row(it, failover)?;
            let times = row.without_leader;
            // What is none has no place among powers.
            let shown =
                row.never_led < row.seeds && row.messages_at_rest > 0.0 && times.median > 0.0;
            let (messages, median, max) = (row.messages_at_rest, times.median, times.max);
            shown.then_some((place, messages, median, max))
        });
        let points: Vec<_> = points.collect();
        if points.is_empty() {
            let name = escape(failover.name);
            return format!("<p>In <b>{name}</b> nobody was without a leader for long enough.</p>");
        }
        let about = format!(
            "Time without a leader in {} against messages at rest",
            failover.name
        );
        figure(
            &plot::trade_off(&points, &about),
            &self.key(),
            &format!(
                "<b>{}</b>: {}. The dot is the median of the longest times without a leader, the line \
                 above it goes to the greatest. Left and low is good. Who was \
                 never without a leader is not shown.",
                escape(failover.name),
                escape(failover.about)
            ),
        )
    }

    fn growth_plots(&self) -> String {
        let Setting::Simulated(seeds) = &self.setting else {
            return String::new();
        };
        let of = |count: fn(&Growth) -> f64| {
            let growth = self.growth.iter().enumerate();
            let counts = growth.map(|(place, growth)| {
                let counts = growth.iter().map(|it| (f64::from(it.nodes), count(it)));
                (place, counts.collect())
            });
            counts.collect::<Vec<plot::Count>>()
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
        let key = self.key();
        let figures = all.map(|(counts, what, caption)| {
            figure(&plot::growth(&counts, what, what), &key, caption)
        });
        format!(
            "<h2>Messages against the number of members</h2>\n<p>One run each, with seed {}. Where \
             a line ends early, more members drowned in messages: answers to answers, without an end.</p>\n{}",
            seeds.start,
            figures.concat()
        )
    }

    fn papers(&self) -> String {
        if self.papers.is_empty() {
            return String::new();
        }
        let about = "Messages in one election, by formula and measured";
        let (plot, key) = plot::papers(&self.papers, about);
        let plot = figure(
            &plot,
            &key,
            "Lines: the formulas of the papers; dots: one election each, measured under the papers' own \
             assumptions. The leader is down, and on all down lists; with Chang and Roberts nobody is.",
        );
        format!(
            "<h2>Messages that the papers claim</h2>\n<p><code>tenure compare papers</code> tells all of it, the \
             response times too.</p>\n{plot}"
        )
    }

    fn scenarios(&self) -> String {
        let all = self.scenarios.iter();
        all.map(|scenario| self.scenario(scenario)).collect()
    }

    fn scenario(&self, scenario: &Scenario) -> String {
        let of = self.of_scenario(scenario);
        if of.is_empty() {
            return String::new();
        }
        let place = |name: &str| {
            let mut contestants = self.contestants.iter();
            contestants.position(|it| it == name).unwrap_or_default()
        };
        let times = of
            .iter()
            .map(|(row, _)| (place(&row.contestant), &row.contestant[..], &row.gaps[..]));
        let runs = of.iter().map(|(row, run)| (&row.contestant[..], *run));
        let (name, about) = (scenario.name, scenario.about);
        let (scale, which) = match &self.setting {
            Setting::Simulated(seeds) => (1.0, format!("run with seed {}", seeds.start)),
            Setting::Live { scale, .. } => (*scale, "first run".into()),
        };
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
            scale,
            &format!("Who led when in {name}"),
        );
        format!(
            "<details id=\"{name}\"{open}><summary><b>{name}</b> {about}</summary>\n{}{}</details>\n",
            figure(
                &distribution,
                "",
                "How long nobody led: the box holds the middle half of the runs, the line in it is the \
                 median, dots are single runs, 40 at most."
            ),
            figure(
                &timeline,
                "",
                &format!(
                    "Who led when, machine by machine, in the {which}. Dashed: faults. A line that ends: the \
                     process is gone, the run is over, or it drowned in messages. Breaks narrower than a dot \
                     are not drawn."
                )
            ),
        )
    }
}

fn figure(svg: &str, key: &str, caption: &str) -> String {
    format!(
        "<figure><div class=\"plot\">{svg}</div>{key}<figcaption>{caption}</figcaption></figure>\n"
    )
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
