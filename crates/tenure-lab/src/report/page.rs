//! The page as text.

use tenure_sim::scenario::{LASTS, Scenario};

use super::{Growth, Report, Setting, plot, table};
use crate::measure::{NODES, gain_of_fallback, verdicts};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// The origin of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The command.
    pub by: String,
    /// The version of the command.
    pub version: String,
    /// The machine.
    pub on: String,
    /// The time.
    pub at: String,
}

impl Report {
    /// Returns the page as HTML without external references.
    #[must_use]
    pub fn html(&self, made: &Provenance) -> String {
        page(
            TEMPLATE,
            made,
            &[
                ("about", self.about()),
                ("summary", self.summary()),
                ("timing", self.timing()),
                ("overview", table::overview(self)),
                ("trade-off", self.trade_off()),
                ("growth", self.growth_plots()),
                ("papers", self.papers()),
                ("scenarios", self.scenarios()),
                ("counts", self.counts().into()),
                ("table", table::all(self)),
            ],
        )
    }

    /// Returns a list of the same sentences as on a terminal.
    fn summary(&self) -> String {
        let sentences = verdicts(&self.rows)
            .into_iter()
            .chain(gain_of_fallback(&self.rows));
        let items = sentences.map(|it| format!("<li>{}</li>\n", escape(&it)));
        items.collect()
    }

    /// Describes the setting of the comparison.
    fn about(&self) -> String {
        match &self.setting {
            Setting::Simulated(seeds) => format!(
                "In simulated time: {NODES} members, or {NODES} candidates and a store; {} virtual minutes in \
                 each run, one run for each seed of {}..{}. The same seeds give the same figures on every \
                 machine. The simulation does not measure real disks, sockets and threads.",
                LASTS.as_secs() / 60,
                seeds.start,
                seeds.end
            ),
            Setting::Live {
                candidates,
                runs,
                scale,
            } => format!(
                "Live: {candidates} candidates as real processes on one machine, in real time; {} of each \
                 contestant in each scenario. The network between them consists of proxies. The leader writes every \
                 few milliseconds to a receiver that checks epochs, and all times are those of its writes. The \
                 times of the faults are in proportion to the lease duration. The descriptions of scenarios \
                 state them for the longest lease: {scale:.2} of those in a simulation.",
                match runs {
                    1 => "one run".into(),
                    runs => format!("{runs} runs"),
                }
            ),
        }
    }

    /// Describes the quantities that the figures count.
    const fn counts(&self) -> &'static str {
        match self.setting {
            Setting::Simulated(_) => {
                "Election messages, the messages of an election while there is no leader, messages of failure detectors and \
                 bytes are means over whole runs; at rest means before the first fault. Bytes are those of \
                 message bodies, without request headers."
            }
            Setting::Live { .. } => {
                "Messages are requests and responses on all links, and those of an election are all that pass \
                 while there is no leader; bytes include headers. CPU at rest is that of the store, the \
                 candidates and their watchdogs together, in percent of one processor."
            }
        }
    }

    pub(super) fn key(&self) -> String {
        let contestants = self.contestants.iter().enumerate();
        plot::key(contestants.map(|(place, name)| (place, &name[..])))
    }

    fn trade_off(&self) -> String {
        let Some(failover) = self.failover() else {
            return "<p>No scenario with a fault was compared.</p>".into();
        };
        let contestants = self.contestants.iter().enumerate();
        let points = contestants.filter_map(|(place, it)| {
            let row = self.row(it, failover)?;
            let times = row.without_leader;
            // A logarithmic axis has no zero.
            // A run that flooded has no finite time.
            let shown = row.never_led < row.seeds
                && row.messages_at_rest > 0.0
                && times.median > 0.0
                && times.max.is_finite();
            let (messages, median, max) = (row.messages_at_rest, times.median, times.max);
            shown.then_some((place, messages, median, max))
        });
        let points: Vec<_> = points.collect();
        if points.is_empty() {
            let name = escape(failover.name);
            return format!(
                "<p>In <b>{name}</b> no contestant was without a leader long enough.</p>"
            );
        }
        let about = format!(
            "Time without a leader in {} against messages at rest",
            failover.name
        );
        figure(
            &plot::trade_off(&points, &about),
            &self.key(),
            &format!(
                "<b>{}</b>: {}. The dot is the median of the longest times without a leader, and the line \
                 above it ends at the maximum. Lower left is better. Contestants that were never without a \
                 leader, or with a run that flooded, are not shown.{}",
                escape(failover.name),
                escape(&self.about_scenario(failover)),
                self.lease_durations()
            ),
        )
    }

    /// Describes the lease durations. A failover after a crash waits for the lease, so contestants
    /// with different leases are not comparable.
    fn lease_durations(&self) -> String {
        if self.leases.is_empty() {
            return String::new();
        }
        let leases = self.leases.iter().map(|(name, lease)| {
            let name = escape(name);
            format!("<code>{name}</code> {:?}", lease)
        });
        format!(
            " A failover takes longer with a longer lease and with a slower failure detector. Lease durations: {}. For a comparison with a shorter lease name it: \
             <code>--contestant lease@3s</code>.",
            leases.collect::<Vec<_>>().join(", ")
        )
    }

    fn growth_plots(&self) -> String {
        let Setting::Simulated(seeds) = &self.setting else {
            return String::new();
        };
        let of = |count: fn(&Growth) -> f64| {
            let growth = self.growth.iter().enumerate();
            let series = growth.map(|(place, growth)| {
                let counts = growth.iter().map(|it| (f64::from(it.nodes), count(it)));
                let line: Vec<_> = counts.collect();
                let dots = line.clone();
                plot::Series { place, line, dots }
            });
            series.collect::<Vec<_>>()
        };
        let rest = of(|it| it.at_rest);
        let start = of(|it| it.start as f64);
        let failover = of(|it| it.failover as f64);
        let all = [
            (
                rest,
                "messages in a minute at rest",
                "All messages in a minute without a fault.",
            ),
            (
                start,
                "messages at the start",
                "Election messages in the first minute, in which all start, without messages of failure detectors.",
            ),
            (
                failover,
                "messages after a failure",
                "Election messages in the minute after the leader was killed, with the renewals of the new \
                 leader and without messages of failure detectors.",
            ),
        ];
        let key = self.key();
        let figures = all.map(|(counts, what, caption)| {
            let labels = ("members, or candidates and a store", what);
            figure(&plot::lines(counts, labels, what), &key, caption)
        });
        format!(
            "<h2>Messages against the number of members</h2>\n<p>One run each, with seed {}. A \
             line ends early if with more members messages only cause more messages. Where \
             lines coincide, the larger dot below belongs to the contestant that comes first in the \
             key.</p>\n{}",
            seeds.start,
            figures.concat()
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
        let labels = of.iter().map(|(row, _)| match row.floods {
            0 => row.contestant.clone(),
            _ => format!("{}, {}", row.contestant, row.flood_text()),
        });
        let labels: Vec<String> = labels.collect();
        let times = of.iter().zip(&labels);
        let times =
            times.map(|((row, _), label)| (place(&row.contestant), &label[..], &row.gaps[..]));
        let runs = of.iter().map(|(row, run)| (&row.contestant[..], *run));
        let (name, about) = (scenario.name, escape(&self.about_scenario(scenario)));
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
            &format!("Leaders over time in {name}"),
        );
        format!(
            // Browsers open closed details if a link leads to an element inside.
            "<details{open}><summary><b>{name}</b> {about}</summary>\n<div id=\"{name}\">{}{}</div></details>\n",
            figure(
                &distribution,
                "",
                "Time without a leader: the box holds the middle half of the runs, the line in it is the \
                 median, and dots are single runs, 40 at most. Runs that flooded are not drawn."
            ),
            figure(
                &timeline,
                "",
                &format!(
                    "Leaders over time on each host, in the {which}. Dashed: faults. A line ends with \
                     its process, with the run, or when there are too many messages. Gaps \
                     narrower than a dot are not drawn. The task of a frozen process does not run."
                )
            ),
        )
    }
}

pub(super) fn figure(svg: &str, key: &str, caption: &str) -> String {
    format!(
        "<figure><div class=\"plot\">{svg}</div>{key}<figcaption>{caption}</figcaption></figure>\n"
    )
}

/// Returns a page: the template with the style of all pages, the origin, and these texts.
pub(super) fn page(template: &str, made: &Provenance, texts: &[(&str, String)]) -> String {
    let origin = [
        ("style", STYLE.into()),
        ("command", escape(&made.by)),
        ("version", escape(&made.version)),
        ("machine", escape(&made.on)),
        ("at", escape(&made.at)),
    ];
    fill(template, &[&origin, texts].concat())
}

/// Replaces the placeholders of the template by the texts with their names. The inserted texts are
/// not expanded again.
fn fill(template: &str, texts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a placeholder that ends");
        let text = texts.iter().find(|(known, _)| *known == name);
        page.push_str(before);
        page.push_str(&text.expect("a text for every placeholder").1);
        rest = after;
    }
    page + rest
}

/// Escapes text for HTML content and attributes.
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
