//! Tests of candidates of the library that the store never accepts, and of tokens that are wrong
//! from the start.

use tenure::store::StoreClient;
use tenure::{Candidate, Config, Credentials};
use tenure_tests::Limit;
use tokio::runtime::Runtime;

use crate::rotation::config;
use crate::tokens::create;
use crate::{Place, started};

/// Returns the error of a campaign with this configuration. The campaign must end without a request
/// to stop.
fn campaign_error(runtime: &Runtime, config: Config) -> String {
    runtime.block_on(async {
        let candidate = Candidate::start(config).await.expect("a candidate");
        let error = candidate.campaign().await.expect_err("no leadership");
        with_causes(&error)
    })
}

/// Returns the error with its causes.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

#[test]
fn a_campaign_that_is_never_let_in_ends_and_names_the_file_the_principal_and_the_right() {
    let (_limit, place, runtime) = (Limit::start(), Place::new(), Runtime::new().unwrap());
    place.init();
    let token = create(&place, "worker");
    let path = place.text("etc/tenure.toml");
    let mut serve = place.command(&["serve", "--config", &path]);
    let store = started(serve.env("TENURE_LOG", "debug"));
    let config = |election: &str| config(&place, election, "one");

    let error = campaign_error(&runtime, config("tests/job"));
    let route = "POST v1/namespaces/tests/leases/job/acquire";
    for words in ["unauthenticated", "no token is set", route] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let with = |path: &str| Credentials::token_file(path).unwrap();
    let denied = config("other/job").with_credentials(with(&token));
    let error = campaign_error(&runtime, denied);
    for words in [
        "forbidden",
        "\"worker\"",
        "role candidate",
        "other/job",
        &token,
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    // The token has the right form, but the store does not know it.
    let wrong = place.text("wrong.token");
    std::fs::write(&wrong, "tnr1_aaaaaaaa_wrong").unwrap();
    let unknown = config("tests/job").with_credentials(with(&wrong));
    let error = campaign_error(&runtime, unknown);
    for words in ["unauthenticated", &wrong, route] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!error.contains("tnr1_"), "{error}");
    // The log of the store has the reason, which no client gets.
    let log = store.stderr();
    assert!(log.contains("a credential is refused"), "{log}");
    assert!(!log.contains("aaaaaaaa_wrong"), "{log}");
}

#[test]
fn a_client_of_the_library_does_not_take_a_token_to_a_plain_address() {
    let servers = ["http://192.0.2.7:7400".parse().unwrap()];
    let client = StoreClient::new(&servers).unwrap();
    let token = Credentials::token("tnr1_secret").unwrap();
    let error = client.with_credentials(token.clone()).unwrap_err();
    assert!(error.to_string().contains("unencrypted"), "{error}");
    let config = Config::new("tests/job".parse().unwrap()).with_servers(servers);
    let started = Runtime::new()
        .unwrap()
        .block_on(Candidate::start(config.with_credentials(token)));
    let error = with_causes(&started.unwrap_err());
    assert!(
        error.contains("unencrypted") && !error.contains("secret"),
        "{error}"
    );
}
