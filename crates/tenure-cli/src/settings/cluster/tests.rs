//! Settings of a cluster and of its home: what they mean, and what a wrong one is answered with.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tenure_server::{
    ClusterAccess, Compaction, EtcdConfig, Failover, Home, PostgresConfig, PostgresUrl,
};

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

/// The settings of a server of a cluster with this home.
fn over(home: &str) -> String {
    format!("[serve]\nhome = {home:?}\n[cluster]\nserver = \"store-1\"\n")
}

fn home_of(text: &str) -> Home {
    read(text).unwrap().cluster.unwrap().home
}

#[test]
fn a_server_over_etcd_needs_only_the_addresses_of_etcd() {
    let text = over("etcd://127.0.0.1");
    let cluster = read(&text).unwrap().cluster.unwrap();
    let etcd = EtcdConfig::new(vec!["http://127.0.0.1:2379".into()]);
    let expected = ClusterConfig::new("store-1", "http://127.0.0.1:7400", Home::Etcd(etcd));
    assert_eq!(cluster, expected);
    let settings = read("[serve]\nhome = \"etcd://127.0.0.1\"");
    let host = nix::unistd::gethostname().unwrap();
    let cluster = settings.unwrap().cluster.unwrap();
    assert_eq!(cluster.server, host.to_str().unwrap());
}

#[test]
fn each_key_of_a_cluster_and_each_parameter_of_its_home_has_its_effect() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, "postgres://tenure:geheim@db/tenure\n").unwrap();
        path
    };
    let [password, ca, certificate, key, url] = ["password", "ca", "pem", "key", "url"].map(path);
    let home = format!(
        "etcds://u@one,two:1/p/q?password_file={}&ca_file={}&certificate={}&key={}&compact=10m",
        password.display(),
        ca.display(),
        certificate.display(),
        key.display(),
    );
    let settings = read(&format!(
        "[serve]\nlisten = \"0.0.0.0:7400\"\nhome = {home:?}\n[cluster]\nname = \"a\"\nserver = \"b\"\n\
         advertise = \"https://b.example.com:7400/\"\nownership = \"5s\"\nconfirm = true\n"
    ));
    let expected = ClusterConfig {
        name: "a".into(),
        server: "b".into(),
        advertise: "https://b.example.com:7400".into(),
        ownership: Duration::from_secs(5),
        confirm: true,
        access: ClusterAccess::Anonymous,
        home: Home::Etcd(EtcdConfig {
            endpoints: vec!["https://one:2379".into(), "https://two:1".into()],
            prefix: "p/q/".into(),
            user: Some("u".into()),
            password_file: Some(password),
            ca_file: Some(ca),
            certificate: Some(certificate),
            key: Some(key),
            compact: Compaction::Every(Duration::from_secs(600)),
        }),
    };
    let cluster = settings.unwrap().cluster.unwrap();
    assert_eq!(cluster, expected);

    let home = "postgresql://tenure@a,b/d?schema=s&failover=lossless&sslmode=verify-full";
    let expected = PostgresConfig {
        url: PostgresUrl::Text(home.into()),
        schema: "s".into(),
        failover: Failover::Lossless,
    };
    assert_eq!(home_of(&over(home)), Home::Postgres(expected));
    let expected = PostgresConfig::new(PostgresUrl::File(url.clone()));
    let of_file = |url: &Path| format!("[serve]\nhome_file = {url:?}\n[cluster]\nserver = \"b\"");
    assert_eq!(home_of(&of_file(&url)), Home::Postgres(expected));
    std::fs::write(&url, "etcds://u:geheim@one\n").unwrap();
    let mut expected = EtcdConfig::new(vec!["https://one:2379".into()]);
    (expected.user, expected.password_file) = (Some("u".into()), Some(url.clone()));
    assert_eq!(home_of(&of_file(&url)), Home::Etcd(expected));
}

#[test]
fn a_folder_or_the_memory_is_the_home_of_a_store_alone() {
    let folder = |text: &str| read(text).unwrap().data_dir;
    assert_eq!(folder(""), Some("tenure-data".into()));
    assert_eq!(folder("[serve]\ndata_dir = \"d\""), Some("d".into()));
    let home = |home: &str| format!("[serve]\nhome = {home:?}");
    assert_eq!(folder(&home("folder:/d/e")), Some("/d/e".into()));
    assert_eq!(folder(&home("memory")), None);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "folder:/of/file\n").unwrap();
    let text = format!("[serve]\nhome_file = {:?}", file.path());
    assert_eq!(folder(&text), Some("/of/file".into()));
    let error = read(&(text + "\nhome = \"memory\"")).unwrap_err();
    assert!(
        error.contains("home_file = ") && error.contains("serve.home is set, too"),
        "{error}"
    );
}

#[test]
fn home_in_a_flag_or_a_variable_wins_over_data_dir_in_the_file_and_in_the_environment() {
    let of = |text: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]| {
        let mut settings = Settings::of_toml(STORE, text, Path::new("t.toml")).unwrap();
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        settings
            .read_environment(variables.iter().map(own))
            .unwrap();
        for (key, value) in flags {
            settings.set_flag(key, &[(*value).to_owned()]);
        }
        let read = StoreSettings::new(&settings);
        read.map(|settings| settings.data_dir)
            .map_err(|error| error.to_string())
    };
    let in_file = "[serve]\ndata_dir = \"d\"";
    let home = ("TENURE_HOME", "folder:h");
    assert_eq!(of(in_file, &[home], &[]), Ok(Some("h".into())));
    assert_eq!(of(in_file, &[], &[("serve.home", "memory")]), Ok(None));
    let data_dir = ("TENURE_DATA_DIR", "d");
    assert_eq!(of("", &[data_dir, home], &[]), Ok(Some("h".into())));
    let memory = "[serve]\nhome = \"memory\"";
    assert_eq!(of(memory, &[data_dir], &[]), Ok(None));
    for (text, flags) in [
        (memory, &[("serve.data_dir", "d")][..]),
        ("", &[("serve.data_dir", "d"), ("serve.home", "memory")]),
        ("[serve]\nhome = \"memory\"\ndata_dir = \"d\"", &[]),
    ] {
        let error = of(text, &[], flags).unwrap_err();
        assert!(
            error.contains("data_dir = \"d\": serve.home is set, too"),
            "{error}"
        );
    }
}

#[rustfmt::skip]
#[test]
fn wrong_settings_of_a_cluster_are_refused_with_key_value_and_remedy() {
    let etcd = |rest: &str| over(&format!("etcd://127.0.0.1{rest}"));
    let postgres = |rest: &str| over(&format!("postgres://tenure@db/d{rest}"));
    for (text, parts) in [
        (over(""), &["home = \"\"", "etcds://HOST:2379/PREFIX"][..]),
        (over("/var/lib/tenure"), &["home = \"/var/lib/tenure\"", "folder:/var/lib/tenure"]),
        (over("etch"), &["home = \"etch\"", "\"memory\""]),
        (over("redis://h"), &["home = \"redis://h\"", "postgres://"]),
        (over("folder:"), &["home = \"folder:\"", "path"]),
        (over("folder:///d"), &["home = \"folder:///d\"", "folder:/var/lib/tenure"]),
        (over("folder:~/d"), &["home = \"folder:~/d\"", "whole path"]),
        (over("etcds://u:geheim@one"), &["home = ", "home_file", "password_file"]),
        (over("postgres://u:geheim@one/d"), &["home = ", "home_file", "PGPASSFILE", ".pgpass"]),
        (over("postgres://u:geh%65im@one/d"), &["home = ", "home_file"]),
        (over("postgres://u@one/d?password=geheim"), &["home = ", "home_file"]),
        (over("postgres://u@one/d?pass%77ord=geheim"), &["home = ", "home_file"]),
        (over("postgres://u@one/d?sslpassword=geheim"), &["home = ", "home_file"]),
        (over("postgres://u:geheim geheim@one/d"), &["home = ", "blank"]),
        (over("host=one password=geheim"), &["home = ", "not a URL"]),
        ("[serve]\nhome = \"etcds://one\"\ndata_dir = \"d\"".into(), &[":3: data_dir = \"d\"", "serve.home is set, too"]),
        ("[serve]\nhome_file = \"\"".into(), &["home_file = \"\"", "must not be empty"]),
        ("[serve]\nhome_file = \"/no/such\"".into(), &["home_file = \"/no/such\"", "can't read it"]),
        ("[serve]\nhome_file = \"/dev/null\"".into(), &["home_file = \"/dev/null\"", "its content", "memory"]),
        (etcd("") + "[azure]\nbehind_tls = true", &["home = ", "[azure]"]),
        (etcd("") + "ownership = \"500ms\"", &["ownership = \"500ms\"", "1s to 60s"]),
        (etcd("") + "ownership = \"61s\"", &["ownership = \"61s\"", "1s to 60s"]),
        (etcd("") + "ownership = 3", &["ownership = 3", "15s"]),
        (etcd("") + "name = \"a/b\"", &["name = \"a/b\""]),
        (etcd("") + "advertise = \"http://0.0.0.0:7400\"", &["advertise", "clients can't connect"]),
        (etcd("") + "advertise = \"store-1:7400\"", &["advertise", "http"]),
        (etcd("/a%20b"), &["home = ", "prefix", "/tenure"]),
        (etcd("?compact=1s"), &["compact=1s", "10s"]),
        (etcd("?compact=often"), &["compact=often", "auto"]),
        (etcd("?schema=a"), &["parameter schema", "password_file"]),
        (etcd("?compact"), &["a parameter has no ="]),
        (etcd("?ca_file=/no/such"), &["ca_file=/no/such", "can't read it"]),
        (etcd("?ca_file=~/a"), &["ca_file=~/a", "whole path"]),
        (over("etcd://one"), &["sent to one", "allow_plain_http=true"]),
        (over("etcd://u@one?password_file=/dev/null&allow_plain_http=true"), &["read passwords", "etcds://"]),
        (over("etcd://one?allow_plain_http=yes"), &["allow_plain_http=yes", "allow_plain_http=true"]),
        ("[serve]\nhome = \"etcds://one\"\nlisten = \"0.0.0.0:7400\"\n[cluster]\nserver = \"b\"".into(), &["cluster.advertise is not set", "0.0.0.0:7400"]),
        (over("s3://b/x?endpoint=http://u:geheim@h"), &["home = ", "no user", "AWS_*"]),
        (over("s3://b/x?endpoint=http://u:geh%65im%40h"), &["home = ", "no user"]),
        (over("s3://b/x?endpoint=u:geheim@h"), &["home = ", "no user"]),
        (over("s3://b/x?endpoint=https://h/?key=geheim"), &["home = ", "no query"]),
        (over("s3://b/x?endpoint=https://h/%23geheim"), &["home = ", "no query"]),
        (over("s3://b/x?endpont=http://u:geheim@h"), &["home = ", "no user"]),
        (over("s3://AK:geheim@b/x"), &["home = ", "no user"]),
        (over("s3://b/x?endpoint=http://minio:9000"), &["http://minio:9000", "https://", "allow_plain_http=true"]),
        (over("s3://b/x?endpoint=ftp://h"), &["ftp://h", "https://", "http:// on this machine"]),
        (over("s3://b/x?endpoint=h:9000"), &["endpoint=h:9000", "not a URL"]),
        (over("gs://b/x?allow_plain_http=true"), &["allow_plain_http=true is not known"]),
        (etcd("?compact=off&compact=10m"), &["a parameter is there twice"]),
        (postgres("?schema=a&schema=a"), &["a parameter is there twice"]),
        (over("etcds://a:1,,b:2/x"), &["a host of the list is empty"]),
        (over("postgres://u@a,/d"), &["a host of the list is empty"]),
        (over("etcds://:2379/x"), &["a port has no host"]),
        (postgres("?failover=maybe"), &["failover=maybe", "lossless"]),
        ("[cluster]\nname = \"a\"".into(), &["serve.home is not set", "[cluster]", "postgres://"]),
        ("[serve]\nhome = \"memory\"\n[cluster]\nname = \"a\"".into(), &["home = \"memory\"", "[cluster]", "etcd, PostgreSQL or a bucket"]),
    ] {
        let error = match read(&text) {
            Err(error) => error,
            Ok(settings) => panic!("{text}\n{settings:?}"),
        };
        for part in parts {
            assert!(error.contains(part), "{text}\n{part}: {error}");
        }
        for secret in ["geheim", "geh%65im"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
    assert!(read(&over("etcd://one?allow_plain_http=true")).is_ok());
    for rest in ["http://minio:9000&allow_plain_http=true", "http://[::1]:9000", "https://minio"] {
        assert!(read(&over(&format!("s3://b/x?endpoint={rest}"))).is_ok(), "{rest}");
    }
    assert!(read(&over("etcd://[::1]:1,localhost,127.0.0.1/a")).is_ok());
}

#[rustfmt::skip]
#[test]
fn an_old_key_is_refused_with_the_new_key_and_its_value() {
    for (text, expected) in [
        ("[serve]\nengine = \"memory\"", "write home = \"memory\" in [serve]"),
        ("[serve]\nengine = \"embedded\"", "leave it out, or write home = \"folder:DIRECTORY\""),
        ("[serve]\nengine = \"etcd\"", "write home = \"etcds://HOST:2379/tenure\""),
        ("[serve]\nengine = \"postgres\"", "write home = \"postgres://USER@HOST/DATABASE?sslmode=verify-full\""),
        ("[etcd]", "write home = \"etcds://USER@HOST:2379/PREFIX\""),
        ("[etcd]\nendpoints = [\"https://a:1\", \"https://b:2\"]", "write home = \"etcds://a:1,b:2/tenure\""),
        ("[etcd]\nendpoints = [\"http://a\"]", "etcd:// if they have no TLS"),
        ("[etcd]\nprefix = \"p/q/\"", "write home = \"etcds://HOST:2379/p/q\""),
        ("[etcd]\nuser = \"u\"", "write home = \"etcds://u@HOST:2379/tenure?password_file=FILE\""),
        ("[etcd]\npassword_file = \"/f\"", "?password_file=/f\""),
        ("[etcd]\nca_file = \"/f\"", "?ca_file=/f\""),
        ("[etcd]\ncertificate = \"/f\"", "?certificate=/f&key=FILE\""),
        ("[etcd]\nkey = \"/f\"", "&key=/f\""),
        ("[etcd]\ncompact = \"off\"", "?compact=off\""),
        ("etcd.allow_plain_http = true", "?allow_plain_http=true\""),
        ("[postgres]", "write home = \"postgres://"),
        ("[postgres]\nurl_file = \"/f\"", "write home_file = \"/f\" in [serve]"),
        ("[postgres]\nurl = \"host=a password=geheim\"", "write home = \"postgres://USER@HOST/DATABASE?"),
        ("[postgres]\nurl = \"postgres://u:geheim@a\"", "write home = \"postgres://USER@HOST/DATABASE?"),
        ("[postgres]\nschema = \"s\"", "DATABASE?schema=s\""),
        ("[postgres]\nca_file = \"/f\"", "DATABASE?sslrootcert=/f\""),
        ("[postgres]\nfailover = \"lossless\"", "DATABASE?failover=lossless\""),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("geheim"), "{error}");
    }
    for line in include_str!("../replaced.txt").lines() {
        let key = line.split([':', '=']).next().unwrap();
        let of_serve = key.strip_prefix("serve.").unwrap_or(key);
        let name = format!("TENURE_{}", of_serve.replace('.', "_").to_uppercase());
        let variable = [(name.clone(), "x".to_owned())];
        let error = Settings::new(STORE).read_environment(variable).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with(&format!("environment variable {name}: ")), "{error}");
        assert!(error.contains("home"), "{error}");
    }
}
