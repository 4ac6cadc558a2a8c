//! The columns of the figures in tables for people.

use super::{ENOUGH_FOR_P99, Measurement};

/// A figure: its heading on a terminal, which is empty if the figure is only on pages, its heading on
/// a page, and its text in a row.
pub type Column = (&'static str, &'static str, fn(&Measurement) -> String);

/// The headings in narrow tables.
const NARROW: [&str; 5] = [
    "DETECTION",
    "NO LEADER: MEDIAN",
    "MAX",
    "LONGEST OVERLAP",
    "MESSAGES/MIN",
];

const P99: &str = "no leader: p99";
const CPU: &str = "CPU at rest, %";

const COLUMNS: &[Column] = &[
    ("DETECTION", "detection time, s", |it| {
        it.detection_time
            .map_or_else(|| "-".into(), |it| it.to_string())
    }),
    ("", "runs", |it| it.seeds.to_string()),
    ("", "never led", |it| it.never_led.to_string()),
    ("FIRST LEADER", "first leader, s", |it| {
        led(it, hundredths(it.first_leader.median))
    }),
    ("NO LEADER: MEDIAN", "no leader: median, s", |it| {
        gap(it, it.without_leader.median)
    }),
    ("P99", P99, |it| gap(it, it.without_leader.p99)),
    ("MAX", "no leader: max", |it| gap(it, it.without_leader.max)),
    ("OVERLAP: RUNS", "overlap: runs", |it| {
        it.runs_with_overlap.to_string()
    }),
    ("LONGEST OVERLAP", "overlap: max, s", overlap),
    ("", "writes taken", |it| whole(it.writes_taken)),
    ("STALE WRITES", "stale, refused", |it| {
        it.writes_refused.to_string()
    }),
    ("FLAPS", "flaps", |it| tenths(it.flaps)),
    ("", "terms", |it| tenths(it.terms)),
    ("", "election messages/min", |it| {
        whole(it.election_messages_per_minute)
    }),
    ("", "detection messages/min", |it| {
        whole(it.detection_messages_per_minute)
    }),
    ("", "kB/min", |it| tenths(it.bytes_per_minute / 1_000.0)),
    ("ELECTION: MESSAGES", "messages/election", |it| {
        led(it, tenths(it.messages_per_election))
    }),
    ("KB", "kB/election", |it| {
        led(it, tenths(it.bytes_per_election / 1_000.0))
    }),
    ("SYNCS", "durable writes/election", |it| {
        led(it, or_dash(it.durable_writes_per_election))
    }),
    ("SYNCS/MIN", "durable writes/min", |it| {
        or_dash(it.durable_writes_per_minute)
    }),
    ("MESSAGES/MIN", "messages/min at rest", |it| {
        whole(it.messages_at_rest)
    }),
    ("KB/MIN", "kB/min at rest", |it| {
        tenths(it.bytes_at_rest / 1_000.0)
    }),
    ("CPU AT REST", CPU, |it| or_dash(it.cpu_at_rest)),
    ("FLOODS", "floods", |it| it.floods.to_string()),
    ("NO LEADER AT END", "no leader at the end", |it| {
        it.without_leader_at_end.to_string()
    }),
];

/// Returns whether a table on a terminal has the column with this heading.
#[must_use]
pub fn is_on_terminal(heading: &str, is_wide: bool) -> bool {
    NARROW.contains(&heading) || is_wide && !heading.is_empty()
}

/// Returns the columns of a table with these rows. Few runs have no percentiles, and simulated ones
/// use no processor time.
#[must_use]
pub fn columns(rows: &[&Measurement]) -> Vec<Column> {
    let has_p99 = rows.iter().any(|it| it.seeds >= ENOUGH_FOR_P99);
    let has_cpu = rows.iter().any(|it| it.cpu_at_rest.is_some());
    let shown = |(_, title, _): &&Column| (*title != P99 || has_p99) && (*title != CPU || has_cpu);
    COLUMNS.iter().filter(shown).copied().collect()
}

/// Returns the figure, which has no meaning without a leader.
fn led(row: &Measurement, text: String) -> String {
    if row.never_led < row.seeds {
        text
    } else {
        "never".into()
    }
}

fn gap(row: &Measurement, secs: f64) -> String {
    led(row, row.gap_text(secs, ""))
}

/// Returns the longest overlap, with a mark if the receiver refuses the writes of the earlier leader.
fn overlap(row: &Measurement) -> String {
    let is_refused = row.promises_one_leader && row.runs_with_overlap > 0;
    hundredths(row.overlap.max) + if is_refused { "*" } else { "" }
}

fn or_dash(number: Option<f64>) -> String {
    number.map_or_else(|| "-".into(), tenths)
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn tenths(number: f64) -> String {
    format!("{number:.1}")
}

fn hundredths(number: f64) -> String {
    format!("{number:.2}")
}
