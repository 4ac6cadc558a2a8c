//! Looks of a leader at its object between renewals, and of candidates that wait for it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure::{Candidate, Config, EndReason, LeadershipGuard};
use tenure_tests::{Limit, wait_until};

use super::api::{Api, Asked, Fate};
use super::{DURATION, candidate, config, holder};

/// Half of the renew interval of [`patient`]. Looks are a fifth of it apart.
const BEFORE_RENEWAL: Duration = Duration::from_secs(15);

fn patient(id: &str, api: &Api) -> Config {
    let long = |timings: &mut tenure::TimingsOptions| {
        timings.lease_duration = Some(Duration::from_secs(90));
    };
    config(id, api).with_adjusted_timings(long).unwrap()
}

async fn patient_leader(api: &Api) -> LeadershipGuard {
    let leader = Candidate::start(patient("leader", api)).await.unwrap();
    leader.campaign().await.unwrap()
}

#[tokio::test]
async fn a_leader_ends_its_term_within_a_look_after_another_program_has_its_object() {
    let _limit = Limit::start();
    let ends = async |edit: fn(&mut Value)| {
        let api = Api::start().await;
        let leadership = patient_leader(&api).await;
        let begin = Instant::now();
        api.edit(edit);
        let edited = api.lease().unwrap();
        assert_eq!(leadership.lost().await, EndReason::Superseded);
        assert!(begin.elapsed() < BEFORE_RENEWAL, "{:?}", begin.elapsed());
        drop(leadership);
        assert_eq!(api.lease().unwrap(), edited);
    };
    let edits: [fn(&mut Value); 3] = [
        |lease| lease["spec"]["holderIdentity"] = "thief".into(),
        // Under the same name.
        |lease| lease["spec"]["leaseTransitions"] = 7.into(),
        // The mark of another term.
        |lease| {
            let term = &mut lease["metadata"]["annotations"]["tenure/term"];
            let other = "4000000000000/0/now/90/0/00000000-0000-4000-8000-000000000000/other";
            *term = format!("running/{other}").into();
        },
    ];
    futures_util::future::join_all(edits.map(ends)).await;
    let api = Api::start().await;
    let leadership = patient_leader(&api).await;
    let begin = Instant::now();
    api.delete();
    assert_eq!(leadership.lost().await, EndReason::Superseded);
    assert!(begin.elapsed() < BEFORE_RENEWAL, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_leader_writes_itself_back_within_a_look_after_another_program_has_emptied_its_object() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leadership = patient_leader(&api).await;
    let mark = |lease: &Value| lease["metadata"]["annotations"]["tenure/term"].is_string();
    let edits: [fn(&mut Value); 3] = [
        |lease| lease["spec"]["holderIdentity"] = "".into(),
        |lease| lease["spec"] = json!({}),
        |lease| lease["metadata"]["annotations"] = json!({}),
    ];
    for edit in edits {
        let begin = Instant::now();
        api.edit(edit);
        wait_until("the leader in its object", async || {
            let lease = api.lease().unwrap();
            (holder(&lease) == "leader" && mark(&lease)).then_some(())
        })
        .await;
        assert!(begin.elapsed() < BEFORE_RENEWAL, "{:?}", begin.elapsed());
        assert!(leadership.is_valid());
    }
    leadership.resign().await;
}

#[tokio::test]
async fn looks_that_fail_or_hang_end_no_term() {
    let _limit = Limit::start();
    let lasts = async |fate: Fate| {
        let api = Api::start().await;
        let leader = candidate("leader", &api).await;
        let leadership = leader.campaign().await.unwrap();
        api.set_rule(move |asked: &Asked| match asked.method.as_str() {
            "GET" => fate,
            _ => Fate::Passes,
        });
        let count = |method: &str, api: &Api| {
            let asked = api.asked().into_iter();
            asked.filter(|it| it.method == method).count()
        };
        let (looks, renewals) = (count("GET", &api), count("PUT", &api));
        tokio::time::sleep(3 * DURATION).await;
        assert!(leadership.is_valid(), "{fate:?}");
        assert!(count("GET", &api) > looks, "{fate:?}");
        assert!(count("PUT", &api) > renewals + 3, "{fate:?}");
        api.set_rule(|_| Fate::Passes);
        assert_eq!(leadership.resign().await, EndReason::Resigned);
    };
    let fates = [
        Fate::Lost,
        Fate::Page(502),
        Fate::Says(403, "Forbidden", "no more"),
        Fate::Refused(401, "Unauthorized", 0),
        Fate::Busy(429, 30),
    ];
    futures_util::future::join_all(fates.map(lasts)).await;
}

#[tokio::test]
async fn a_look_without_an_answer_brings_the_renewal_forward() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leadership = patient_leader(&api).await;
    api.set_rule(|asked: &Asked| match asked.method.as_str() {
        "GET" => Fate::Lost,
        _ => Fate::Passes,
    });
    let renewed = || api.lease().unwrap()["spec"]["renewTime"].clone();
    let (begin, before) = (Instant::now(), renewed());
    wait_until("a renewal", async || (renewed() != before).then_some(())).await;
    // Two looks of 6 s are over before that, and the renewal would be due after 27 s or more.
    assert!(
        begin.elapsed() < Duration::from_secs(25),
        "{:?}",
        begin.elapsed()
    );
    assert!(leadership.is_valid());
    api.set_rule(|_| Fate::Passes);
    leadership.resign().await;
}

#[tokio::test]
async fn a_waiting_candidate_reads_the_object_at_the_moment_at_which_it_is_free() {
    let _limit = Limit::start();
    let api = Api::start().await;
    patient_leader(&api).await.resign().await;
    api.edit(|lease| {
        lease["spec"]["holderIdentity"] = "go".into();
        lease["spec"]["leaseDurationSeconds"] = 1.into();
    });
    // It polls every 20 s.
    let long = |timings: &mut tenure::TimingsOptions| {
        timings.lease_duration = Some(Duration::from_secs(300));
    };
    let next = config("next", &api).with_adjusted_timings(long).unwrap();
    let next = Candidate::start(next).await.unwrap();
    let begin = Instant::now();
    let leadership = next.campaign().await.unwrap();
    let waited = begin.elapsed();
    let expected = Duration::from_secs(1)..Duration::from_secs(15);
    assert!(expected.contains(&waited), "{waited:?}");
    leadership.resign().await;
}
