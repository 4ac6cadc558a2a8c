//! Tokens that expire, missing rights, and wrong settings.

use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::config::{KubernetesLease, Strategy};
use tenure::{Candidate, Config, Credentials, EndReason, LeadershipGuard, RunError};
use tenure_tests::process::{command, output, stderr, stdout};
use tenure_tests::{Limit, wait_for, wait_until};
use tokio::task::JoinHandle;

use super::api::{Api, Asked, Fate, REFUSALS};
use super::{Bench, DURATION, ELECTION, LEASE, NAMESPACE, candidate, config};

/// The same configuration with the token in this file.
pub(super) fn with_token(config: Config, api: &Api, path: &std::path::Path) -> Config {
    let lease = KubernetesLease::new(api.url().parse().unwrap(), NAMESPACE, LEASE).unwrap();
    let token = Credentials::token_file(path).unwrap();
    let lease = lease.with_credentials(token).unwrap();
    config.with_strategy(Strategy::Kubernetes(lease))
}

#[tokio::test]
async fn a_leader_keeps_its_term_when_its_token_expires_and_the_file_has_a_new_one() {
    let _limit = Limit::start();
    let api = Api::start().await;
    api.set_tokens(&[("one", "pod")]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "one\n").unwrap();
    let config = with_token(config("leader", &api), &api, &path);
    let leader = Candidate::start(config).await.unwrap();
    let leadership = leader.campaign().await.unwrap();
    fs::write(&path, "two").unwrap();
    api.set_tokens(&[("two", "pod")]);
    let refused = |api: &Api| api.asked().iter().filter(|it| it.status == 401).count();
    wait_until("a refusal", async || (refused(&api) > 0).then_some(())).await;
    tokio::time::sleep(DURATION).await;
    assert!(leadership.is_valid());
    assert_eq!(
        refused(&api),
        1,
        "the new token was read after the first refusal"
    );
    leadership.resign().await;
}

/// The time for which a candidate without rights, or with an unknown token, tries again.
const GRACE: Duration = Duration::from_secs(3);

/// The time within which it ends, on a busy machine.
const ENDS: Duration = Duration::from_secs(20);

/// A candidate with the account `pod`, and its token in this folder.
async fn pod(api: &Api, folder: &TempDir) -> Candidate {
    api.set_tokens(&[("one", "pod"), ("other", "other")]);
    start(api, folder, "pod", "one").await
}

/// A leader with the account `other`.
async fn other_leads(api: &Api, folder: &TempDir) -> LeadershipGuard {
    api.set_tokens(&[("one", "pod"), ("other", "other")]);
    let other = start(api, folder, "other", "other").await;
    other.campaign().await.unwrap()
}

async fn start(api: &Api, folder: &TempDir, id: &str, token: &str) -> Candidate {
    let path = folder.path().join(id);
    fs::write(&path, token).unwrap();
    let config = with_token(config(id, api), api, &path);
    Candidate::start(config).await.unwrap()
}

/// Waits for the end of a campaign that is denied, after this time or later, and returns the reason.
async fn denied(candidate: &Candidate, after: Duration) -> String {
    let begin = Instant::now();
    let error = tokio::time::timeout(ENDS, candidate.campaign()).await;
    let error = error.expect("the campaign ends").unwrap_err();
    assert!(begin.elapsed() >= after, "{:?}", begin.elapsed());
    assert!(matches!(error, RunError::Denied(_)), "{error:?}");
    error.to_string()
}

/// Checks that this campaign goes on, for longer than one that lacks a right.
async fn assert_goes_on(campaign: &mut JoinHandle<LeadershipGuard>, what: &str) {
    tokio::time::sleep(GRACE + DURATION / 2).await;
    assert!(!campaign.is_finished(), "{what}: {campaign:?}");
}

fn campaign(candidate: impl Into<Arc<Candidate>>) -> JoinHandle<LeadershipGuard> {
    let candidate = candidate.into();
    tokio::spawn(async move { candidate.campaign().await.unwrap() })
}

#[tokio::test]
async fn missing_rights_end_a_campaign_with_the_reason_but_not_that_of_an_admitted_candidate() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let leader = pod(&api, &folder).await;
    let mut after = GRACE;
    for (missing, said) in [
        (
            "get",
            "get resource leases.coordination.k8s.io \"tests.job\"",
        ),
        (
            "update",
            "update resource leases.coordination.k8s.io \"tests.job\"",
        ),
        ("create", "create resource leases.coordination.k8s.io in"),
    ] {
        api.set_missing_rights("pod", &[missing]);
        // Later campaigns of a candidate that is always denied end at once.
        let text = denied(&leader, after).await;
        after = Duration::ZERO;
        let url = api.url();
        for part in [
            "user \"pod\" cannot",
            said,
            "in the namespace \"apps\"",
            "a Role must allow get, create and update",
            "token",
            &url,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert!(api.lease().is_none());
    api.set_rights("pod", true);
    leader.campaign().await.unwrap().resign().await;
    // Rights that are missing later may come back.
    api.set_rights("pod", false);
    let mut next = campaign(leader);
    assert_goes_on(&mut next, "after the first write").await;
    api.set_rights("pod", true);
    next.await.unwrap().resign().await;
}

#[tokio::test]
async fn a_follower_that_lacks_a_right_ends_and_one_that_gets_it_in_time_does_not() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let leadership = other_leads(&api, &folder).await;
    let follower = pod(&api, &folder).await;
    api.set_missing_rights("pod", &["update"]);
    let text = denied(&follower, GRACE).await;
    assert!(text.contains("user \"pod\" cannot update"), "{text}");
    // The object exists, so nobody needs to create it.
    api.set_missing_rights("pod", &["create"]);
    let mut next = campaign(follower);
    assert_goes_on(&mut next, "the object exists").await;
    // Rights that are taken away later are missed at the first write.
    api.set_missing_rights("pod", &["update"]);
    leadership.resign().await;
    let ended = tokio::time::timeout(ENDS, next).await.expect("an end");
    let panicked = ended.unwrap_err().into_panic();
    let text = panicked.downcast_ref::<String>().unwrap();
    assert!(text.contains("Denied"), "{text}");
}

#[tokio::test]
async fn a_candidate_outlasts_the_refusals_of_an_api_server_that_starts() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let leader = pod(&api, &folder).await;
    // The roles are not read yet.
    api.set_rights("pod", false);
    let mut led = campaign(leader);
    tokio::time::sleep(GRACE / 6).await;
    assert!(!led.is_finished());
    api.set_rights("pod", true);
    (&mut led).await.unwrap().resign().await;
    assert!(api.asked().iter().any(|it| it.status == 403));
}

#[tokio::test]
async fn a_token_that_is_unknown_for_a_while_ends_a_candidate_that_has_never_written() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let folder = tempfile::tempdir().unwrap();
    let leadership = other_leads(&api, &folder).await;
    let follower = Arc::new(pod(&api, &folder).await);
    let mut next = campaign(follower.clone());
    for _ in 0..2 {
        // Both times are too short, and together they are not.
        api.set_tokens(&[("other", "other")]);
        tokio::time::sleep(GRACE * 2 / 3).await;
        api.set_tokens(&[("one", "pod"), ("other", "other")]);
        let before = api.asked().len();
        wait_until("a read", async || {
            let asked = api.asked().split_off(before);
            asked
                .iter()
                .any(|it| it.user == "pod" && it.status == 200)
                .then_some(())
        })
        .await;
        assert!(!next.is_finished());
    }
    next.abort();
    let _ = (&mut next).await;
    api.set_tokens(&[("other", "other")]);
    let text = denied(&follower, GRACE).await;
    assert!(
        text.contains("401 Unauthorized") && text.contains("token"),
        "{text}"
    );
    // A leader, too, loses its token, and leads again with the next one.
    assert!(leadership.is_valid());
    api.set_tokens(&[]);
    assert_eq!(leadership.resign().await, EndReason::Resigned);
}

#[tokio::test]
async fn refusals_that_only_look_like_missing_rights_end_no_candidate_and_get_no_advice() {
    let _limit = Limit::start();
    let outlasts = async |refusal: Fate, status: u16| {
        let api = Api::start().await;
        let folder = tempfile::tempdir().unwrap();
        let is_write = |asked: &Asked| asked.method != "GET" && !asked.is_review();
        let refuse = move |asked: &Asked| match is_write(asked) {
            true => refusal,
            false => Fate::Passes,
        };
        api.set_rule(refuse);
        let mut led = campaign(pod(&api, &folder).await);
        assert_goes_on(&mut led, &format!("{refusal:?}")).await;
        api.set_rule(|_| Fate::Passes);
        let leadership = led.await.unwrap();
        // The same for a leader, which loses its term, and for its follower, which writes first.
        api.set_rule(refuse);
        let mut next = campaign(start(&api, &folder, "other", "other").await);
        assert_eq!(leadership.lost().await, EndReason::RenewDeadline);
        drop(leadership);
        assert_goes_on(&mut next, &format!("{refusal:?} while following")).await;
        wait_until("a refused write of the follower", async || {
            let asked = api.asked();
            let refused = |it: &&Asked| it.user == "other" && it.status == status;
            (asked.iter().filter(refused).count() > 1).then_some(())
        })
        .await;
        api.set_rule(|_| Fate::Passes);
        next.await.unwrap().resign().await;
    };
    let all = REFUSALS.map(|refusal| {
        let Fate::Says(status, ..) = refusal else {
            unreachable!("each is an error of the API")
        };
        outlasts(refusal, status)
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn a_review_that_fails_ends_no_candidate() {
    let _limit = Limit::start();
    let goes_on = async |fate: Fate| {
        let api = Api::start().await;
        let folder = tempfile::tempdir().unwrap();
        let leadership = other_leads(&api, &folder).await;
        api.set_rule(move |asked: &Asked| match asked.is_review() {
            true => fate,
            false => Fate::Passes,
        });
        let follower = pod(&api, &folder).await;
        let mut next = campaign(follower);
        assert_goes_on(&mut next, &format!("{fate:?}")).await;
        leadership.resign().await;
        next.await.unwrap().resign().await;
    };
    let fates = [
        Fate::Says(403, "Forbidden", "reviews are forbidden"),
        Fate::Says(
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
        Fate::Reviewed(r#"{ "allowed": false, "evaluationError": "an authorizer is away" }"#),
        Fate::Reviewed("{}"),
        Fate::Page(502),
        Fate::Busy(429, 1),
        Fate::Lost,
    ];
    futures_util::future::join_all(fates.map(goes_on)).await;
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_waited_for() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let lease = KubernetesLease::new(api.url().parse().unwrap(), "nowhere", LEASE).unwrap();
    let config = config("leader", &api).with_strategy(Strategy::Kubernetes(lease));
    let leader = Candidate::start(config).await.unwrap();
    assert_goes_on(&mut campaign(leader), "the namespace may come").await;
    assert!(
        api.asked()
            .iter()
            .any(|it| it.method == "POST" && it.status == 404)
    );
}

#[test]
fn run_without_rights_exits_with_77_and_its_lines_name_the_api_server_and_each_reason_once() {
    let bench = Bench::new();
    bench.api.set_tokens(&[("pod", "pod")]);
    let is_write = |asked: &Asked| asked.method != "GET" && !asked.is_review();
    let writes = || bench.api.asked().into_iter().filter(is_write).count();
    let mut run = None;
    for refusal in REFUSALS {
        let Fate::Says(status, reason, message) = refusal else {
            unreachable!("each is an error of the API")
        };
        bench
            .api
            .set_rule(move |asked: &Asked| match is_write(asked) {
                true => refusal,
                false => Fate::Passes,
            });
        let before = writes();
        let run = run.get_or_insert_with(|| bench.run("pod", DURATION));
        // The log escapes quotation marks.
        let message = message.replace('"', "\\\"");
        let said = format!("was refused with {status} {reason}: {message}");
        wait_for("a reason", || run.stderr().contains(&said).then_some(()));
        wait_for("refused writes", || (writes() > before + 2).then_some(()));
        let stderr = run.stderr();
        assert_eq!(stderr.matches(&said).count(), 1, "{stderr}");
        assert!(!stderr.contains("a Role must"), "{stderr}");
    }
    let mut run = run.expect("a process");
    bench.api.set_rights("pod", false);
    assert_eq!(run.wait().code(), Some(77), "{}", run.stderr());
    let stderr = run.stderr();
    let last = stderr.lines().last().unwrap();
    for part in [
        "tenure: the credential of this candidate is refused: user \"pod\" cannot get",
        "\"tests.job\" in the namespace \"apps\"",
        &bench.api.url(),
    ] {
        assert!(last.contains(part), "{part}: {stderr}");
    }
    for word in ["store", "lease service"] {
        assert!(!stderr.contains(word), "{word}: {stderr}");
    }
}

/// Runs a command with the settings of a candidate.
fn run(api: &Api, arguments: &[&str]) -> Output {
    let mut command = command(arguments);
    command
        .env("TENURE_ELECTION", ELECTION)
        .env("TENURE_STRATEGY", "kubernetes")
        .env("TENURE_LEASE_DURATION", "4s")
        .env("TENURE_KUBERNETES_URL", api.url())
        .env("TENURE_KUBERNETES_NAMESPACE", NAMESPACE);
    output(&mut command)
}

#[test]
fn doctor_finds_the_right_that_a_candidate_lacks() {
    let bench = Bench::new();
    for missing in ["get", "update", "create"] {
        bench.api.set_missing_rights("", &[missing]);
        let doctor = run(&bench.api, &["doctor"]);
        assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
        let said = format!("cannot {missing} resource leases.coordination.k8s.io");
        assert!(stdout(&doctor).contains(&said), "{doctor:?}");
    }
    bench.api.set_rights("", true);
    let doctor = run(&bench.api, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(0), "{doctor:?}");
    // A review that fails is no failed check.
    bench.api.set_rule(|asked: &Asked| match asked.is_review() {
        true => Fate::Page(404),
        false => Fate::Passes,
    });
    let doctor = run(&bench.api, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(0), "{doctor:?}");
    assert!(stdout(&doctor).contains("not reviewed"), "{doctor:?}");
}

#[test]
fn status_and_doctor_show_the_term_that_candidates_wait_for() {
    let bench = Bench::new();
    let leader = bench.candidate("leader");
    let epoch = bench.receiver.next_leader(0).epoch;
    leader.signal(Signal::SIGKILL);
    drop(leader);
    bench
        .api
        .edit(|lease| lease["spec"]["holderIdentity"] = "".into());
    let shows = |said: &str| {
        for arguments in [&["status", ELECTION][..], &["doctor"]] {
            let text = stdout(&run(&bench.api, arguments));
            assert!(text.contains("awaited") && text.contains(said), "{text}");
            assert!(text.contains("for at most 4s"), "{text}");
        }
    };
    shows(&format!("the term of leader under epoch {epoch}"));
    let json = stdout(&run(&bench.api, &["status", ELECTION, "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let awaited = &json["awaited"];
    assert_eq!(
        (&awaited["holder"], &awaited["epoch"]),
        (&json!("leader"), &json!(epoch))
    );
    let left = awaited["remaining_ms"].as_u64().unwrap();
    assert!((1..=4_000).contains(&left), "{left}");
    // Waiting candidates log it once.
    let waiting = bench.run("waiting", DURATION);
    wait_for("the next leader", || {
        bench.log().contains(" waiting ").then_some(())
    });
    let said = "waiting for its end";
    let stderr = waiting.stderr();
    assert_eq!(stderr.matches(said).count(), 1, "{stderr}");
    assert!(
        stderr.contains(&format!("leader=leader epoch={epoch}")),
        "{stderr}"
    );
    drop(waiting);
    bench.api.edit(|lease| {
        lease["metadata"]["annotations"] = json!({});
        lease["spec"] = json!({});
    });
    shows("a term that may run although the object does not show it");
}

#[test]
fn commands_show_the_object_and_refuse_what_only_a_store_has() {
    let bench = Bench::new();
    let leader = bench.runtime.block_on(candidate("leader", &bench.api));
    let leadership = bench.runtime.block_on(leader.campaign()).unwrap();
    let epoch = leadership.epoch().to_string();
    let status = stdout(&run(&bench.api, &["status", ELECTION]));
    assert!(
        status.contains("leader") && status.contains(&epoch),
        "{status}"
    );
    let said = stdout(&run(&bench.api, &["doctor"]));
    assert!(said.contains("namespaces/apps/leases/tests.job"), "{said}");
    for refused in [
        &["history", ELECTION][..],
        &["break", ELECTION, "--reason", "x"],
    ] {
        let output = run(&bench.api, refused);
        assert!(!output.status.success(), "{output:?}");
        assert!(stderr(&output).contains("kubectl get lease"), "{output:?}");
    }
    bench.runtime.block_on(leadership.resign());
}
