//! The figures of a comparison as tables.

use std::iter;

use tenure_lab::measure::{Measurement, columns, is_on_terminal};
use tenure_sim::scenario::Scenario;

use crate::output;

pub(super) const CSV_COLUMNS: &str = "\
contestant,scenario,detection_time_s,promises_one_leader,seeds,never_led,first_leader_median_s,first_leader_p99_s,first_leader_max_s,\
without_leader_median_s,without_leader_p99_s,without_leader_max_s,overlap_median_s,overlap_p99_s,\
overlap_max_s,runs_with_overlap,terms,flaps,writes_taken,writes_refused,election_messages_per_minute,\
detection_messages_per_minute,bytes_per_minute,messages_per_election,bytes_per_election,\
durable_writes_per_election,durable_writes_per_minute,messages_at_rest,\
bytes_at_rest,floods,without_leader_at_end,live,cpu_at_rest_percent";

/// The most characters of a name in a narrow table.
const LONGEST_NAME: usize = 26;

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
        let mut columns = columns(&rows);
        columns.retain(|(heading, ..)| is_on_terminal(heading, wide));
        let headings = columns.iter().map(|(heading, ..)| *heading);
        let mut table =
            output::table(&iter::once("CONTESTANT").chain(headings).collect::<Vec<_>>());
        let longest = if wide { usize::MAX } else { LONGEST_NAME };
        for row in &rows {
            let name = output::shortened(&row.contestant, longest);
            let cells = columns.iter().map(|(.., text)| text(row));
            table.add_row(iter::once(name).chain(cells));
        }
        let mark = if first.live { " (live)" } else { "" };
        let title = format!("{}{mark}: {}", scenario.name, scenario.about);
        output::line(output::wrapped(&title, "", "  "))?;
        output::print_table(&table)?;
        output::line("")?;
    }
    Ok(())
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
