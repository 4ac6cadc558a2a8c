use std::fs;
use std::time::Duration;

use super::load::{from_settings, read_file};
use super::{Config, ConfigError, Origin, Strategy};
use crate::Guarantee;

/// What a file gives, and what the environment makes of it.
fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, text).unwrap();
    let mut settings = super::load::settings();
    let environment = environment
        .iter()
        .map(|&(name, value)| (name.into(), value.into()));
    let config = read_file(&mut settings, &path).and_then(|()| {
        settings.read_environment("TENURE_", environment)?;
        from_settings(&settings)
    });
    let folder = format!("{}/", folder.path().display());
    config.map_err(|error| error.to_string().replace(&folder, ""))
}

fn refused(text: &str) -> String {
    load(text, &[]).unwrap_err()
}

#[test]
fn one_line_is_a_configuration() {
    let config = load("election = \"billing/nightly\"", &[]).unwrap();
    assert_eq!(config.election().to_string(), "billing/nightly");
    assert_eq!(config.servers()[0].to_string(), "http://127.0.0.1:7400/");
    assert_eq!(config.timings().lease_duration(), Duration::from_secs(15));
    let other = load("election = \"billing/nightly\"", &[]).unwrap();
    assert_ne!(
        config.candidate(),
        other.candidate(),
        "each start has an id of its own"
    );
}

#[test]
fn every_key_is_accepted() {
    let config = load(
        r#"
            election = "nightly"
            candidate = "worker-1"
            servers = ["http://a:1", "https://b:2/base"]
            priority = 7
            lease_duration = "30s"
            renew_interval = "4s"
            renew_deadline = "12s"
            stop_grace = "6s"
            cool_down = "1m"
            lock_delay = "2s"
            on_overrun = "exit"
            [metadata]
            address = "http://10.0.0.7"
            [serve]
            listen = "0.0.0.0:7400"
        "#,
        &[],
    )
    .unwrap();
    assert_eq!(config.candidate().as_str(), "worker-1");
    assert_eq!((config.servers().len(), config.priority), (2, 7));
    assert_eq!(config.timings().hard_stop(), Duration::from_secs(18));
    assert_eq!(config.timings().cool_down(), Duration::from_secs(60));
    assert_eq!(config.lock_delay, Duration::from_secs(2));
    assert_eq!(config.metadata["address"], "http://10.0.0.7");
}

#[test]
fn the_environment_overrides_the_file_and_other_names_are_ignored() {
    let config = load(
        "election = \"a\"\nservers = [\"http://file:1\"]",
        &[
            ("TENURE_ELECTION", "b/c"),
            ("TENURE_SERVER", "http://x:1,http://y:2"),
            ("TENURE_EPOCH", "7"),
            ("TENURE_PORT_7400_TCP", "tcp://10.0.0.1:7400"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!(config.election().to_string(), "b/c");
    let servers: Vec<_> = config.servers().iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["http://x:1/", "http://y:2/"]);
}

#[test]
fn an_invalid_value_is_reported_with_file_line_key_value_and_a_valid_value() {
    for (line, parts) in [
        (
            "lease_duration = \"15\"",
            ["lease_duration", "\"15\"", "\"15s\""],
        ),
        (
            "lease_duration = 15",
            ["lease_duration = 15:", "number and a unit", "\"15s\""],
        ),
        (
            "lease_duration = [\"15s\"]",
            ["lease_duration", "[\"15s\"]", "of type array"],
        ),
        ("priority = -1", ["priority", "= -1:", "0 to 4294967295"]),
        (
            "priority = 99999999999999999999",
            ["priority", "99999999999999999999", "0 to 4294967295"],
        ),
        (
            "priority = \"7\"",
            ["priority = \"7\"", "0 to 4294967295", "of type string"],
        ),
        (
            "priority = [7]",
            ["priority = [7]", "0 to 4294967295", "array of integer"],
        ),
        (
            "priority = 7.5",
            ["priority = 7.5:", "0 to 4294967295", "float"],
        ),
        (
            "require_fencing = \"true\"",
            ["= \"true\"", "must be true or false", "string"],
        ),
        (
            "strategy = [\"bully\"]",
            ["strategy = [\"bully\"]", "must be text", "array"],
        ),
        ("metadata = 5", ["metadata = 5", "table", "[metadata]"]),
        ("ca_file = 5", ["ca_file = 5", "must be text", "integer"]),
        (
            "servers = [\"http://a\", 5]",
            ["servers = [\"http://a\", 5]", "texts", "array of integer"],
        ),
        (
            "metadata = { a = [1] }",
            ["metadata.a = [1]", "text", "array of integer"],
        ),
        (
            "metadata = { a = 1 }",
            ["metadata.a = 1:", "text in quotes", "integer"],
        ),
        (
            "progress_deadline = \"0s\"",
            ["progress_deadline = \"0s\"", "0ns", "at least 200ms"],
        ),
        (
            "lease_duration = \"25h\"",
            ["lease_duration = \"25h\"", "90000s", "1s to 24h"],
        ),
        (
            "renew_interval = \"50ms\"",
            ["renew_interval = \"50ms\"", "50ms", "100ms"],
        ),
        (
            "candidate = \"a b\"",
            ["candidate", "\"a b\"", "visible ASCII"],
        ),
        (
            "servers = [\"ftp://x\"]",
            ["servers", "ftp://x", "http://127.0.0.1:7400"],
        ),
        (
            "servers = [\"127.0.0.1:7400\"]",
            ["servers", "127.0.0.1:7400", "http://127.0.0.1:7400"],
        ),
        ("servers = []", ["servers", "[]", "at least one"]),
        ("lock_delay = \"25h\"", ["lock_delay", "25h", "24h"]),
        (
            "on_overrun = \"panic\"",
            ["on_overrun", "panic", "\"exit\""],
        ),
        ("cool_down = { a = 1 }", ["cool_down", "table", "\"15s\""]),
        ("candidate = 1.5", ["candidate", "float", "text"]),
    ] {
        let error = refused(&format!("election = \"a\"\n\n{line}\n"));
        assert!(error.starts_with("tenure.toml:3: "), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    // A number is one however it is written.
    assert!(load("election = \"a\"\npriority = 0x1_f", &[]).is_ok_and(|it| it.priority() == 31));
    let error = refused("election = 5");
    assert_eq!(
        error,
        "tenure.toml:1: election = 5: must be text in quotes; this is of type integer"
    );
    let error = refused("election = \"a b\"");
    assert!(
        error.starts_with("tenure.toml:1: election = \"a b\": "),
        "{error}"
    );
}

#[test]
fn an_invalid_environment_variable_is_reported_by_name() {
    let error = load("election = \"a\"", &[("TENURE_STOP_GRACE", "soon")]).unwrap_err();
    assert!(
        error.starts_with("environment variable TENURE_STOP_GRACE: stop_grace"),
        "{error}"
    );
}

#[test]
fn an_unknown_key_is_reported_with_its_place_and_the_nearest_known_key() {
    let error = refused("election = \"a\"\nlease_duratoin = \"1s\"\n");
    assert_eq!(
        error,
        "tenure.toml:2: unknown key lease_duratoin; did you mean lease_duration?"
    );
    let error = refused("election = \"a\"\nzzz = 1\n");
    assert!(error.contains("known are election, candidate"), "{error}");
    assert!(
        refused("[mine]\nx = 1").contains("unknown key mine"),
        "a table nobody knows"
    );
}

#[test]
fn invalid_toml_is_reported_with_line_and_column() {
    let error = refused("election = \"a\"\nlease_duration = = \"1s\"\n");
    assert!(
        error.contains("tenure.toml") && error.contains("line 2"),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let error = Config::load("/nowhere/tenure.toml").unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
    assert!(error.to_string().contains("/nowhere/tenure.toml"));
}

#[test]
fn a_missing_election_is_reported() {
    assert!(refused("priority = 1").contains("election is not set"));
}

#[test]
fn contradicting_timings_are_reported_with_both_numbers_and_their_places() {
    let error = refused("election = \"a\"\nlease_duration = \"3s\"\nstop_grace = \"4s\"\n");
    for part in [
        "3s",
        "4s",
        "tenure.toml:2: lease_duration",
        "tenure.toml:3: stop_grace",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn too_much_metadata_is_refused() {
    let error = refused(&format!(
        "election = \"a\"\n[metadata]\nk = \"{}\"",
        "x".repeat(4096)
    ));
    assert!(error.contains("4097") && error.contains("4096"), "{error}");
    assert!(error.len() < 250, "{error}");
}

#[test]
fn one_setting_under_two_names_is_refused_but_not_in_two_sources() {
    let file = "election = \"a\"\nservers = [\"http://a\"]\nserver = \"http://b\"";
    let error = refused(file);
    for part in ["tenure.toml:2", "tenure.toml:3", "leave one"] {
        assert!(error.contains(part), "{error}");
    }
    let one = ("TENURE_SERVER", "http://b");
    let error = load("election = \"a\"", &[one, ("TENURE_SERVERS", "http://a")]).unwrap_err();
    for part in [
        "variable TENURE_SERVERS",
        "variable TENURE_SERVER ",
        "leave",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let config = load("election = \"a\"\nservers = [\"http://a\"]", &[one]).unwrap();
    assert_eq!(config.servers()[0].to_string(), "http://b/");
}

#[test]
fn a_section_has_its_own_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, "election = \"a\"\n[serve]\nlisten = \"x\"\n").unwrap();
    let mut settings = super::settings::Settings::new(&["listen"]);
    settings.read_file(&path, Some("serve"), &[]).unwrap();
    assert_eq!(settings.list("listen"), ["x"]);
    assert!(matches!(
        settings.origin("listen"),
        Some(Origin::File { line: 3, .. })
    ));

    fs::write(&path, "[serve]\nlisen = \"x\"\n").unwrap();
    let error = settings
        .read_file(&path, Some("serve"), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(":2: unknown key lisen; did you mean listen?"),
        "{error}"
    );
}

/// Three members, seen from the first one.
const PEERS: &str = r#"
    election = "nightly"
    strategy = "bully"
    [bully]
    node = 1
    peers = ["1=http://a:1", "2@50=http://b:2", "3=http://c:3"]
"#;

#[test]
fn one_word_changes_the_strategy_and_leaves_the_rest_alone() {
    let config = load(PEERS, &[]).unwrap();
    assert_eq!(config.guarantee(), Guarantee::Quorum);
    let Strategy::Bully(bully) = config.strategy() else {
        panic!("another strategy")
    };
    let rules = bully.rules(config.timings()).unwrap();
    let order: Vec<u32> = rules.members().iter().map(|node| node.0).collect();
    assert_eq!(order, [2, 1, 3]);
    for (strategy, guarantee) in [
        ("lease", Guarantee::FencedLease),
        ("static", Guarantee::BestEffort),
    ] {
        let config = load(PEERS, &[("TENURE_STRATEGY", strategy)]).unwrap();
        assert_eq!(config.guarantee(), guarantee);
    }
    let config = load(PEERS, &[("TENURE_BULLY_QUORUM", "false")]).unwrap();
    assert_eq!(config.guarantee(), Guarantee::BestEffort);
}

#[test]
fn invalid_peers_are_refused_with_key_and_numbers() {
    for (name, value, words) in [
        ("TENURE_STRATEGY", "paxos", ["strategy", "\"bully\""]),
        ("TENURE_BULLY_NODE", "4", ["bully.node", "member 4"]),
        ("TENURE_BULLY_NODE", "one", ["bully.node", "whole number"]),
        (
            "TENURE_BULLY_PEERS",
            "http://a:1",
            ["bully.peers", "1=http://10.0.0.1:7500"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://a,1=http://b",
            ["bully.peers", "twice"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://a:1,2=http://a:1/",
            ["bully.peers", "members 1 and 2 have the same address"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://me:secret@a:1",
            ["bully.peers", "user or a password"],
        ),
        ("TENURE_BULLY_STATE_DIR", "", ["bully.state_dir", "empty"]),
        (
            "TENURE_BULLY_LISTEN",
            "7500",
            ["bully.listen", "0.0.0.0:7500"],
        ),
        (
            "TENURE_BULLY_QUORUM",
            "maybe",
            ["bully.quorum", "true or false"],
        ),
        ("TENURE_BULLY_HOLD_DOWN", "14s", ["bully.hold_down", "15s"]),
        (
            "TENURE_BULLY_MESSAGE_LIFETIME",
            "3s",
            ["bully.message_lifetime", "5s"],
        ),
        (
            "TENURE_BULLY_DETECTOR",
            "guess",
            ["bully.detector", "\"pull\""],
        ),
        (
            "TENURE_BULLY_HEARTBEAT_INTERVAL",
            "1ms",
            ["bully.heartbeat_interval", "10ms"],
        ),
    ] {
        let error = load(PEERS, &[(name, value)]).unwrap_err();
        let told = error.contains(name) && words.iter().all(|word| error.contains(word));
        assert!(told, "{name}={value}: {error}");
    }
    let error = refused(&PEERS.replace("node", "nodes"));
    assert!(
        error.contains("tenure.toml:5") && error.contains("did you mean bully.node"),
        "{error}"
    );
    let error = refused(&PEERS.replace("node = 1", ""));
    assert!(error.contains("bully.node is not set"), "{error}");
}

#[test]
fn the_detector_of_peers_is_chosen_by_its_name() {
    let detection = |settings: &[(&str, &str)]| {
        let config = load(PEERS, settings).map_err(|error| error.to_string())?;
        let Strategy::Bully(bully) = config.strategy() else {
            unreachable!("these are peers")
        };
        let rules = bully.rules(config.timings()).unwrap();
        Ok::<_, String>(bully.detection(&rules).unwrap().to_string())
    };
    let by = |name| detection(&[("TENURE_BULLY_DETECTOR", name)]);
    let push = "push every 300ms, suspected after 1.2s";
    assert_eq!(detection(&[]).as_deref(), Ok(push));
    for (name, described) in [
        ("push", push),
        ("push-fixed", "push-fixed every 300ms, suspected after 1.2s"),
        ("phi", "phi every 300ms, suspected after 600ms, threshold 8"),
        ("pull", "pull every 300ms, suspected after 1.2s"),
        ("on-demand", "on-demand every 1.25s, suspected after 1.25s"),
    ] {
        assert_eq!(by(name).as_deref(), Ok(described));
    }
    let ring = by("ring").unwrap_err();
    assert!(
        ring.contains("TENURE_BULLY_DETECTOR") && ring.contains("must be one of"),
        "{ring}"
    );
    let short = detection(&[("TENURE_BULLY_SUSPECT_AFTER", "499ms")]).unwrap_err();
    assert!(
        short.contains("TENURE_BULLY_SUSPECT_AFTER") && short.contains("500ms"),
        "{short}"
    );
    let phi = detection(&[
        ("TENURE_BULLY_DETECTOR", "phi"),
        ("TENURE_BULLY_PHI_THRESHOLD", "101"),
    ])
    .unwrap_err();
    assert!(
        phi.contains("TENURE_BULLY_PHI_THRESHOLD") && phi.contains("1 to 100"),
        "{phi}"
    );
}

#[test]
fn required_fencing_refuses_a_weaker_strategy() {
    let fencing = ("TENURE_REQUIRE_FENCING", "true");
    assert!(load(PEERS, &[fencing]).is_ok());
    assert!(load(PEERS, &[fencing, ("TENURE_STRATEGY", "lease")]).is_ok());
    for less in [
        ("TENURE_BULLY_QUORUM", "false"),
        ("TENURE_STRATEGY", "static"),
    ] {
        let error = load(PEERS, &[fencing, less]).unwrap_err();
        assert!(error.contains("require_fencing"), "{error}");
    }
}

#[test]
fn errors_never_show_a_key_or_a_password() {
    let wrong = |text: &str| load(text, &[]).unwrap_err();
    for text in [
        "[bully]\nkey = \"hunter2",
        "[bully]\nkey = \"hunter2\" x",
        "election = \"a\"\nstrategy = \"bully\"\n[bully]\nnode = 1\npeers = [\"1=http://a:1\"]\nkey = \"hunter2\"",
    ] {
        let error = wrong(text);
        assert!(
            error.contains("(secret)") && !error.contains("hunter2"),
            "{error}"
        );
    }
    for text in [
        "servers = [\"http://me:hunter2@a:1\"",
        "servers = [\n\"http://me:hunter2@a:1\" x]",
        "election = \"a\"\nservers = \"ftp://me:hunter2@a:1\"",
        "election = \"a\"\nservers = \"http://me:hunter2@a b\"",
        "election = \"a\"\nserver = [\"http://a:1\", \"http://me:hunter2@a?b\"]",
        "election = \"a\"\ncandidate = [\"http://me:hunter2@a:1\"]",
        "election = \"a\"\nstrategy = \"bully\"\n[bully]\nnode = 1\npeers = [\"1=http://me:hunter2@a:1\"]",
    ] {
        let error = wrong(text);
        assert!(
            error.contains("***@a") && !error.contains("hunter2"),
            "{error}"
        );
    }
    // Of other lines the parser shows what is wrong.
    assert!(wrong("election = \"nightly").contains("nightly"));
}

#[test]
fn the_guarantee_of_both_depends_on_the_quorum_of_its_peers() {
    let of = |peers: &str| {
        let text =
            format!("election = \"a\"\nstrategy = \"both\"\n[bully]\nnode = 1\npeers = {peers}");
        load(&text, &[]).unwrap().guarantee()
    };
    let three = "[\"1=http://a:1\", \"2=http://b:2\", \"3=http://c:3\"]";
    assert_eq!(of(three), Guarantee::FencedLease);
    assert_eq!(
        of("[\"1=http://a:1\", \"2=http://b:2\"]"),
        Guarantee::BestEffort
    );
}

/// A candidate by the lease of a blob, with what stands before and in the table of it.
fn azure_blob(before: &str, table: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let text = format!(
        "election = \"billing/nightly\"\nstrategy = \"azure-blob\"\n{before}\n[azure_blob]\n{table}"
    );
    load(&text, environment)
}

fn url_of(config: &Config) -> &str {
    match config.strategy() {
        Strategy::AzureBlob(blob) => blob.url(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_blob_s_lease_is_named_by_the_election_or_by_itself() {
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

#[test]
fn an_observer_s_configuration_needs_no_settings_of_a_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let peers = "election = \"a\"\nstrategy = \"bully\"\n[bully]\npeers = [\"1=http://a:1\", \"2=http://b:1\"]\n\
                 key_file = \"/nowhere\"";
    fs::write(&path, peers).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("bully.node is not set"), "{error}");
    let config = Config::load_for_observer(&path).unwrap();
    assert_eq!(config.strategy().name(), "bully");
}

#[test]
fn timings_in_code_adjust_those_of_the_file() {
    let file = "election = \"a\"\nlease_duration = \"6s\"\nstop_grace = \"500ms\"";
    let config = Config::from_toml(file).unwrap();
    let adjusted = config.with_adjusted_timings(|timings| crate::TimingsOptions {
        progress_deadline: Some(Duration::from_secs(2)),
        ..timings
    });
    let timings = *adjusted.as_ref().unwrap().timings();
    assert_eq!(timings.lease_duration(), Duration::from_secs(6));
    assert_eq!(timings.stop_grace(), Duration::from_millis(500));
    assert_eq!(timings.progress_deadline(), Some(Duration::from_secs(2)));
    // The renew interval was never set, so it follows from the new lease duration.
    let longer = adjusted
        .unwrap()
        .with_adjusted_timings(|timings| crate::TimingsOptions {
            lease_duration: Some(Duration::from_secs(12)),
            ..timings
        });
    let interval = longer.unwrap().timings().renew_interval();
    assert!(interval > timings.renew_interval());
}
