//! The metrics of credentials and of files that are read again.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use tenure_server::Tls;
use tenure_server::access::Secret;
use tenure_server::audit::{Audit, AuditConfig, AuditTarget};

#[path = "../common/signer.rs"]
mod signer;

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

/// Returns a principal with one token, which expires at this time if one is given.
fn principal(name: &str, grants: &str, secret: &Secret, expires: &str) -> String {
    let (id, hash) = (secret.id(), secret.hash());
    let expires = match expires {
        "" => String::new(),
        expires => format!("expires = {expires}\n"),
    };
    format!(
        "[[principal]]\nname = {name:?}\ngrants = [{grants}]\n[[principal.secret]]\nid = \"{id}\"\n\
         sha256 = \"{hash}\"\n{expires}"
    )
}

async fn status(api: &Api, path: &str, authorization: &str) -> u16 {
    let request = api.http.get(format!("{}{path}", api.origin));
    let request = match authorization {
        "" => request,
        value => request.header("authorization", value),
    };
    request.send().await.unwrap().status().as_u16()
}

async fn scrape(api: &Api, secret: &Secret) -> Metrics {
    let request = api.http.get(format!("{}/metrics", api.origin));
    let request = request.bearer_auth(secret.reveal());
    Metrics(request.send().await.unwrap().text().await.unwrap())
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

const METRICS: &str = "{ role = \"metrics\" }";
const READ: &str = "{ role = \"read\", namespace = \"*\" }";

#[tokio::test]
async fn refused_credentials_are_counted_by_their_reasons() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.toml");
    let [scraper, reader, late, unknown] = [(); 4].map(|()| Secret::generate());
    let signer = signer::Signer::new();
    let issuer = format!(
        "[[issuer]]\nname = \"ci\"\nissuer = {:?}\naudience = \"tenure\"\nkey_set_file = \"unused\"\n\
         [[match]]\nidentity = \"ci:*\"\ngrants = [{READ}]\n[[deny]]\nidentity = \"ci:denied\"\n",
        signer::ISSUER
    );
    let text = [
        "version = 1\n",
        &issuer,
        &principal("prometheus", METRICS, &scraper, ""),
        &principal("reader", READ, &reader, "2999-01-01T00:00:00Z"),
        &principal("late", READ, &late, "2020-01-01T00:00:00Z"),
    ];
    write(&path, &text.concat());
    let access = Access::open(&path).unwrap();
    let keys = signer.key_set("one");
    access
        .replace_keys(&access.issuers()[0], &keys, None)
        .unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let api = served(bind(&store).with_access(access)).api;
    let bearer = |token: &str| format!("Bearer {token}");
    let denied = signer.sign("one", &signer::claims("denied"));
    let mut claims = signer::claims("worker");
    claims["exp"] = Value::from(1_600_000_000);
    let over = signer.sign("one", &claims);
    for (authorization, count) in [
        (String::new(), 2),
        (bearer(late.reveal()), 2),
        (bearer(&over), 1),
        (bearer(unknown.reveal()), 1),
        (bearer(&denied), 1),
        ("Basic eDp5".to_owned(), 1),
    ] {
        for _ in 0..count {
            assert_eq!(status(&api, "/v1/limits", &authorization).await, 401);
        }
    }
    // Four more failures of this address pass at once.
    for _ in 0..10 {
        status(&api, "/v1/limits", &bearer(unknown.reveal())).await;
    }
    assert_eq!(status(&api, "/metrics", "").await, 401);
    assert_eq!(
        status(&api, "/metrics", &bearer(reader.reveal())).await,
        403
    );
    let metrics = scrape(&api, &scraper).await;
    let failures = |why: &str| metrics.get(&format!("tenure_auth_failures_total{{why=\"{why}\"}}"));
    for (why, count) in [
        ("missing", 3.0),
        ("expired", 3.0),
        ("denied", 1.0),
        ("malformed", 1.0),
    ] {
        assert_eq!(failures(why), count, "{why}\n{}", metrics.0);
    }
    assert!(failures("limited") >= 1.0, "{}", metrics.0);
    assert_eq!(failures("unknown") + failures("limited"), 11.0);
    // The token that has expired is not the next one.
    metrics.assert("tenure_secret_expiry_timestamp_seconds", 32_472_144_000.0);
    assert_eq!(metrics.count("tenure_build_info{"), 1);
    assert!(metrics.0.contains("access=\"file\"}"));
}

#[tokio::test]
async fn reloads_and_ends_of_files_are_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.toml");
    let scraper = Secret::generate();
    let issuer = format!(
        "[[issuer]]\nname = \"ci\"\nissuer = {:?}\naudience = \"tenure\"\nkey_set_file = \"unused\"\n",
        signer::ISSUER
    );
    let text = principal("prometheus", METRICS, &scraper, "");
    let text = format!("version = 1\n{issuer}{text}");
    write(&path, &text);
    let access = Access::open(&path).unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::open(&certificate, &key).unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let server = bind(&store).with_access(access.clone());
    let running = served(server.with_tls(tls.clone()));
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let api = Api {
        origin: running.api.origin.replace("http:", "https:"),
        http: reqwest::Client::builder()
            .tls_certs_only([root])
            .build()
            .unwrap(),
    };
    let successful = |what: &str| format!("tenure_reload_successful{{what=\"{what}\"}}");
    let at = |what: &str| format!("tenure_reload_timestamp_seconds{{what=\"{what}\"}}");
    let fetched = "tenure_key_set_timestamp_seconds{issuer=\"ci\"}";
    let first = scrape(&api, &scraper).await;
    for what in ["access", "certificate", "keys"] {
        first.assert(&successful(what), 1.0);
    }
    assert_eq!((first.find(&at("keys")), first.find(fetched)), (None, None));
    let (_, parsed) = x509_parser::parse_x509_certificate(made.cert.der()).unwrap();
    let end = parsed.validity().not_after.timestamp() as f64;
    first.assert("tenure_certificate_expiry_timestamp_seconds", end);

    let issuer = &access.issuers()[0];
    let keys = signer::Signer::new().key_set("one");
    access.replace_keys(issuer, &keys, None).unwrap();
    sleep(Duration::from_millis(10)).await;
    let before = seconds(SystemTime::now());
    write(&path, "version = 2\n");
    access.reload().unwrap_err();
    assert!(!access.reload().unwrap(), "a wrong file is read once");
    fs::write(&certificate, "no certificate").unwrap();
    tls.reload().unwrap_err();
    access.note_failed_fetch(issuer);
    let wrong = scrape(&api, &scraper).await;
    for what in ["access", "certificate", "keys"] {
        wrong.assert(&successful(what), 0.0);
        let at = wrong.find(&at(what)).unwrap();
        assert!(at > before - 600.0 && at < before, "{what}: {at}");
    }
    assert!(wrong.get(fetched) < before);
    wrong.assert("tenure_certificate_expiry_timestamp_seconds", end);

    write(&path, &text);
    assert!(access.reload().unwrap());
    fs::write(&certificate, made.cert.pem()).unwrap();
    assert!(!tls.reload().unwrap());
    let issuer = &access.issuers()[0];
    access.replace_keys(issuer, &keys, None).unwrap();
    let right = scrape(&api, &scraper).await;
    for what in ["access", "certificate", "keys"] {
        right.assert(&successful(what), 1.0);
        assert!(right.get(&at(what)) >= before - 0.001, "{what}");
    }
    assert!(right.get(fetched) >= before - 0.001);
}

#[tokio::test]
async fn lines_of_the_audit_log_are_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let api = served(bind(&store).with_audit(audit)).api;
    assert_ok(&api.acquire("a", 1).await);
    let broken = json!({"break_period_ms": 0});
    assert_ok(&api.post("a", "break", broken.clone()).await);
    let metrics = Metrics::of(&api).await;
    metrics.assert("tenure_audit_lines_total", 1.0);
    metrics.assert("tenure_audit_lost_total", 0.0);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_ok(&api.acquire("a", 2).await);
    assert_ok(&api.post("a", "break", broken).await);
    let metrics = Metrics::of(&api).await;
    metrics.assert("tenure_audit_lines_total", 1.0);
    metrics.assert("tenure_audit_lost_total", 1.0);
}

#[tokio::test]
async fn log_lines_that_the_program_dropped_are_shown() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let config = MetricsConfig::default().with_dropped_log_lines(|| 17);
    let metrics = scrape_with(&store, config).await;
    metrics.assert("tenure_log_dropped_lines_total", 17.0);
    let metrics = scrape_with(&store, MetricsConfig::default()).await;
    metrics.assert("tenure_log_dropped_lines_total", 0.0);
}
