//! Tests of tokens that are replaced and revoked during the terms of leaders that run in this
//! process.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure::{
    Candidate, Config, Credentials, EndReason, RootCertificates, Timings, TimingsOptions,
};
use tenure_tests::process::Process;
use tenure_tests::{Limit, wait_for, wait_until};
use tokio::runtime::Runtime;

use crate::tokens::create;
use crate::{Place, read, wait_for_count};

/// Returns the configuration of a candidate of the store in this directory, without a credential.
pub(crate) fn config(place: &Place, election: &str, name: &str) -> Config {
    let mut options = TimingsOptions::default();
    options.lease_duration = Some(Duration::from_secs(6));
    let roots = RootCertificates::from_pem(read(&place.path("etc/tls/ca.pem")).into_bytes());
    Config::new(election.parse().expect("a name"))
        .with_candidate(name.parse().expect("a candidate"))
        .with_servers([place.url().parse().expect("an address")])
        .with_root_certificates(roots.expect("certificates"))
        .with_timings(Timings::new(&options).expect("timings"))
}

fn token_file(path: &str) -> Credentials {
    Credentials::token_file(path).expect("a token")
}

#[test]
fn twenty_leaders_keep_their_terms_while_their_token_is_replaced() {
    let (_limit, place) = (Limit::start(), Place::new());
    place.init();
    let first = create(&place, "worker");
    let store = place.serve();
    let ended = Arc::new(AtomicUsize::new(0));
    let files: Vec<String> = (0..20)
        .map(|number| place.text(&format!("{number}.token")))
        .collect();
    Runtime::new().expect("a runtime").block_on(async {
        let mut leaders = Vec::new();
        for (number, file) in files.iter().enumerate() {
            fs::copy(&first, file).expect("a token of this leader's own");
            let ended = Arc::clone(&ended);
            let config = config(&place, &format!("tests/job-{number}"), "one")
                .with_credentials(token_file(file))
                .with_term_hook(move |_| {
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            let candidate = Candidate::start(config).await.expect("a candidate");
            let guard = candidate.campaign().await.expect("leadership");
            leaders.push((candidate, guard));
        }
        let old = place.id_of("worker");
        let next = place.text("next.token");
        place.token_command(&["rotate", "worker", "--output", &next]);
        wait_for_count(&store, "access file reloaded", 1);
        for file in &files {
            let new = format!("{file}.new");
            fs::copy(&next, &new).expect("the next token");
            fs::rename(&new, file).expect("the next token");
        }
        place.token_command(&["revoke", &old]);
        wait_for_count(&store, "access file reloaded", 2);
        // All leaders have one address, and the store refuses all of them at the same time. A term
        // without renewals from now on would end at its renew deadline.
        let revoked = Instant::now();
        wait_until("renewals with the next token", async || {
            assert_eq!(ended.load(Ordering::SeqCst), 0, "terms that ended");
            let lead = leaders
                .iter()
                .all(|(_, leader)| leader.is_valid() && !leader.is_at_risk());
            (lead && revoked.elapsed() > Duration::from_secs(6)).then_some(())
        })
        .await;
        for (_, leader) in leaders {
            let reason = leader.resign().await;
            assert_eq!(reason, EndReason::Resigned);
        }
    });
}

#[test]
fn a_leader_keeps_its_term_while_the_token_in_its_bundle_is_replaced() {
    let (_limit, place) = (Limit::start(), Place::new());
    place.init();
    let bundle = place.create("worker");
    let store = place.serve();
    let mut run = place.command(&["run", "--election", "tests/job", "--config", &bundle]);
    run.args(["--lease-duration", "6s", "--"]);
    let run = Process::spawn(run.args(["sh", "-c", "echo led; exec sleep 1000"]));
    wait_for_count(&run, "leadership gained", 1);
    let (old, next) = (place.id_of("worker"), place.text("next.token"));
    let before = place.token_in("worker.toml");
    place.token_command(&["rotate", "worker", "--output", &next]);
    wait_for_count(&store, "access file reloaded", 1);
    let text = read(&place.path("worker.toml"));
    let text = text.replace(&before, read(&place.path("next.token")).trim());
    fs::write(&bundle, text).expect("the next bundle");
    place.token_command(&["revoke", &old]);
    wait_for_count(&store, "access file reloaded", 2);
    wait_for_count(&run, "another token is used from now on", 1);
    // A term without renewals from now on would end at its renew deadline.
    let revoked = Instant::now();
    wait_for("renewals with the next token", || {
        assert_eq!(run.stdout().lines().count(), 1, "{}", run.stderr());
        (revoked.elapsed() > Duration::from_secs(8)).then_some(())
    });
    assert_eq!(place.terms("tests/job"), 1);
}

#[test]
fn a_revoked_leader_ends_at_its_renew_deadline_and_not_before() {
    let (_limit, place) = (Limit::start(), Place::new());
    place.init();
    let (one, two) = (create(&place, "one"), create(&place, "two"));
    let store = place.serve();
    Runtime::new().expect("a runtime").block_on(async {
        let first = config(&place, "tests/job", "one").with_credentials(token_file(&one));
        let first = Candidate::start(first).await.expect("a candidate");
        let leader = first.campaign().await.expect("leadership");
        let second = config(&place, "tests/job", "two").with_credentials(token_file(&two));
        let second = Candidate::start(second).await.expect("a candidate");
        let campaign = async {
            let next = second.campaign().await.expect("leadership");
            (next, Instant::now())
        };
        let epoch = leader.epoch();
        let revocation = async {
            place.token_command(&["revoke", "--principal", "one"]);
            wait_for_count(&store, "access file reloaded", 1);
            // No renewal succeeds from now on.
            let (revoked, remaining) = (Instant::now(), leader.remaining());
            let reason = leader.lost().await;
            let ended = Instant::now();
            drop(leader);
            (revoked, remaining, reason, ended)
        };
        let ((next, led_at), (revoked, remaining, reason, ended)) =
            tokio::join!(campaign, revocation);
        assert_eq!(reason, EndReason::RenewDeadline);
        let metrics = first.metrics();
        assert!(metrics.auth_failures > 0, "{metrics:?}");
        assert_eq!(metrics.renewals.no_answer, 0, "the store has answered");
        assert!(metrics.renewals.refused > 0, "{metrics:?}");
        // A renewal may have been in progress, which only makes the term longer.
        let early = (revoked + remaining).saturating_duration_since(ended);
        assert!(
            early < Duration::from_millis(50),
            "the term ended {early:?} early"
        );
        assert!(ended < led_at, "both led for {:?}", ended - led_at);
        // The limit is a lease duration after the last renewal, plus time for a busy machine.
        assert!(
            led_at - revoked < Duration::from_secs(16),
            "{:?}",
            led_at - revoked
        );
        assert!(next.epoch() > epoch);
    });
}
