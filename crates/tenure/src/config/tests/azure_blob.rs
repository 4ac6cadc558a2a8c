//! The settings of the lease of a blob.

use super::load;
use crate::Guarantee;
use crate::config::{Config, Strategy};

/// Loads a configuration for the lease of a blob, with `before` at its top level and `table` in its
/// table.
fn azure_blob(before: &str, table: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let text = format!(
        "election = \"billing/nightly\"\nstrategy = \"azure-blob\"\n{before}\n[azure_blob]\n{table}"
    );
    load(&text, environment)
}

fn url_of(config: &Config) -> &str {
    match &config.strategy {
        Strategy::AzureBlob(blob) => blob.url(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_blob_has_the_name_of_the_election_or_a_configured_name() {
    let key = &[("TENURE_AZURE_BLOB_KEY", "c2VjcmV0")];
    let config = azure_blob("", "account = \"acct\"", key).unwrap();
    let public = "https://acct.blob.core.windows.net/billing/nightly";
    assert_eq!(url_of(&config), public);
    assert_eq!(config.guarantee(), Guarantee::FencedLease);
    let table =
        "account = \"acct\"\nurl = \"http://h:1/acct\"\ncontainer = \"locks\"\nblob = \"a/b\"";
    let config = azure_blob("", table, key).unwrap();
    assert_eq!(url_of(&config), "http://h:1/acct/locks/a/b");
    let string = &[(
        "TENURE_AZURE_BLOB_CONNECTION_STRING",
        "UseDevelopmentStorage=true",
    )];
    let config = azure_blob("", "container = \"locks\"", string).unwrap();
    let local = "http://127.0.0.1:10000/devstoreaccount1/locks/nightly";
    assert_eq!(url_of(&config), local);
    let sas = "account = \"acct\"\nsas = \"?sv=1&sig=c2VjcmV0\"";
    let config = azure_blob("", sas, &[]).unwrap();
    assert_eq!(url_of(&config), public);
    let shown = format!("{config:?}");
    assert!(
        shown.contains(public) && !shown.contains("c2Vjc"),
        "{shown}"
    );
}

#[test]
fn errors_in_the_settings_of_a_blob_name_the_key_and_no_secret() {
    let account = "account = \"acct\"\nkey = \"c2VjcmV0\"";
    for (before, table, told) in [
        (
            "",
            "",
            "azure_blob.key is not set: name a credential of the account",
        ),
        ("", "key = \"c2VjcmV0\"", "azure_blob.account is not set"),
        (
            "",
            "sas = \"sv=1&sig=c2VjcmV0\"",
            "azure_blob.account is not set",
        ),
        (
            "",
            "account = \"Acct\"\nkey = \"c2VjcmV0\"",
            "tenure.toml:5: azure_blob.account = \"Acct\": \"Acct\" is not an account name",
        ),
        (
            "",
            "account = \"acct\"\nkey = \"c2VjcmV0!\"",
            "tenure.toml:6: azure_blob.key = (secret): the account key is not base64",
        ),
        (
            "",
            "account = \"acct\"\nsas = \"c2VjcmV0\"",
            "azure_blob.sas = (secret): this is not a shared access signature",
        ),
        (
            "",
            "url = \"https://h?sv=1&sig=c2VjcmV0\"\nsas = \"sv=1&sig=c2VjcmV0\"",
            "azure_blob.url = (secret): https://h is not the URL of a blob service",
        ),
        (
            "",
            "account = \"acct\"\nkey = \"c2VjcmV0\"\nsas = \"sv=1&sig=c2VjcmV0\"",
            "azure_blob.sas = (secret): azure_blob.key is set, too (tenure.toml:6): leave one",
        ),
        (
            "",
            "account = \"acct\"\nconnection_string = \"UseDevelopmentStorage=true\"",
            "azure_blob.account = \"acct\": azure_blob.connection_string is set, too",
        ),
        (
            "",
            "connection_string = \"AccountName=acct;AccountKey=c2VjcmV0!\"",
            "azure_blob.connection_string = (secret): the account key is not base64",
        ),
        (
            "",
            "key_file = \"/nowhere\"",
            "azure_blob.key_file = \"/nowhere\": can't read it",
        ),
        (
            "",
            "acount = \"acct\"",
            "unknown key azure_blob.acount; did you mean azure_blob.account?",
        ),
        (
            "lease_duration = \"10s\"",
            account,
            "tenure.toml:3: lease_duration = \"10s\": Azure grants leases of 15 to 60 whole seconds",
        ),
        (
            "lock_delay = \"5s\"",
            account,
            "tenure.toml:3: lock_delay = \"5s\": Azure has no lock delay",
        ),
        (
            "",
            "account = \"acct\"\nkey = \"c2VjcmV0\"\ncontainer = \"Locks\"",
            "azure_blob.container = \"Locks\": \"Locks\" is not a container name",
        ),
    ] {
        let error = azure_blob(before, table, &[]).unwrap_err();
        assert!(error.contains(told), "{error}\n{told}");
        assert!(!error.contains("c2Vjc"), "{error}");
    }
    let error = load(
        "election = \"Billing_1/nightly\"\nstrategy = \"azure-blob\"\n[azure_blob]\n\
         account = \"acct\"\nkey = \"c2VjcmV0\"",
        &[],
    );
    let told = "name another one as azure_blob.container";
    assert!(
        error.as_ref().is_err_and(|error| error.contains(told)),
        "{error:?}"
    );
}
