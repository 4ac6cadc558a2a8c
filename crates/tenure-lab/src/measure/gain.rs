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
    let of_each = |row: fn(&(&Measurement, &Measurement)) -> Option<f64>| {
        let counted: Option<Vec<f64>> = pairs.iter().map(row).collect();
        counted.map(|each| each.iter().sum::<f64>() / each.len() as f64)
    };
    let with_lease = of_each(|(lease, _)| lease.durable_writes_per_election);
    let with_fallback = of_each(|(_, fallback)| fallback.durable_writes_per_election);
    let writes = with_lease.zip(with_fallback).map(|(lease, fallback)| {
        format!(", and durable writes per election: {lease:.1} → {fallback:.1}")
    });
    let writes = writes.unwrap_or_default();
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
    use tenure_sim::scenario::Scenario;

    use super::*;
    use crate::measure::{Comparison, compare};

    fn of(contestants: &[&str]) -> Option<String> {
        let named = contestants
            .iter()
            .map(|it| crate::contestant_of_name(it).unwrap());
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
