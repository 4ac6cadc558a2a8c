//! The gain of a fallback over a lease alone, and its cost.

use super::Measurement;

/// Describes in one sentence for each fallback among these rows how much shorter the time without a
/// leader is than with the first lease alone, and the cost. `None` if the rows do not have both.
#[must_use]
pub fn gain_of_fallback(rows: &[Measurement]) -> Option<String> {
    let lease = rows
        .iter()
        .find(|row| row.contestant.starts_with("lease"))?;
    let mut fallbacks: Vec<&str> = Vec::new();
    for row in rows {
        let name = &row.contestant[..];
        if name.starts_with("fallback") && !fallbacks.contains(&name) {
            fallbacks.push(name);
        }
    }
    let sentences: Vec<String> = fallbacks
        .iter()
        .filter_map(|fallback| sentence(rows, &lease.contestant, fallback))
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

fn sentence(rows: &[Measurement], lease: &str, fallback: &str) -> Option<String> {
    let of = |contestant| rows.iter().filter(move |row| row.contestant == contestant);
    let pairs: Vec<(&Measurement, &Measurement)> = of(lease)
        .filter_map(|lease| {
            let same = of(fallback).find(|row| row.scenario == lease.scenario)?;
            Some((lease, same))
        })
        .collect();
    let &(first_lease, first_fallback) = pairs.first()?;
    let gaps = pairs.iter().map(|(lease, fallback)| {
        let gap = |row: &Measurement| row.gap_text(row.without_leader.median, " s");
        format!("{} → {} in {}", gap(lease), gap(fallback), lease.scenario)
    });
    let gaps: Vec<String> = gaps.collect();
    let mean = |of: fn(&Measurement) -> f64| {
        let count = pairs.len() as f64;
        let sum = pairs.iter().fold((0.0, 0.0), |sum, (lease, fallback)| {
            (sum.0 + of(lease), sum.1 + of(fallback))
        });
        (sum.0 / count, sum.1 / count)
    };
    let writes = mean(|row| row.durable_writes_per_election);
    let writes = match first_lease.live {
        true => String::new(),
        false => format!(
            ", and durable writes per election: {:.1} → {:.1}",
            writes.0, writes.1
        ),
    };
    Some(format!(
        "{fallback} instead of {lease}: median time without a leader {}; messages per minute at rest: \
         {:.0} → {:.0}{writes}.",
        gaps.join(", "),
        first_lease.messages_at_rest,
        first_fallback.messages_at_rest,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::Contestant;
    use crate::measure::{Comparison, compare};
    use crate::scenario::Scenario;

    fn of(contestants: &[&str]) -> Option<String> {
        let named = contestants
            .iter()
            .map(|it| Contestant::of_name(it).unwrap());
        let comparison = Comparison {
            contestants: named.collect(),
            scenarios: vec![Scenario::of_name("store-down-minute").unwrap()],
            seeds: 0..2,
        };
        gain_of_fallback(&compare(&comparison, || {}))
    }

    #[test]
    fn a_fallback_leads_through_an_outage_of_the_store_and_the_sentence_names_its_cost() {
        let sentence = of(&["lease", "fallback-k1", "bully"]).unwrap();
        assert!(
            sentence.contains("fallback-k1 instead of lease: "),
            "{sentence}"
        );
        assert!(
            sentence.contains(" s → 0.00 s in store-down-minute"),
            "{sentence}"
        );
        assert!(sentence.contains("at rest: 56 → 1"), "{sentence}");
        assert!(
            sentence.contains("durable writes per election: "),
            "{sentence}"
        );
        assert_eq!(of(&["lease", "bully"]), None);
    }
}
