mod azure_blob;
mod fallback;
mod kubernetes;
mod peers;

use std::fs;
use std::time::Duration;

use super::load::SCOPE;
use super::{Config, ConfigError, Settings};

/// Loads a configuration from a file and these variables.
fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, text).unwrap();
    let environment = environment
        .iter()
        .map(|&(name, value)| (name.into(), value.into()));
    let config = Settings::of_file(SCOPE, &path).and_then(|mut settings| {
        settings.read_environment(environment)?;
        Config::from_settings(&settings)
    });
    let folder = format!("{}/", folder.path().display());
    config.map_err(|error| error.to_string().replace(&folder, ""))
}

fn refused(text: &str) -> String {
    load(text, &[]).unwrap_err()
}

#[test]
fn one_line_is_a_complete_configuration() {
    let config = load("election = \"billing/nightly\"", &[]).unwrap();
    assert_eq!(config.election.to_string(), "billing/nightly");
    assert_eq!(config.servers()[0].to_string(), "http://127.0.0.1:7400/");
    assert_eq!(config.timings().lease_duration(), Duration::from_secs(15));
    let other = load("election = \"billing/nightly\"", &[]).unwrap();
    assert_ne!(
        config.candidate, other.candidate,
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
    assert_eq!(config.candidate.as_str(), "worker-1");
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
    assert_eq!(config.election.to_string(), "b/c");
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
    // TOML allows several notations for a number.
    assert!(load("election = \"a\"\npriority = 0x1_f", &[]).is_ok_and(|it| it.priority == 31));
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
fn an_unknown_key_is_reported_with_its_place_and_the_nearest_known_key() {
    let error = refused("election = \"a\"\nlease_duratoin = \"1s\"\n");
    assert_eq!(
        error,
        "tenure.toml:2: unknown key lease_duratoin; did you mean lease_duration?"
    );
    let error = refused("election = \"a\"\nzzz = 1\n");
    assert!(error.contains("known are election, candidate"), "{error}");
}

#[test]
fn what_no_program_knows_is_refused_and_the_tables_of_a_store_are_left_to_it() {
    for (text, expected) in [
        (
            "[acess]\nfile = \"x\"",
            "unknown table [acess]; did you mean [access]?",
        ),
        ("[limits]\nmax = 1", "unknown table [limits]; known are ["),
        ("access = \"x\"", "access = \"x\": must be a table"),
    ] {
        let error = refused(&format!("election = \"a\"\n{text}\n"));
        assert!(
            error.starts_with("tenure.toml:2: ") && error.contains(expected),
            "{error}"
        );
    }
    let text = "election = \"a\"\n[access]\nfle = \"x\"\n[azure.any]\nthing = 1\n[metadata]\n\"a.b\" = \"c\"\n";
    assert_eq!(load(text, &[]).unwrap().metadata["a.b"], "c");
    // Only the store knows the secrets in its tables.
    let error = refused("[azure]\nbehind_tls = true\naccounts = [\"some:hunter2\" x");
    assert!(
        error.contains("line 3") && !error.contains("hunter2"),
        "{error}"
    );
}

#[test]
fn a_variable_without_a_value_is_not_set() {
    let file = "election = \"a\"\nstop_grace = \"1s\"\nca_file = \"/no/such/file\"";
    let empty = [
        ("TENURE_STOP_GRACE", ""),
        ("TENURE_PRIORITY", ""),
        ("TENURE_REQUIRE_FENCING", ""),
        ("TENURE_SERVERS", ""),
        ("TENURE_SERVER", "http://a"),
        ("TENURE_CA_FILE", ""),
    ];
    let error = load(file, &empty).unwrap_err();
    assert!(error.contains("tenure.toml:3: ca_file"), "{error}");
    let config = load("election = \"a\"\nstop_grace = \"1s\"", &empty[..5]).unwrap();
    assert_eq!(config.timings().stop_grace(), Duration::from_secs(1));
    assert_eq!(config.servers()[0].to_string(), "http://a/");
}

#[test]
fn a_path_is_no_url_and_has_no_home_directory() {
    let keys = ["ca_file", "token_file", "client_certificate", "client_key"];
    for key in keys {
        for (path, part) in [("~/x", "whole path"), ("file:///x", "is a URL")] {
            let error = refused(&format!("election = \"a\"\n{key} = {path:?}"));
            let place = format!("tenure.toml:2: {key} = {path:?}: ");
            assert!(error.starts_with(&place) && error.contains(part), "{error}");
            let variable = format!("TENURE_{}", key.to_uppercase());
            let error = load("election = \"a\"", &[(&variable, path)]).unwrap_err();
            assert!(error.contains(&variable) && error.contains(part), "{error}");
        }
    }
    let peers = "strategy = \"bully\"\n[bully]\nnode = 1\npeers = [\"1=http://a:1\"]";
    for (key, path, part) in [
        ("state_dir", "", "must not be empty"),
        ("state_dir", "~/x", "whole path"),
        ("key_file", "~/x", "whole path"),
        ("key_file", "file:x", "is a URL"),
    ] {
        let error = refused(&format!("election = \"a\"\n{peers}\n{key} = {path:?}"));
        let place = format!("tenure.toml:6: bully.{key} = {path:?}: ");
        assert!(error.starts_with(&place) && error.contains(part), "{error}");
    }
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
    // For other lines, the message contains the text.
    assert!(wrong("election = \"nightly").contains("nightly"));
}

#[test]
fn timings_in_code_adjust_those_of_the_file() {
    let file = "election = \"a\"\nlease_duration = \"6s\"\nstop_grace = \"500ms\"";
    let config = Config::from_toml(file).unwrap();
    let adjusted = config.with_adjusted_timings(|timings| {
        timings.progress_deadline = Some(Duration::from_secs(2));
    });
    let timings = *adjusted.as_ref().unwrap().timings();
    assert_eq!(timings.lease_duration(), Duration::from_secs(6));
    assert_eq!(timings.stop_grace(), Duration::from_millis(500));
    assert_eq!(timings.progress_deadline(), Some(Duration::from_secs(2)));
    // The renew interval was never set, so it depends on the new lease duration.
    let longer = adjusted
        .unwrap()
        .with_adjusted_timings(|timings| timings.lease_duration = Some(Duration::from_secs(12)));
    let interval = longer.unwrap().timings().renew_interval();
    assert!(interval > timings.renew_interval());
}
