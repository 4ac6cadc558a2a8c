//! A store over TLS, over real sockets.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Api, Running, SOON, assert_ok, served};
use rcgen::{CertifiedKey, KeyPair};
use reqwest::{Certificate, Client};
use tempfile::TempDir;
use tenure_server::{Limits, Server, Store, StoreConfig, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

fn make() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

/// The files that a server reads.
struct Files(TempDir);

impl Files {
    fn of(made: &CertifiedKey<KeyPair>) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write(made);
        files
    }

    fn write(&self, made: &CertifiedKey<KeyPair>) {
        fs::write(self.certificate(), made.cert.pem()).unwrap();
        fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    fn certificate(&self) -> PathBuf {
        self.0.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn open(&self) -> Tls {
        Tls::open(self.certificate(), self.key()).unwrap()
    }
}

fn serve(tls: Tls, change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    let store = Store::open(StoreConfig::memory().with_limits(limits)).unwrap();
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    served(server.with_tls(tls))
}

/// Creates a client with its own connections that trusts only this certificate.
fn client(running: &Running, made: &CertifiedKey<KeyPair>) -> Api {
    let root = Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    Api {
        origin: running.api.origin.replace("http:", "https:"),
        http: Client::builder().tls_certs_only([root]).build().unwrap(),
    }
}

async fn connect(running: &Running) -> TcpStream {
    let address = running.api.origin.strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_missing_handshake_is_cut_off_and_delays_no_other_connection() {
    let made = make();
    let limit = Duration::from_millis(500);
    let running = serve(Files::of(&made).open(), |limits| {
        limits.request_time = limit
    });
    let began = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(connect(&running).await);
    }
    // This is the first half of a client hello, which does not complete a handshake.
    silent[0]
        .write_all(&[0x16, 0x03, 0x01, 0x02])
        .await
        .unwrap();
    assert_ok(&client(&running, &made).acquire("a", 1).await);
    for mut stream in silent {
        let mut rest = Vec::new();
        let closed = timeout(SOON, stream.read_to_end(&mut rest)).await;
        let _ = closed.expect("the connection is closed");
    }
    assert!(began.elapsed() >= limit);
}

#[tokio::test]
async fn a_connection_counts_before_its_handshake() {
    let made = make();
    let running = serve(Files::of(&made).open(), |limits| {
        limits.max_connections = 1;
        limits.request_time = Duration::from_secs(1);
    });
    let silent = connect(&running).await;
    // Repeats until the other connection has its permit.
    let until = Instant::now() + SOON;
    loop {
        let api = client(&running, &made);
        let answer = api.get("a").await;
        if answer.0 == 429 {
            break;
        }
        assert!(Instant::now() < until, "{answer:?}");
    }
    // Closing the connection frees its permit.
    drop(silent);
    loop {
        let api = client(&running, &made);
        let answer = api.get("a").await;
        if answer.0 == 404 {
            break;
        }
        assert!(Instant::now() < until, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_missing_handshake_does_not_delay_a_shutdown() {
    let made = make();
    let running = serve(Files::of(&made).open(), |_| {});
    let silent = connect(&running).await;
    // The server accepted the silent connection before this one.
    assert_ok(&client(&running, &made).acquire("a", 1).await);
    let began = Instant::now();
    running.stop().await.unwrap();
    // Running requests have 5 s to finish, but an open handshake does not.
    assert!(began.elapsed() < Duration::from_secs(4));
    drop(silent);
}

#[tokio::test]
async fn new_connections_get_a_new_certificate_and_never_a_wrong_one() {
    let (old, new) = (make(), make());
    let files = Files::of(&old);
    let tls = files.open();
    let running = serve(tls.clone(), |_| {});
    let early = client(&running, &old);
    assert_ok(&early.acquire("a", 1).await);
    assert_eq!(tls.reload(), Ok(false));
    // Only the certificate has changed, so the key does not belong to it.
    fs::write(files.certificate(), new.cert.pem()).unwrap();
    assert_eq!(tls.reload().unwrap_err().setting, "key");
    assert_ok(&client(&running, &old).renew("a", 1).await);
    files.write(&new);
    assert_eq!(tls.reload(), Ok(true));
    assert_ok(&client(&running, &new).renew("a", 1).await);
    let late = client(&running, &old);
    assert!(late.http.get(late.url("a", "")).send().await.is_err());
    // An open connection continues.
    assert_ok(&early.renew("a", 1).await);
}

#[test]
fn an_error_in_a_file_of_tls_names_the_file() {
    let (made, other) = (make(), make());
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let cut = certificate.replace("-----END CERTIFICATE-----", "");
    let no_base64 = certificate.replace('M', "!");
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned();
    let two = format!("{key}{key}");
    let of_other = other.signing_key.serialize_pem();
    let none = String::new();
    for (in_certificate, in_key, setting, part) in [
        (&none, &key, "certificate", "there is no certificate"),
        (&key, &key, "certificate", "there is no certificate"),
        (&cut, &key, "certificate", "END"),
        (&no_base64, &key, "certificate", "not base64"),
        (
            &no_der,
            &key,
            "certificate",
            "its first certificate cannot be read",
        ),
        (&certificate, &none, "key", "there is no private key"),
        (&certificate, &certificate, "key", "there is no private key"),
        (&certificate, &encrypted, "key", "encrypted"),
        (&certificate, &two, "key", "2 keys"),
        (&certificate, &no_key, "key", "can't be used"),
        (
            &certificate,
            &of_other,
            "key",
            "not the key of the first certificate",
        ),
    ] {
        let files = Files::of(&made);
        fs::write(files.certificate(), in_certificate).unwrap();
        fs::write(files.key(), in_key).unwrap();
        let error = Tls::open(files.certificate(), files.key()).unwrap_err();
        let (told, reason) = (error.to_string(), &error.reason);
        assert_eq!(error.setting, setting, "{told}");
        assert!(reason.contains(part), "{part}: {told}");
        assert!(told.contains(&format!("{setting}.pem")), "{told}");
        // The message has no part of the key.
        assert!(!told.contains(&key[60..80]), "{told}");
    }
    let files = Files::of(&made);
    let missing = files.0.path().join("missing.pem");
    let error = Tls::open(&missing, files.key()).unwrap_err();
    assert!(error.to_string().contains("missing.pem"), "{error}");
    let error = Tls::open(files.certificate(), &missing).unwrap_err();
    assert_eq!(error.setting, "key");
}
