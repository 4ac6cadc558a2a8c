//! Settings of a cluster: what they mean, and what a wrong one is answered with.

use std::io::Write;

use tenure_server::ClusterAccess;

use super::*;
use crate::settings::STORE;
use crate::settings::serve::StoreSettings;

/// Reads the settings of a file with this text.
fn read(text: &str) -> Result<StoreSettings, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let settings = Settings::of_file(STORE, file.path()).map_err(|error| error.to_string())?;
    StoreSettings::new(&settings).map_err(|error| error.to_string())
}

/// The settings with these lines after those that etcd needs.
fn with_etcd(lines: &str) -> String {
    format!(
        "[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"http://127.0.0.1:2379/\"]\n{lines}\n\
         [cluster]\nserver = \"store-1\"\n"
    )
}

#[test]
fn a_server_over_etcd_needs_only_the_addresses_of_etcd() {
    let cluster = read(&with_etcd("")).unwrap().cluster.unwrap();
    let etcd = EtcdConfig::new(vec!["http://127.0.0.1:2379".into()]);
    let engine = SharedEngine::Etcd(etcd);
    let expected = ClusterConfig::new("store-1", "http://127.0.0.1:7400", engine);
    assert_eq!(cluster, expected);
    let settings =
        read("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"http://127.0.0.1:2379\"]");
    let host = nix::unistd::gethostname().unwrap();
    let cluster = settings.unwrap().cluster.unwrap();
    assert_eq!(cluster.server, host.to_str().unwrap());
}

#[test]
fn each_key_of_a_cluster_has_its_effect() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, "host=db user=tenure\n").unwrap();
        path
    };
    let [password, ca, certificate, key, url] = ["password", "ca", "pem", "key", "url"].map(path);
    let settings = read(&format!(
        "[serve]\nlisten = \"0.0.0.0:7400\"\nengine = \"etcd\"\n[cluster]\nname = \"a\"\nserver = \"b\"\n\
         advertise = \"https://b.example.com:7400/\"\nownership = \"5s\"\nconfirm = true\n[etcd]\n\
         endpoints = [\"https://one:2379\", \"https://two:2379\"]\nprefix = \"p/\"\nuser = \"u\"\n\
         password_file = {password:?}\nca_file = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\n\
         compact = \"10m\"\n"
    ));
    let expected = ClusterConfig {
        name: "a".into(),
        server: "b".into(),
        advertise: "https://b.example.com:7400".into(),
        ownership: Duration::from_secs(5),
        confirm: true,
        access: ClusterAccess::Anonymous,
        engine: SharedEngine::Etcd(EtcdConfig {
            endpoints: vec!["https://one:2379".into(), "https://two:2379".into()],
            prefix: "p/".into(),
            user: Some("u".into()),
            password_file: Some(password),
            ca_file: Some(ca.clone()),
            certificate: Some(certificate),
            key: Some(key),
            compact: Compaction::Every(Duration::from_secs(600)),
        }),
    };
    let cluster = settings.unwrap().cluster.unwrap();
    assert_eq!(cluster, expected);

    let settings = read(&format!(
        "[serve]\nengine = \"postgres\"\n[cluster]\nserver = \"b\"\n[postgres]\nurl_file = {url:?}\n\
         schema = \"s\"\nca_file = {ca:?}\nfailover = \"lossless\"\n"
    ));
    let cluster = settings.unwrap().cluster.unwrap();
    let expected = SharedEngine::Postgres(PostgresConfig {
        url: PostgresUrl::File(url),
        schema: "s".into(),
        ca_file: Some(ca),
        failover: Failover::Lossless,
    });
    assert_eq!(cluster.engine, expected);
}

#[test]
fn wrong_settings_of_a_cluster_are_refused_with_key_value_and_remedy() {
    let postgres = "[serve]\nengine = \"postgres\"\n[cluster]\nserver = \"b\"\n[postgres]\n";
    let remote = "[serve]\nengine = \"etcd\"\nlisten = \"0.0.0.0:7400\"\n[etcd]\n\
                  endpoints = [\"https://one:2379\"]\n[cluster]\nserver = \"b\"\n";
    for (text, parts) in [
        ("[serve]\nengine = \"etcd\"\n[cluster]\nserver = \"b\"".to_owned(), &["etcd.endpoints is not set", "https://"][..]),
        ("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = []".to_owned(), &["endpoints = []", "members"]),
        ("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"10.0.0.1:2379\"]".to_owned(), &["endpoints", "http"]),
        ("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"http://u:geheim@one\"]".to_owned(), &["endpoints", "password_file"]),
        ("[serve]\nengine = \"etcd\"\ndata_dir = \"d\"\n[etcd]\nendpoints = [\"https://one\"]".to_owned(), &[":3: data_dir = \"d\"", "leave data_dir out"]),
        (with_etcd("") + "[azure]\nbehind_tls = true", &["behind_tls", "Azure"]),
        (with_etcd("") + "ownership = \"500ms\"", &["ownership = \"500ms\"", "1s to 60s"]),
        (with_etcd("") + "ownership = \"61s\"", &["ownership = \"61s\"", "1s to 60s"]),
        (with_etcd("") + "ownership = 3", &["ownership = 3", "15s"]),
        (with_etcd("") + "name = \"a/b\"", &["name = \"a/b\""]),
        (with_etcd("") + "advertise = \"http://0.0.0.0:7400\"", &["advertise", "clients can't connect"]),
        (with_etcd("") + "advertise = \"store-1:7400\"", &["advertise", "http"]),
        (with_etcd("prefix = \"tenure\""), &["prefix = \"tenure\"", "tenure/"]),
        (with_etcd("compact = \"1s\""), &["compact = \"1s\"", "10s"]),
        (with_etcd("compact = \"often\""), &["compact = \"often\"", "\"auto\""]),
        (with_etcd("user = \"u\""), &["etcd.password_file is not set", "etcd.user is set"]),
        (with_etcd("password_file = \"/dev/null\""), &["etcd.user is not set"]),
        (with_etcd("key = \"/dev/null\""), &["etcd.certificate is not set", "etcd.key is set"]),
        (with_etcd("certificate = \"/dev/null\""), &["etcd.key is not set"]),
        (with_etcd("certificate = \"/dev/null\"\nkey = \"/dev/null\""), &["endpoints", "https"]),
        (with_etcd("ca_file = \"/no/such\""), &["ca_file = \"/no/such\"", "can't read it"]),
        ("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"http://one\"]".to_owned(), &["endpoints", "http://one", "allow_plain_http = true"]),
        ("[serve]\nengine = \"etcd\"\n[etcd]\nendpoints = [\"http://one\"]\nuser = \"u\"\npassword_file = \"/dev/null\"".to_owned(), &["endpoints", "unencrypted", "https"]),
        (with_etcd("") + "[postgres]\nschema = \"s\"", &["schema", "engine = \"postgres\""]),
        (remote.to_owned(), &["cluster.advertise is not set", "0.0.0.0:7400"]),
        (postgres.to_owned(), &["postgres.url_file is not set", "TENURE_POSTGRES_URL"]),
        (format!("{postgres}url_file = \"/no/such\""), &["url_file = \"/no/such\"", "can't read it"]),
        (format!("{postgres}url = \"host=geheim\"\nurl_file = \"/dev/null\""), &["url"]),
        (format!("{postgres}url = \"host=a\"\nschema = \"Tenure\""), &["schema = \"Tenure\"", "lower-case"]),
        (format!("{postgres}url = \"host=a\"\nfailover = \"maybe\""), &["failover = \"maybe\"", "lossless"]),
        ("[cluster]\nname = \"a\"".to_owned(), &["name = \"a\"", "\"etcd\" or \"postgres\""]),
        ("[etcd]\nendpoints = [\"http://one\"]".to_owned(), &["endpoints", "engine = \"etcd\""]),
        ("[serve]\nengine = \"etch\"".to_owned(), &["engine = \"etch\"", "must be \"embedded\", \"memory\", \"etcd\" or \"postgres\""]),
    ] {
        let error = match read(&text) {
            Err(error) => error,
            Ok(settings) => panic!("{text}\n{settings:?}"),
        };
        for part in parts {
            assert!(error.contains(part), "{text}\n{part}: {error}");
        }
        assert!(!error.contains("geheim"), "{error}");
    }
}
