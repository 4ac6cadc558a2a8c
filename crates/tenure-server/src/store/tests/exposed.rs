//! Metrics while commits wait and while the disk is full.

use super::*;
use std::time::Instant;

use crate::clock;
use crate::metrics::{Exposition, MetricsConfig};

fn metrics(store: &Store) -> String {
    let mut out = Exposition::default();
    store.expose(&mut out);
    let survey = store.survey(&MetricsConfig::default());
    survey.expose(&mut out, clock::wall());
    out.into_text()
}

#[track_caller]
fn assert_has(store: &Store, lines: &[&str]) {
    let text = metrics(store);
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_shown_and_a_term_that_was_undone_is_not_counted() {
    let (store, script) = scripted();
    let first = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, |script| drop(script.batch())).await;
    // The engine has a batch, so these changes wait.
    let other_key = LeaseKey::of_text("ns/other");
    let other = tokio::spawn({
        let store = store.clone();
        async move { store.acquire(&other_key, &queued(2, Duration::ZERO)).await }
    });
    let until = Instant::now() + SOON;
    while !metrics(&store).contains("tenure_journal_queue 1\n") {
        assert!(Instant::now() < until, "nothing waits");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_has(&store, &["tenure_disk_full 0"]);
    let full = AppendError::DiskFull("no space".into());
    on_engine(&script, move |script| script.decide(Err(full))).await;
    assert_eq!(refusal(first).await, Code::DiskFull);
    assert_eq!(refusal(other).await, Code::DiskFull);
    assert_has(
        &store,
        &[
            "tenure_disk_full 1",
            "tenure_journal_queue 0",
            "tenure_grants_total{how=\"at_once\"} 0",
            "tenure_leases{state=\"leased\"} 0",
        ],
    );

    let again = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::commit).await;
    answer(again).await.unwrap();
    // The grant is counted right after its answer.
    let grants = "tenure_grants_total{how=\"at_once\"} 1\n";
    while !metrics(&store).contains(grants) {
        assert!(Instant::now() < until, "no grant");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let terms = "tenure_lease_terms_total{namespace=\"ns\",lease=\"lease\"} 1";
    assert_has(&store, &["tenure_disk_full 0", terms]);
}
