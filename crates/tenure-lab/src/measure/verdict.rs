//! What the figures of a comparison say about each contestant, in one sentence.

use super::Measurement;
use crate::paper::short;

/// Describes each contestant of these rows in one sentence, in the order of the rows.
#[must_use]
pub fn verdicts(rows: &[Measurement]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&&row.contestant[..]) {
            names.push(&row.contestant);
        }
    }
    let of = |name| rows.iter().filter(move |row| row.contestant == name);
    let sentences = names
        .into_iter()
        .map(|name| verdict(name, &of(name).collect::<Vec<_>>()));
    sentences.collect()
}

fn verdict(name: &str, rows: &[&Measurement]) -> String {
    let parts = [
        without_leader(rows),
        rows.first().map(|row| at_rest(row)),
        Some(overlap(rows)),
        not_recovered(rows),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{name}: {}.", parts.join("; "))
}

/// Describes the time without a leader after a crash, or in the worst scenario if no leader was
/// killed.
fn without_leader(rows: &[&Measurement]) -> Option<String> {
    let longest = |row: &Measurement| row.without_leader.max;
    let killed = rows.iter().find(|row| row.scenario == "kill-leader");
    let worst = rows.iter().max_by(|a, b| longest(a).total_cmp(&longest(b)));
    let (row, when) = match (killed, worst) {
        (Some(row), _) => (row, "after a crash".to_owned()),
        (None, Some(row)) => (row, format!("in {}", row.scenario)),
        (None, None) => return None,
    };
    if row.never_led == row.seeds {
        return Some(format!("never a leader in {}", row.scenario));
    }
    let (median, max) = (row.without_leader.median, row.without_leader.max);
    if median.is_infinite() {
        let (floods, seeds) = (row.floods, row.seeds);
        return Some(format!(
            "messages only caused more messages in {floods} of {seeds} runs of {}",
            row.scenario
        ));
    }
    let set = row.detection_time.map_or_else(String::new, |secs| {
        format!(", set to detect it within {} s", short(secs))
    });
    Some(format!(
        "no leader for {} {when} (at most {}){set}",
        row.gap_text(median, " s"),
        row.gap_text(max, " s")
    ))
}

fn at_rest(row: &Measurement) -> String {
    let cpu = row.cpu_at_rest.map_or_else(String::new, |percent| {
        format!(" and {percent:.1} % of a processor")
    });
    format!("{:.0} messages a minute{cpu} at rest", row.messages_at_rest)
}

/// Describes the overlap of two leaders.
fn overlap(rows: &[&Measurement]) -> String {
    let longest = |row: &Measurement| row.overlap.max;
    let worst = rows.iter().max_by(|a, b| longest(a).total_cmp(&longest(b)));
    let Some(row) = worst.filter(|row| row.runs_with_overlap > 0) else {
        return "no overlap".into();
    };
    let (secs, scenario) = (row.overlap.max, &row.scenario);
    let others = rows.iter().filter(|row| row.runs_with_overlap > 0).count() - 1;
    let others = match others {
        0 => String::new(),
        1 => " and 1 other scenario".into(),
        count => format!(" and {count} other scenarios"),
    };
    if row.promises_one_leader {
        format!(
            "in {scenario}{others} the task of an earlier leader ran on for {secs:.2} s beside the new \
             one, and the receiver refuses its writes by their epoch"
        )
    } else {
        format!("two leaders at once for up to {secs:.2} s in {scenario}{others}")
    }
}

/// Describes the runs that ended without a leader.
fn not_recovered(rows: &[&Measurement]) -> Option<String> {
    let worst = rows.iter().max_by_key(|row| row.without_leader_at_end)?;
    let (ends, seeds) = (worst.without_leader_at_end, worst.seeds);
    (ends > 0).then(|| {
        format!(
            "no leader at the end of {ends} of {seeds} runs of {}",
            worst.scenario
        )
    })
}

#[cfg(test)]
mod tests {
    use tenure_sim::scenario::Scenario;

    use super::*;
    use crate::measure::{Comparison, compare};

    #[test]
    fn a_sentence_names_the_timing_and_tells_a_refused_write_from_a_second_leader() {
        let contestants = ["lease", "bully-no-quorum"];
        let scenarios = ["kill-leader", "freeze-leader", "cut-leader"];
        let comparison = Comparison {
            contestants: contestants
                .map(|it| crate::contestant_of_name(it).unwrap())
                .to_vec(),
            scenarios: scenarios.map(|it| Scenario::of_name(it).unwrap()).to_vec(),
            seeds: 0..3,
        };
        let said = verdicts(&compare(&comparison, || {}));
        assert_eq!(said.len(), 2);
        for part in [
            "lease: no leader for 1",
            "set to detect it within 15 s",
            "56 messages a minute at rest",
            "in freeze-leader the task of an earlier leader ran on for 0.10 s",
            "refuses its writes by their epoch.",
        ] {
            assert!(said[0].contains(part), "{part}: {}", said[0]);
        }
        for part in [
            "within 1.5 s",
            "two leaders at once for up to 39.",
            "in cut-leader and 1 other scenario",
        ] {
            assert!(said[1].contains(part), "{part}: {}", said[1]);
        }
    }
}
