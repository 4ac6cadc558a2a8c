//! The comparison as a table, and as comma-separated values.

use std::io;
use std::ops::Range;

use tenure_lab::measure::{Measurement, Spread};
use tenure_lab::scenario::Scenario;

use crate::output;

const COLUMNS: &[&str] = &[
    "CONTESTANT",
    "FIRST LEADER",
    "NO LEADER: MEDIAN",
    "P99",
    "MAX",
    "OVERLAP: RUNS",
    "MAX",
    "STALE WRITES",
    "FLAPS",
    "ELECTION: MESSAGES",
    "KB",
    "REST: MESSAGES/MIN",
    "KB/MIN",
    "FLOODS",
    "NO LEADER AT END",
];

/// A live run has a column more.
const LIVE_COLUMN: &str = "CPU AT REST";

pub(super) fn print(rows: &[Measurement], scenarios: &[Scenario]) -> io::Result<()> {
    let live = rows.iter().any(|row| row.live);
    let columns = [COLUMNS, if live { &[LIVE_COLUMN] } else { &[] }].concat();
    for scenario in scenarios {
        let mut table = output::table(&columns);
        for row in rows.iter().filter(|row| row.scenario == scenario.name) {
            let led = row.never_led < row.seeds;
            let of_led = |text: String| if led { text } else { "never".into() };
            let mut cells = vec![
                row.contestant.clone(),
                of_led(secs(row.first_leader.median)),
                of_led(secs(row.without_leader.median)),
                of_led(secs(row.without_leader.p99)),
                of_led(secs(row.without_leader.max)),
                row.runs_with_overlap.to_string(),
                secs(row.overlap.max),
                row.writes_refused.to_string(),
                format!("{:.1}", row.flaps),
                of_led(format!("{:.1}", row.messages_per_election)),
                of_led(format!("{:.1}", row.bytes_per_election / 1_000.0)),
                format!("{:.0}", row.messages_at_rest),
                format!("{:.1}", row.bytes_at_rest / 1_000.0),
                row.floods.to_string(),
                row.without_leader_at_end.to_string(),
            ];
            if live {
                let cpu = row.cpu_at_rest.map(|percent| format!("{percent:.1} %"));
                cells.push(cpu.unwrap_or_default());
            }
            table.add_row(cells);
        }
        let mark = if live { " (live)" } else { "" };
        output::line(format!("{}{mark}: {}", scenario.name, scenario.about))?;
        output::print_table(&table)?;
        output::line("")?;
    }
    Ok(())
}

pub(super) fn legend(nodes: u32, seeds: &Range<u64>) -> io::Result<()> {
    output::line(format!(
        "{nodes} members, or candidates and a store; seeds {}..{}, 3 virtual minutes each. NO LEADER is the \
         longest time\nwithout one in a run, OVERLAP how long two tasks ran at once. Without an epoch \
         no write is stale.\nFLAPS: how often leadership changed in a run, on average. ELECTION: what is sent about who leads while nobody does, until somebody does; \
         REST: all that is sent\nin a minute before anything goes wrong; FLOODS: runs ended because messages did nothing \
         but make more of them.",
        seeds.start, seeds.end
    ))
}

fn secs(secs: f64) -> String {
    format!("{secs:.2} s")
}

pub(super) fn csv(rows: &[Measurement]) -> io::Result<()> {
    let spread = |name: &str| format!("{name}_median_s,{name}_p99_s,{name}_max_s");
    output::line(format!(
        "contestant,scenario,seeds,never_led,{},{},{},runs_with_overlap,terms,flaps,writes_taken,writes_refused,\
         election_messages_per_minute,detection_messages_per_minute,bytes_per_minute,\
         messages_per_election,bytes_per_election,messages_at_rest,bytes_at_rest,floods,\
         without_leader_at_end,live,cpu_at_rest_percent",
        spread("first_leader"),
        spread("without_leader"),
        spread("overlap"),
    ))?;
    for row in rows {
        let spread = |it: &Spread| format!("{},{},{}", it.median, it.p99, it.max);
        output::line(format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(&row.contestant),
            row.scenario,
            row.seeds,
            row.never_led,
            spread(&row.first_leader),
            spread(&row.without_leader),
            spread(&row.overlap),
            row.runs_with_overlap,
            row.terms,
            row.flaps,
            row.writes_taken,
            row.writes_refused,
            row.election_messages_per_minute,
            row.detection_messages_per_minute,
            row.bytes_per_minute,
            row.messages_per_election,
            row.bytes_per_election,
            row.messages_at_rest,
            row.bytes_at_rest,
            row.floods,
            row.without_leader_at_end,
            row.live,
            row.cpu_at_rest.map(|it| it.to_string()).unwrap_or_default(),
        ))?;
    }
    Ok(())
}

/// A contestant may be called like a file.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
