//! TLS, by the rules of `sslmode`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::*;

/// Years in which certificates end.
const LATER: i32 = 4000;
const PAST: i32 = 2000;

/// An authority, with its certificate in a file.
struct Authority {
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let file = folder.join(name);
        fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            file,
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate for this host, which ends in this year, and its key.
    fn issue(&self, host: &str, end: i32) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Gives the server a certificate for this host.
    fn certify(&self, server: &Postgres, host: &str) {
        self.certify_until(server, host, LATER);
    }

    /// The same, for a certificate that ends in this year.
    fn certify_until(&self, server: &Postgres, host: &str, end: i32) {
        let (certificate, key) = self.issue(host, end);
        for (name, pem) in [
            ("server.crt", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ] {
            let path = server.folder().join("data").join(name);
            fs::write(&path, pem).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            server.own(&path);
        }
        server.query("alter system set ssl = on");
        server.query("select pg_reload_conf()");
        // The parent process reads the files, and sessions see the setting later.
        wait_for("the certificate", || {
            (server.query("show ssl") == "on").then_some(())
        });
    }
}

fn connect_with(server: &Postgres, mode: &str, ca_file: Option<&Path>) -> Result<(), Failure> {
    let authorities = ca_file.map(|file| format!("&sslrootcert={}", file.display()));
    let authorities = authorities.unwrap_or_default();
    let url = server.url("postgres", "");
    let url = format!("{url}?sslmode={mode}{authorities}");
    connect(&PostgresHome::new(access(url, "tenure"), ATTEMPT)?)
}

/// Reads a register. The connection may have been opened earlier.
fn connect(home: &PostgresHome) -> Result<(), Failure> {
    let runtime = tokio::runtime::Handle::current();
    let key = key("a");
    let read = tokio::task::block_in_place(|| runtime.block_on(home.read(&key, None)));
    read.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_modes_of_tls_check_what_libpq_checks() {
    let Some(server) = Postgres::start("TLS", "") else {
        return;
    };
    let error = connect_with(&server, "require", None).unwrap_err();
    let text = misconfigured(Err::<(), _>(error));
    assert!(
        text.contains("ssl = on") && text.contains("sslmode=disable"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let right = Authority::new(folder.path(), "right.pem");
    let wrong = Authority::new(folder.path(), "wrong.pem");
    let (right_file, wrong_file) = (Some(&*right.file), Some(&*wrong.file));
    right.certify(&server, "127.0.0.1");
    wait_for("TLS", || connect_with(&server, "require", None).ok());
    let cases = [
        ("verify-full", right_file, true),
        ("verify-full", wrong_file, false),
        ("verify-full", None, false),
        ("verify-ca", wrong_file, false),
        ("require", wrong_file, false),
        ("disable", wrong_file, true),
    ];
    let check = |cases: &[(&str, Option<&Path>, bool)]| {
        for &(mode, ca_file, is_accepted) in cases {
            let connected = connect_with(&server, mode, ca_file);
            match is_accepted {
                true => assert_eq!(connected, Ok(()), "{mode} {ca_file:?}"),
                false => {
                    let is_refused = matches!(connected, Err(Failure::Misconfigured(_)));
                    assert!(is_refused, "{mode} {ca_file:?}: {connected:?}");
                }
            }
        }
    };
    check(&cases);
    right.certify(&server, "db.example");
    wait_for("the other certificate", || {
        connect_with(&server, "verify-full", right_file).err()
    });
    check(&[
        ("verify-full", right_file, false),
        ("verify-ca", right_file, true),
        ("verify-ca", wrong_file, false),
        ("require", right_file, true),
        ("require", None, true),
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_are_wrong_or_expired_are_named_and_read_again_when_they_are_mended() {
    let Some(server) = Postgres::start("certificates", "") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let right = Authority::new(folder.path(), "right.pem");
    let wrong = Authority::new(folder.path(), "wrong.pem");
    let host = "127.0.0.1";
    let name = format!("{host}:{}", server.port());
    right.certify_until(&server, host, PAST);
    let home = |more: &str| {
        let (url, authority) = (server.url("postgres", ""), right.file.display());
        let url = format!("{url}?sslmode=verify-full&sslrootcert={authority}&{more}");
        PostgresHome::new(access(url, "tenure"), ATTEMPT).unwrap()
    };
    // One connection, which goes on by itself.
    let log = home("");
    let text = misconfigured(connect(&log));
    let expired = "the certificate of PostgreSQL has expired: renew it there";
    assert_eq!(text, format!("{name}: {expired}"));
    wrong.certify(&server, host);
    wait_for("the other certificate", || {
        let text = misconfigured(connect(&log));
        let expected = format!(
            "{name}: the certificate of PostgreSQL is not signed by a known authority: name the \
             certificate of its authority in sslrootcert"
        );
        (text == expected).then_some(())
    });
    right.certify(&server, "db.example");
    wait_for("the other certificate", || {
        let text = misconfigured(connect(&log));
        text.contains("is for another name").then_some(())
    });
    right.certify(&server, host);
    wait_for("the right certificate", || connect(&log).ok());

    // The server asks for certificates of clients.
    let of_clients = server.folder().join("data/clients.pem");
    fs::copy(&right.file, &of_clients).unwrap();
    server.own(&of_clients);
    server.query("alter system set ssl_ca_file = 'clients.pem'");
    let rules = server.folder().join("data/pg_hba.conf");
    let rule =
        "hostssl all postgres 127.0.0.1/32 trust clientcert=verify-ca\nlocal all all trust\n";
    fs::write(&rules, rule).unwrap();
    server.query("select pg_reload_conf()");
    let without = wait_for("a refusal", || connect(&home("")).err());
    assert!(
        without.to_string().contains("valid client certificate"),
        "{without}"
    );
    assert!(matches!(without, Failure::Misconfigured(_)), "{without:?}");
    let [certificate, key] = ["client.crt", "client.key"].map(|name| folder.path().join(name));
    let give = |authority: &Authority, end| {
        let (issued, secret) = authority.issue("client", end);
        fs::write(&certificate, issued.pem()).unwrap();
        fs::write(&key, secret.serialize_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let files = format!("sslcert={}&sslkey={}", certificate.display(), key.display());
    give(&wrong, LATER);
    let log = home(&files);
    let refused = |log: &PostgresHome, alert: &str| {
        let text = format!(
            "{name}: PostgreSQL does not accept the certificate in sslcert and sslkey \
             ({alert}): it has expired, or its authority is not in ssl_ca_file \
             of PostgreSQL"
        );
        wait_for(&text, || {
            let error = connect(log).unwrap_err();
            // The connection may end before the reason for it arrives.
            (error == Failure::Misconfigured(text.clone())).then_some(())
        });
    };
    refused(&log, "UnknownCA");
    give(&right, LATER);
    wait_for("the right certificate", || connect(&log).ok());
    give(&right, PAST);
    let log = home(&files);
    refused(&log, "CertificateExpired");
    give(&right, LATER);
    wait_for("the right certificate", || connect(&log).ok());
}
