//! The figures of a comparison as tables.

use tenure_lab::measure::{ENOUGH_FOR_P99, Measurement};
use tenure_sim::scenario::Scenario;

use crate::output::{self, or_dash};

pub(super) const CSV_COLUMNS: &str = "\
contestant,scenario,detection_time_s,promises_one_leader,seeds,never_led,first_leader_median_s,first_leader_p99_s,first_leader_max_s,\
without_leader_median_s,without_leader_p99_s,without_leader_max_s,overlap_median_s,overlap_p99_s,\
overlap_max_s,runs_with_overlap,terms,flaps,writes_taken,writes_refused,election_messages_per_minute,\
detection_messages_per_minute,bytes_per_minute,messages_per_election,bytes_per_election,\
durable_writes_per_election,durable_writes_per_minute,messages_at_rest,\
bytes_at_rest,floods,without_leader_at_end,live,cpu_at_rest_percent";

/// The most characters of a name in a narrow table.
const LONGEST_NAME: usize = 26;

/// The columns of a row: heading, whether it is in wide tables only, and text.
fn cells(row: &Measurement) -> Vec<(&'static str, bool, String)> {
    let led = |text: String| {
        let led = row.never_led < row.seeds;
        if led { text } else { "never".into() }
    };
    let gap = |secs: f64| led(row.gap_text(secs, ""));
    let gaps = &row.without_leader;
    let (per_election, at_rest) = (row.bytes_per_election, row.bytes_at_rest);
    let mut cells = vec![
        ("CONTESTANT", false, row.contestant.clone()),
        ("DETECTION", false, or_dash(row.detection_time)),
        ("FIRST LEADER", true, led(secs(row.first_leader.median))),
        ("NO LEADER: MEDIAN", false, gap(gaps.median)),
        ("P99", true, gap(gaps.p99)),
        ("MAX", false, gap(gaps.max)),
        ("OVERLAP: RUNS", true, row.runs_with_overlap.to_string()),
        ("LONGEST OVERLAP", false, overlap(row)),
        ("STALE WRITES", true, row.writes_refused.to_string()),
        ("FLAPS", true, tenths(row.flaps)),
        (
            "ELECTION: MESSAGES",
            true,
            led(tenths(row.messages_per_election)),
        ),
        ("KB", true, led(tenths(per_election / 1_000.0))),
        (
            "SYNCS",
            true,
            led(or_dash(row.durable_writes_per_election.map(tenths))),
        ),
        (
            "SYNCS/MIN",
            true,
            or_dash(row.durable_writes_per_minute.map(tenths)),
        ),
        (
            "MESSAGES/MIN",
            false,
            format!("{:.0}", row.messages_at_rest),
        ),
        ("KB/MIN", true, tenths(at_rest / 1_000.0)),
        ("FLOODS", true, row.floods.to_string()),
        (
            "NO LEADER AT END",
            true,
            row.without_leader_at_end.to_string(),
        ),
    ];
    if row.seeds < ENOUGH_FOR_P99 {
        cells.retain(|(heading, ..)| *heading != "P99");
    }
    if row.live {
        let cpu = row.cpu_at_rest.map(|percent| format!("{percent:.1} %"));
        cells.push(("CPU AT REST", true, or_dash(cpu)));
    }
    cells
}

/// The longest overlap, with a mark if the receiver refuses the writes of the earlier leader.
fn overlap(row: &Measurement) -> String {
    let is_refused = row.promises_one_leader && row.runs_with_overlap > 0;
    secs(row.overlap.max) + if is_refused { "*" } else { "" }
}

/// Prints a table for each scenario, with the most useful columns, or all.
pub(super) fn print(
    rows: &[Measurement],
    scenarios: &[Scenario],
    wide: bool,
) -> anyhow::Result<()> {
    for scenario in scenarios {
        let rows = rows.iter().filter(|row| row.scenario == scenario.name);
        let rows: Vec<&Measurement> = rows.collect();
        let Some(first) = rows.first() else {
            continue;
        };
        let headings = visible(first, wide).map(|(heading, ..)| heading);
        let mut table = output::table(&headings.collect::<Vec<_>>());
        for row in &rows {
            let cells = visible(row, wide).enumerate();
            let most = |column| {
                if wide || column > 0 {
                    usize::MAX
                } else {
                    LONGEST_NAME
                }
            };
            table.add_row(cells.map(|(column, (.., text))| output::shortened(&text, most(column))));
        }
        let mark = if first.live { " (live)" } else { "" };
        let title = format!("{}{mark}: {}", scenario.name, scenario.about);
        output::line(output::wrapped(&title, "", "  "))?;
        output::print_table(&table)?;
        output::line("")?;
    }
    Ok(())
}

fn visible(row: &Measurement, wide: bool) -> impl Iterator<Item = (&'static str, bool, String)> {
    let cells = cells(row).into_iter();
    cells.filter(move |(_, is_wide, _)| wide || !is_wide)
}

/// The meaning of the columns, in one line.
pub(super) const fn legend(wide: bool) -> &'static str {
    if wide {
        "Times in seconds. DETECTION: how long it takes at most, by the settings, until another host may lead \
         after the leader has died. NO LEADER: longest time without a leader in a run. OVERLAP: runs in which \
         two tasks acted at once, and the longest such time; *: an earlier leader's task that ran on for a \
         moment, and whose writes the receiver refuses by their epoch. STALE WRITES: refused writes; without \
         epochs no write is stale. FLAPS: changes of leadership per run. ELECTION: messages about the leader \
         from the loss of one leader to the next; SYNCS: the durable writes of the store and of members in \
         that time, SYNCS/MIN: in the whole run. MESSAGES/MIN, KB/MIN: all messages at rest, before the first \
         fault. FLOODS: runs that were ended because messages only caused more messages; they count as runs \
         without a leader at the end. \"flood 5/20\": that was in 5 of 20 runs. Such a run ranks after all \
         others, and its other figures count until then. P99 needs 100 runs."
    } else {
        "Times in seconds. DETECTION: how long it takes at most, by the settings, until another host may lead \
         after the leader has died. NO LEADER: longest time without a leader in a run. OVERLAP: two tasks that \
         acted at once; *: an earlier leader's task that ran on for a moment, and whose writes the receiver \
         refuses by their epoch. MESSAGES/MIN: all messages at rest, before the first fault. --wide prints all \
         columns. \"flood 5/20\": 5 of 20 runs were ended because messages only caused more messages. Such a \
         run ranks after all others, and its other figures count until then."
    }
}

fn secs(secs: f64) -> String {
    format!("{secs:.2}")
}

fn tenths(number: f64) -> String {
    format!("{number:.1}")
}
