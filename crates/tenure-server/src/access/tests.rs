//! Tokens from headers to rights, and files that change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderValue;
use tempfile::TempDir;

use super::jwt::tests::{Signer, claims};
use super::*;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("access.toml")
    }

    /// Replaces the file, as an editor does.
    fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o640)).unwrap();
        fs::rename(&new, self.path()).unwrap();
    }

    /// One principal that reads namespace `a`, with these tokens.
    fn write_principal(&self, tokens: &[&Secret], more: &str) {
        let secrets = tokens.iter().map(|token| {
            format!(
                "[[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n{more}\n",
                token.id(),
                token.hash()
            )
        });
        let secrets = secrets.collect::<String>();
        self.write(&format!(
            "version = 1\n[[principal]]\nname = \"reader\"\n\
             grants = [{{ role = \"read\", namespace = \"a\" }}]\n{secrets}"
        ));
    }

    fn open(&self) -> Access {
        Access::open(self.path()).unwrap()
    }
}

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn with(token: &Secret) -> HeaderMap {
    headers(&[&format!("Bearer {}", token.reveal())])
}

const CLIENT: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)));
const READ: Right = Right::Role(Role::Read);

fn refusal(access: &Access, headers: &HeaderMap) -> Problem {
    access.authenticate(headers, None).unwrap_err()
}

#[test]
fn a_token_of_the_file_is_its_principal() {
    let (fixture, token, next) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token, &next], "");
    let access = fixture.open();
    for token in [&token, &next] {
        for scheme in ["Bearer", "bearer", "BEARER "] {
            let headers = headers(&[&format!("{scheme} {}", token.reveal())]);
            let caller = access.authenticate(&headers, CLIENT).unwrap();
            assert_eq!(caller.name().map(|name| &**name), Some("reader"));
            assert!(caller.may(READ, Target::Lease("a", "x")));
            assert!(!caller.may(READ, Target::Lease("b", "x")));
        }
    }
}

#[test]
fn every_wrong_credential_gets_the_same_answer() {
    let (fixture, token, other) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token], "");
    let access = fixture.open();
    let text = token.reveal();
    let same_id = format!("{}{}", &text[..14], &other.reveal()[14..]);
    let cases = [
        headers(&[]),
        with(&other),
        headers(&[&format!("Bearer {same_id}")]),
        headers(&["Bearer"]),
        headers(&["Bearer "]),
        headers(&["Bearer x"]),
        headers(&[&format!("Basic {text}")]),
        headers(&[text]),
        headers(&[&format!("Bearer {text} ")]),
        headers(&[&format!("Bearer {text}"), &format!("Bearer {text}")]),
    ];
    let expected = unauthenticated();
    assert_eq!(expected.status, 401);
    for headers in cases {
        assert_eq!(refusal(&access, &headers), expected, "{headers:?}");
    }
}

#[test]
fn an_expired_token_is_refused() {
    let (fixture, token) = (Fixture::new(), Secret::generate());
    fixture.write_principal(&[&token], "expires = 2020-01-01T00:00:00Z");
    let access = fixture.open();
    assert_eq!(refusal(&access, &with(&token)), unauthenticated());
    fixture.write_principal(&[&token], "expires = 9020-01-01T00:00:00Z");
    assert!(access.reload().unwrap());
    access.authenticate(&with(&token), None).unwrap();
}

#[test]
fn failures_of_an_address_are_limited_and_valid_credentials_are_not() {
    let (fixture, token, wrong) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token], "");
    let access = fixture.open();
    let mut statuses = Vec::new();
    for _ in 0..1000 {
        let refusal = access.authenticate(&with(&wrong), CLIENT).unwrap_err();
        statuses.push(refusal.status);
        access.authenticate(&with(&token), CLIENT).unwrap();
    }
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10);
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        990
    );
    // A request without a credential is no guess.
    let missing = access.authenticate(&headers(&[]), CLIENT).unwrap_err();
    assert_eq!(missing, unauthenticated());
}

#[test]
fn a_changed_file_is_in_force_after_a_reload() {
    let (fixture, token, next) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token], "");
    let access = fixture.open();
    assert!(!access.reload().unwrap());
    fixture.write_principal(&[&next], "");
    assert!(access.reload().unwrap());
    access.authenticate(&with(&next), None).unwrap();
    refusal(&access, &with(&token));
}

#[test]
fn a_wrong_file_leaves_the_rules_before_in_force_and_is_reported_once() {
    let (fixture, token) = (Fixture::new(), Secret::generate());
    fixture.write_principal(&[&token], "");
    let access = fixture.open();
    fixture.write("version = 1\nprincipal = 7\n");
    let error = access.reload().unwrap_err().to_string();
    assert!(error.contains("access.toml:2: "), "{error}");
    assert!(!access.reload().unwrap());
    access.authenticate(&with(&token), None).unwrap();
    fs::remove_file(fixture.path()).unwrap();
    access.reload().unwrap_err();
    assert!(!access.reload().unwrap());
    access.authenticate(&with(&token), None).unwrap();
    fixture.write_principal(&[], "");
    assert!(access.reload().unwrap());
    refusal(&access, &with(&token));
}

#[test]
fn a_file_that_others_may_write_is_refused_with_the_command_that_mends_it() {
    let (fixture, token) = (Fixture::new(), Secret::generate());
    fixture.write_principal(&[&token], "");
    let access = fixture.open();
    for mode in [0o660, 0o602] {
        fs::set_permissions(fixture.path(), fs::Permissions::from_mode(mode)).unwrap();
        let path = fixture.path();
        let error = Access::open(&path).unwrap_err().to_string();
        let expected = format!(
            "{0} has mode {mode:04o}: other users could change all rights; run: chmod go-w {0}",
            path.display()
        );
        assert_eq!(error, expected);
        assert_eq!(access.reload().unwrap_err().to_string(), expected);
    }
    access.authenticate(&with(&token), None).unwrap();
}

#[tokio::test]
async fn a_caller_is_refused_as_soon_as_its_right_or_its_token_is_gone() {
    let (fixture, token) = (Fixture::new(), Secret::generate());
    let revocations: [&dyn Fn(); 2] = [&|| fixture.write_principal(&[], ""), &|| {
        let other = "version = 1\n[[principal]]\nname = \"reader\"\n\
                grants = [{ role = \"read\", namespace = \"b\" }]\n[[principal.secret]]\n";
        let secret = format!("id = \"{}\"\nsha256 = \"{}\"\n", token.id(), token.hash());
        fixture.write(&format!("{other}{secret}"));
    }];
    for revoke in revocations {
        fixture.write_principal(&[&token], "");
        let access = fixture.open();
        let caller = access.authenticate(&with(&token), None).unwrap();
        let mut refused = Box::pin(access.refused(&caller, READ, Target::Lease("a", "x")));
        fixture.write_principal(&[&token, &Secret::generate()], "");
        access.reload().unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut refused).await;
        assert!(
            waited.is_err(),
            "a change that concerns others ends nothing"
        );
        revoke();
        access.reload().unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(10), refused).await;
        waited.expect("the caller is refused");
    }
}

#[tokio::test]
async fn a_caller_is_refused_when_its_token_expires() {
    let (fixture, token) = (Fixture::new(), Secret::generate());
    let expires = chrono::Utc::now() + chrono::TimeDelta::milliseconds(300);
    let expires = expires.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    fixture.write_principal(&[&token], &format!("expires = {expires}"));
    let access = fixture.open();
    let caller = access.authenticate(&with(&token), None).unwrap();
    let refused = access.refused(&caller, READ, Target::Lease("a", "x"));
    let waited = tokio::time::timeout(Duration::from_secs(10), refused).await;
    waited.expect("the caller is refused");
}

#[test]
fn uses_are_remembered_over_a_reload() {
    let (fixture, token, idle) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token, &idle], "");
    let access = fixture.open();
    access.authenticate(&with(&token), None).unwrap();
    fixture.write_principal(&[&idle, &token], "");
    access.reload().unwrap();
    let used = access.with_principals(|_, last_used| {
        [&token, &idle].map(|token| last_used(token.id()).is_some())
    });
    assert_eq!(used, Some([true, false]));
}

#[test]
fn a_data_directory_is_marked_once() {
    let folder = TempDir::new().unwrap();
    assert!(!is_guarded(folder.path()));
    mark_guarded(folder.path()).unwrap();
    mark_guarded(folder.path()).unwrap();
    assert!(is_guarded(folder.path()));
}

/// One authority, a rule for its team, and an identity of the team that is denied.
const WITH_ISSUER: &str = "version = 1
[[issuer]]
name = \"ci\"
issuer = \"https://issuer.example\"
audience = \"tenure\"
key_set_file = \"unused\"
[[match]]
identity = \"ci:team/*\"
grants = [{ role = \"read\", namespace = \"a\" }]
[[deny]]
identity = \"ci:team/old\"
";

fn with_jwt(token: &str) -> HeaderMap {
    headers(&[&format!("Bearer {token}")])
}

#[test]
fn a_json_web_token_is_its_identity_with_the_rights_of_the_rules() {
    let (fixture, signer) = (Fixture::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    let token = |subject: &str| with_jwt(&signer.sign("one", &claims(subject)));
    let build = token("team/build");
    assert_eq!(refusal(&access, &build), unauthenticated(), "no keys yet");
    access
        .replace_keys("ci", &signer.key_set("one"), None)
        .unwrap();
    for _ in 0..3 {
        let caller = access.authenticate(&build, CLIENT).unwrap();
        assert_eq!(caller.name().map(|name| &**name), Some("ci:team/build"));
        assert!(caller.may(READ, Target::Lease("a", "x")));
        assert!(!caller.may(READ, Target::Lease("b", "x")));
    }
    let other = access.authenticate(&token("other"), CLIENT).unwrap();
    assert!(
        !other.may(READ, Target::Lease("a", "x")) && other.may(Right::Credential, Target::Store)
    );
    assert_eq!(refusal(&access, &token("team/old")), unauthenticated());

    // A rule that is taken back, and keys that are taken back.
    fixture.write(&WITH_ISSUER.replace("team/old", "team/build"));
    assert!(access.reload().unwrap());
    assert_eq!(refusal(&access, &build), unauthenticated());
    let again = token("team/old");
    access.authenticate(&again, CLIENT).unwrap();
    access
        .replace_keys("ci", &Signer::new().key_set("one"), None)
        .unwrap();
    assert_eq!(refusal(&access, &again), unauthenticated());
    assert!(
        access
            .replace_keys("cd", &signer.key_set("one"), None)
            .is_err()
    );
}

#[test]
fn wrong_json_web_tokens_are_limited_and_known_ones_are_not() {
    let (fixture, signer, other) = (Fixture::new(), Signer::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    access
        .replace_keys("ci", &signer.key_set("one"), None)
        .unwrap();
    let known = with_jwt(&signer.sign("one", &claims("team/build")));
    access.authenticate(&known, CLIENT).unwrap();
    let wrong = with_jwt(&other.sign("one", &claims("team/build")));
    let statuses = (0..100).map(|_| {
        access.authenticate(&known, CLIENT).unwrap();
        access.authenticate(&wrong, CLIENT).unwrap_err().status
    });
    let statuses: Vec<u16> = statuses.collect();
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10);
    // A new token of the right signer is let in within a second.
    let fresh = with_jwt(&signer.sign("one", &claims("team/fresh")));
    let start = Instant::now();
    while access.authenticate(&fresh, CLIENT).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_memory_for_checked_tokens_is_bounded() {
    let (fixture, signer) = (Fixture::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    access
        .replace_keys("ci", &signer.key_set("one"), None)
        .unwrap();
    for number in 0..10_050 {
        let token = with_jwt(&signer.sign("one", &claims(&format!("team/{number}"))));
        access.authenticate(&token, CLIENT).unwrap();
    }
    let Mode::Guarded(guarded) = &*access.0 else {
        unreachable!("the access has a file")
    };
    assert!(guarded.table().checked_count() <= 10_000);
}
