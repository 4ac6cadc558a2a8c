//! Tokens that expire, missing rights, and wrong settings.

use std::fs;
use std::time::Duration;

use tenure::config::{KubernetesLease, Strategy};
use tenure::{Candidate, Config, Credentials, RunError};
use tenure_tests::process::{command, output, stderr, stdout};
use tenure_tests::{Limit, wait_until};

use super::api::Api;
use super::{DURATION, ELECTION, LEASE, NAMESPACE, candidate, config};

/// The same configuration with the token in this file.
fn with_token(config: Config, api: &Api, path: &std::path::Path) -> Config {
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

#[tokio::test]
async fn missing_rights_end_a_campaign_with_the_reason_but_not_that_of_an_admitted_candidate() {
    let _limit = Limit::start();
    let api = Api::start().await;
    api.set_tokens(&[("one", "pod")]);
    api.set_rights("pod", false);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "one").unwrap();
    let config = with_token(config("leader", &api), &api, &path);
    let leader = Candidate::start(config).await.unwrap();
    let error = leader.campaign().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Denied(_)), "{error:?}");
    for part in [
        "403 Forbidden",
        "a Role must allow get, create and update",
        "token",
    ] {
        assert!(text.contains(part), "{text}");
    }
    api.set_rights("pod", true);
    leader.campaign().await.unwrap().resign().await;
    // Rights that are missing later may come back.
    api.set_rights("pod", false);
    let refused = tokio::time::timeout(Duration::from_secs(4), leader.campaign()).await;
    assert!(refused.is_err(), "a campaign goes on");
    api.set_rights("pod", true);
    leader.campaign().await.unwrap().resign().await;
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_ends_the_campaign() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let lease = KubernetesLease::new(api.url().parse().unwrap(), "nowhere", LEASE).unwrap();
    let config = config("leader", &api).with_strategy(Strategy::Kubernetes(lease));
    let leader = Candidate::start(config).await.unwrap();
    let error = leader.campaign().await.unwrap_err().to_string();
    assert!(
        error.contains("namespaces \"nowhere\" not found"),
        "{error}"
    );
}

#[tokio::test]
async fn commands_show_the_object_and_refuse_what_only_a_store_has() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let epoch = leadership.epoch().to_string();
    let url = api.url();
    let ran = tokio::task::spawn_blocking(move || {
        let run = |arguments: &[&str]| {
            let mut command = command(arguments);
            command
                .env("TENURE_ELECTION", ELECTION)
                .env("TENURE_STRATEGY", "kubernetes")
                .env("TENURE_KUBERNETES_URL", &url)
                .env("TENURE_KUBERNETES_NAMESPACE", NAMESPACE);
            output(&mut command)
        };
        let status = stdout(&run(&["status", ELECTION]));
        assert!(
            status.contains("leader") && status.contains(&epoch),
            "{status}"
        );
        let doctor = run(&["doctor"]);
        let said = stdout(&doctor);
        assert!(said.contains("namespaces/apps/leases/tests.job"), "{said}");
        for refused in [
            &["history", ELECTION][..],
            &["break", ELECTION, "--reason", "x"],
        ] {
            let output = run(refused);
            assert!(!output.status.success(), "{output:?}");
            assert!(stderr(&output).contains("kubectl get lease"), "{output:?}");
        }
    });
    ran.await.unwrap();
    leadership.resign().await;
}

#[test]
fn a_configuration_for_pods_can_be_checked_on_any_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        output(&mut command(&["config", "check", path.to_str().unwrap()]))
    };
    let valid = check("election = \"billing/nightly\"\nstrategy = \"kubernetes\"\n");
    assert!(valid.status.success(), "{valid:?}");
    let said = stdout(&valid);
    assert!(said.contains("billing.nightly"), "{said}");
    let beside =
        check("election = \"billing/nightly\"\nstrategy = \"kubernetes\"\n[fallback]\nnode = 1\n");
    assert!(!beside.status.success());
    assert!(
        stderr(&beside).contains("write strategy = \"lease\""),
        "{beside:?}"
    );
}
