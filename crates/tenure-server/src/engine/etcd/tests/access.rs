//! Users, passwords, rights and certificates.

#[path = "../../../../tests/common/authority.rs"]
#[allow(dead_code, unreachable_pub)] // Other tests use the rest.
mod authority;

use std::fs;
use std::path::Path;
use std::thread;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, SanType};
use serde_json::json;
use tempfile::TempDir;

use self::authority::{Authority, HOUR, set_validity};
use super::*;

/// Calls until the outcome is as expected: a refused password is not sent again for a while.
fn wait_for<T: std::fmt::Debug>(
    log: &mut dyn SharedLog,
    expected: impl Fn(&Result<Sighting, LogError>) -> Option<T>,
) -> T {
    let mut outcome = log.head();
    for _ in 0..3_000 {
        if let Some(value) = expected(&outcome) {
            return value;
        }
        thread::sleep(Duration::from_millis(20));
        outcome = log.head();
    }
    panic!("{outcome:?}");
}

fn message_of(outcome: &Result<Sighting, LogError>) -> Option<String> {
    match outcome {
        Err(LogError::Misconfigured(message)) => Some(message.clone()),
        _ => None,
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Adds a user `tenure`, whose role has rights below `tenure/`, and turns authentication on.
fn require_users(etcd: &Etcd, password: &str) {
    let root = json!({"name": "root", "password": "of root"});
    etcd.must("/v3/auth/user/add", &root);
    etcd.must(
        "/v3/auth/user/grant",
        &json!({"user": "root", "role": "root"}),
    );
    let tenure = json!({"name": "tenure", "password": password});
    etcd.must("/v3/auth/user/add", &tenure);
    etcd.must("/v3/auth/role/add", &json!({"name": "tenure"}));
    let range = json!({
        "permType": "READWRITE", "key": base64("tenure/"), "range_end": base64("tenure0"),
    });
    let right = json!({"name": "tenure", "perm": range});
    etcd.must("/v3/auth/role/grant", &right);
    etcd.must(
        "/v3/auth/user/grant",
        &json!({"user": "tenure", "role": "tenure"}),
    );
    etcd.must("/v3/auth/enable", &json!({}));
}

#[test]
fn a_user_is_authenticated_again_when_its_token_or_its_password_changes() {
    let test = "a_user_is_authenticated_again_when_its_token_or_its_password_changes";
    let Some(mut etcd) = Etcd::start(test, 1) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "wrong\n").unwrap();
    let config = with_user(config(etcd.endpoints()), "tenure", file.clone());
    // An etcd without authentication needs no user.
    let mut log = steady(&config, PATIENT);
    assert_eq!(replace(&mut *log, None, "one"), Ok(Appended::Done));

    require_users(&etcd, "first");
    let mut without = config.clone();
    (without.user, without.password_file) = (None, None);
    let message = misconfigured(steady(&without, PATIENT).head());
    assert_eq!(
        message,
        "etcd requires a user: write a user into home, and password_file"
    );

    // The same connection needs the user from now on.
    let message = misconfigured(log.head());
    assert_eq!(
        message,
        "etcd refuses the password of the user tenure: correct the file password_file, which \
         is read again at the next attempt"
    );
    fs::write(&file, "first\n").unwrap();
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));
    assert_eq!(replace(&mut *log, Some("one"), "two"), Ok(Appended::Done));

    // A member forgets its tokens when it starts again.
    etcd.kill(0);
    etcd.spawn(0);
    etcd.wait_until_ready(0);
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));

    let new = json!({"name": "tenure", "password": "second"});
    etcd.must_as("root", "of root", "/v3/auth/user/changepw", &new);
    wait_for(&mut *log, message_of);
    fs::write(&file, "second").unwrap();
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));

    fs::remove_file(&file).unwrap();
    let message = misconfigured(steady(&config, PATIENT).head());
    let begin = format!("can't read {} (password_file): ", file.display());
    assert!(message.starts_with(&begin), "{message}");
    // The token is still valid.
    assert_eq!(head_of(&log.head().unwrap()), Some("two"));
}

#[test]
fn a_user_without_rights_reads_what_to_grant_and_goes_on_afterwards() {
    let test = "a_user_without_rights_reads_what_to_grant_and_goes_on_afterwards";
    let Some(etcd) = Etcd::start(test, 1) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "right").unwrap();
    require_users(&etcd, "right");
    let user = with_user(config(etcd.endpoints()), "tenure", file);
    let mut log = steady(&user, PATIENT);
    assert_eq!(replace(&mut *log, None, "one"), Ok(Appended::Done));

    let role = json!({"name": "tenure", "role": "tenure"});
    etcd.must_as("root", "of root", "/v3/auth/user/revoke", &role);
    let message = wait_for(&mut *log, message_of);
    assert_eq!(
        message,
        "the etcd user tenure may not use /v3/kv/range for keys below tenure/: etcdctl role \
         grant-permission ROLE readwrite --prefix=true tenure/"
    );
    misconfigured(replace(&mut *log, Some("one"), "two"));
    // The upkeep fails without harm.
    log.maintain();

    let role = json!({"user": "tenure", "role": "tenure"});
    etcd.must_as("root", "of root", "/v3/auth/user/grant", &role);
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));
    assert_eq!(replace(&mut *log, Some("one"), "two"), Ok(Appended::Done));

    let mut elsewhere = user;
    elsewhere.prefix = "other/".to_owned();
    let message = misconfigured(steady(&elsewhere, PATIENT).head());
    assert!(message.ends_with("--prefix=true other/"), "{message}");
}

/// Writes a certificate with its key. etcd uses its own certificate as a client, too.
fn issue(authority: &Authority, folder: &Path, name: &str, common_name: Option<&str>) {
    issue_until(authority, folder, name, common_name, HOUR);
}

/// The same, for a certificate that ends this number of seconds from now.
fn issue_until(
    authority: &Authority,
    folder: &Path,
    name: &str,
    common_name: Option<&str>,
    end: i64,
) {
    let issued = authority.issue_with(|params: &mut CertificateParams| {
        set_validity(params, -2 * HOUR, end);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, "tenure");
        if let Some(common_name) = common_name {
            name.push(DnType::CommonName, common_name);
        }
    });
    let write = |end: &str, text: String| fs::write(folder.join(format!("{name}.{end}")), text);
    write("pem", issued.certificate.pem()).unwrap();
    write("key", issued.key.serialize_pem()).unwrap();
}

#[test]
fn a_client_certificate_must_have_no_common_name_and_is_read_again() {
    let test = "a_client_certificate_must_have_no_common_name_and_is_read_again";
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let authority = Authority::new("etcd");
    fs::write(path("ca.pem"), &authority.pem).unwrap();
    issue(&authority, folder.path(), "server", None);
    let options = [
        "--cert-file",
        &text("server.pem"),
        "--key-file",
        &text("server.key"),
        "--client-cert-auth",
        "--trusted-ca-file",
        &text("ca.pem"),
    ];
    let Some(etcd) = Etcd::start_with(test, 1, &options) else {
        return;
    };
    let mut config = config(etcd.endpoints());
    let url = etcd.endpoint(0);
    assert_eq!(
        misconfigured(steady(&config, PATIENT).head()),
        format!(
            "etcd at {url}: the certificate of etcd is not signed by a known authority: name the \
             certificate of its authority in ca_file"
        )
    );
    config.ca_file = Some(path("ca.pem"));
    // The connection may end before the reason for it arrives.
    let message = wait_for(&mut *steady(&config, PATIENT), message_of);
    assert_eq!(
        message,
        format!("etcd at {url}: etcd requires a client certificate: set certificate and key")
    );

    // A certificate of another authority is refused, until the files have another one.
    issue(&Authority::new("other"), folder.path(), "client", None);
    config.certificate = Some(path("client.pem"));
    let failed = ConnectEtcd::new(&config, "default", PATIENT).connect();
    assert_eq!(misconfigured(failed), "certificate requires key");
    config.key = Some(path("client.key"));
    let mut log = steady(&config, PATIENT);
    let refused = "etcd does not accept the certificate in certificate and key (";
    let reason = "it has expired, or its authority is not in --trusted-ca-file of etcd";
    let assert_refused = |log: &mut dyn SharedLog| {
        let message = wait_for(log, message_of);
        assert!(
            message.starts_with(&format!("etcd at {url}: {refused}")),
            "{message}"
        );
        assert!(message.ends_with(reason), "{message}");
    };
    assert_refused(&mut *log);
    issue(&authority, folder.path(), "client", None);
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));
    assert_eq!(replace(&mut *log, None, "one"), Ok(Appended::Done));

    // So is one that has expired.
    issue_until(&authority, folder.path(), "client", None, -HOUR);
    let mut log = steady(&config, PATIENT);
    assert_refused(&mut *log);
    issue(&authority, folder.path(), "client", None);
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));

    // The certificate of etcd may have expired, or be of another authority than in the file here.
    issue_until(&authority, folder.path(), "server", None, -HOUR);
    let mut log = steady(&config, PATIENT);
    let message = misconfigured(log.head());
    assert_eq!(
        message,
        format!("etcd at {url}: the certificate of etcd has expired: renew it there")
    );
    issue(&authority, folder.path(), "server", None);
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));
    let mut elsewhere = config.clone();
    elsewhere.ca_file = Some(path("ca-here.pem"));
    // Another authority, and one with the same name and another key.
    for name in ["other", "etcd"] {
        fs::write(path("ca-here.pem"), &Authority::new(name).pem).unwrap();
        let message = misconfigured(steady(&elsewhere, PATIENT).head());
        assert!(
            message.ends_with("of its authority in ca_file"),
            "{name}: {message}"
        );
    }
    let mut log = steady(&elsewhere, PATIENT);
    misconfigured(log.head());
    fs::write(path("ca-here.pem"), &authority.pem).unwrap();
    wait_for(&mut *log, |outcome| outcome.is_ok().then_some(()));
    assert_eq!(head_of(&log.head().unwrap()), Some("one"));

    // With authentication, a common name would be a user, and the gateway refuses that.
    issue(&authority, folder.path(), "named", Some("root"));
    config.certificate = Some(path("named.pem"));
    config.key = Some(path("named.key"));
    etcd_auth_over_tls(&config, &etcd);
    assert_eq!(
        misconfigured(steady(&config, PATIENT).head()),
        "etcd takes no client certificate with a common name at its gateway: write a user into home, and \
         password_file, or use a certificate without a common name"
    );
    // A wrong file does not replace a certificate that is used.
    fs::write(path("client.pem"), "nonsense").unwrap();
    let message = misconfigured(log.head());
    assert!(message.contains("common name"), "{message}");
}

/// Turns authentication on. The gateway refuses requests of a client with a common name only then.
fn etcd_auth_over_tls(config: &EtcdConfig, etcd: &Etcd) {
    let pem = |path: &Option<PathBuf>| fs::read(path.as_ref().unwrap()).unwrap();
    let roots = reqwest::Certificate::from_pem_bundle(&pem(&config.ca_file)).unwrap();
    let identity = [pem(&config.certificate), pem(&config.key)].concat();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only(roots)
        .identity(reqwest::Identity::from_pem(&identity).unwrap())
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (path, body) in [
        ("user/add", json!({"name": "root", "password": "of root"})),
        ("user/grant", json!({"user": "root", "role": "root"})),
        ("enable", json!({})),
    ] {
        let url = format!("{}/v3/auth/{path}", etcd.endpoint(0));
        let sent = runtime.block_on(client.post(url).json(&body).send());
        assert_eq!(sent.unwrap().status(), 200, "{path}");
    }
}

#[test]
fn settings_that_can_not_work_are_named() {
    let mut wrong = config(Vec::new());
    let failure =
        |config: &EtcdConfig| misconfigured(ConnectEtcd::new(config, "default", PATIENT).connect());
    assert!(failure(&wrong).starts_with("home must name members"));
    wrong.endpoints = vec!["http://127.0.0.1:1".to_owned()];
    wrong.user = Some("tenure".to_owned());
    assert_eq!(failure(&wrong), "a user requires password_file");
    wrong.password_file = Some("/nonexistent/password".into());
    wrong.ca_file = Some("/nonexistent/ca.pem".into());
    let message = failure(&wrong);
    let begin = "can't read /nonexistent/ca.pem (ca_file): ";
    assert!(message.starts_with(begin), "{message}");
    wrong.ca_file = Some("/dev/null".into());
    let message = failure(&wrong);
    let begin = "can't use /dev/null (ca_file): there is no certificate in it";
    assert!(message.starts_with(begin), "{message}");
}
