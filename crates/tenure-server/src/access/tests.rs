//! Tests of tokens from headers to rights, and of changed files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderValue;
use tempfile::TempDir;

use super::jwt::tests::signer::{self, Signer, claims};
use super::*;
use crate::{is_guarded, mark_guarded};

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

    /// Replaces the file in the same manner as an editor.
    fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o640)).unwrap();
        fs::rename(&new, self.path()).unwrap();
    }

    /// Writes a file with one principal that reads namespace `a`, with these tokens.
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
        let connection = LastCredential::default();
        let again = || access.authenticate_on(&connection, &with(&token), None);
        let caller = again().unwrap();
        let mut refused = Box::pin(access.refused(&caller, READ, Target::Lease("a", "x")));
        fixture.write_principal(&[&token, &Secret::generate()], "");
        access.reload().unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut refused).await;
        assert!(
            waited.is_err(),
            "a change that concerns others ends nothing"
        );
        again().unwrap();
        revoke();
        access.reload().unwrap();
        // The same connection has the present rights at once, or none.
        assert!(!again().is_ok_and(|caller| caller.may(READ, Target::Lease("a", "x"))));
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
    let connection = LastCredential::default();
    let caller = access
        .authenticate_on(&connection, &with(&token), None)
        .unwrap();
    let refused = access.refused(&caller, READ, Target::Lease("a", "x"));
    let waited = tokio::time::timeout(Duration::from_secs(10), refused).await;
    waited.expect("the caller is refused");
    let again = access.authenticate_on(&connection, &with(&token), None);
    assert_eq!(again.unwrap_err().status, 401);
}

#[test]
fn a_connection_that_repeats_its_credential_pays_no_whole_check_until_the_rules_change() {
    let (fixture, token, other) = (Fixture::new(), Secret::generate(), Secret::generate());
    fixture.write_principal(&[&token, &other], "");
    let access = fixture.open();
    let Mode::Guarded(guarded) = &*access.0 else {
        unreachable!("it has a file")
    };
    let connection = LastCredential::default();
    let is_known = |token: &Secret| {
        let header = &with(token)[AUTHORIZATION];
        connection.find(header, guarded.rules()).is_some()
    };
    let send = |headers: &HeaderMap| access.authenticate_on(&connection, headers, CLIENT);
    send(&with(&token)).unwrap();
    assert!(is_known(&token) && !is_known(&other));
    // A wrong credential is checked, and the connection forgets nothing.
    send(&with(&Secret::generate())).unwrap_err();
    let twice = [&token, &other].map(|token| format!("Bearer {}", token.reveal()));
    send(&headers(&twice.each_ref().map(String::as_str))).unwrap_err();
    send(&headers(&[])).unwrap_err();
    assert!(is_known(&token));
    send(&with(&other)).unwrap();
    assert!(is_known(&other) && !is_known(&token));
    // A use without the whole check is a use.
    fixture.write_principal(&[&other, &token], "");
    access.reload().unwrap();
    assert!(!is_known(&other));
    let uses = |access: &Access| access.with_principals(|_, last_used| last_used(other.id()));
    let before = uses(&access);
    send(&with(&other)).unwrap();
    while uses(&access) == before {
        assert!(is_known(&other));
        send(&with(&other)).unwrap();
    }
    // A session ends on its connection, too.
    let caller = send(&with(&other)).unwrap();
    let session = access.issue_session(&caller).unwrap().text;
    let session = headers(&[&format!("Bearer {session}")]);
    let of_session = send(&session).unwrap();
    send(&session).unwrap();
    access.end_session(&of_session).unwrap();
    assert_eq!(send(&session).unwrap_err().status, 401);
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
        .replace_keys(&access.issuers()[0], &signer.key_set("one"), None)
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

    // A rule and keys are withdrawn.
    fixture.write(&WITH_ISSUER.replace("team/old", "team/build"));
    assert!(access.reload().unwrap());
    assert_eq!(refusal(&access, &build), unauthenticated());
    let again = token("team/old");
    access.authenticate(&again, CLIENT).unwrap();
    access
        .replace_keys(&access.issuers()[0], &Signer::new().key_set("one"), None)
        .unwrap();
    assert_eq!(refusal(&access, &again), unauthenticated());
}

#[test]
fn wrong_json_web_tokens_are_limited_and_known_ones_are_not() {
    let (fixture, signer, other) = (Fixture::new(), Signer::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    access
        .replace_keys(&access.issuers()[0], &signer.key_set("one"), None)
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
    // A new token of the right signer is accepted within a second.
    let fresh = with_jwt(&signer.sign("one", &claims("team/fresh")));
    let start = Instant::now();
    while access.authenticate(&fresh, CLIENT).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends wrong tokens from an address until it is over its limit, and uses up the check of this
/// second.
fn exhaust(access: &Access) {
    let wrong = with_jwt(&Signer::new().sign("one", &claims("team/build")));
    while access.authenticate(&wrong, CLIENT).unwrap_err().status != 429 {}
}

#[test]
fn a_new_token_is_let_in_while_its_address_repeats_a_wrong_one() {
    let (fixture, signer, other) = (Fixture::new(), Signer::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    access
        .replace_keys(&access.issuers()[0], &signer.key_set("one"), None)
        .unwrap();
    let wrong = with_jwt(&other.sign("one", &claims("team/build")));
    let fresh = with_jwt(&signer.sign("one", &claims("team/fresh")));
    let start = Instant::now();
    loop {
        // There are many more tokens than checks, so that each check happens before the new token
        // comes.
        for _ in 0..100 {
            access.authenticate(&wrong, CLIENT).unwrap_err();
        }
        if access.authenticate(&fresh, CLIENT).is_ok() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_wrong_token_is_checked_again_by_other_keys() {
    let (fixture, signer, next) = (Fixture::new(), Signer::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    let issuer = &access.issuers()[0];
    let replace = |signer: &Signer| access.replace_keys(issuer, &signer.key_set("one"), None);
    replace(&signer).unwrap();
    let token = with_jwt(&next.sign("one", &claims("team/build")));
    assert_eq!(refusal(&access, &token), unauthenticated());
    replace(&next).unwrap();
    access.authenticate(&token, CLIENT).unwrap();
}

#[test]
fn a_known_token_passes_over_the_limit_also_after_a_change_of_the_file_or_of_the_keys() {
    let (fixture, signer, next) = (Fixture::new(), Signer::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    let replace = |keys: &[serde_json::Value]| {
        let set = serde_json::json!({ "keys": keys });
        access
            .replace_keys(&access.issuers()[0], &set.to_string(), None)
            .unwrap()
    };
    replace(&[signer.key("one")]);
    let known = with_jwt(&signer.sign("one", &claims("team/build")));
    access.authenticate(&known, CLIENT).unwrap();
    exhaust(&access);
    let is_admitted = || access.authenticate(&known, CLIENT).is_ok();
    for _ in 0..100 {
        assert!(is_admitted());
    }
    // Rules for other callers, a key that is announced, and the same keys again change nothing.
    fixture.write(&WITH_ISSUER.replace("team/old", "team/older"));
    assert!(access.reload().unwrap() && is_admitted());
    assert!(replace(&[signer.key("one"), next.key("two")]) && is_admitted());
    assert!(!replace(&[signer.key("one"), next.key("two")]) && is_admitted());
    // The caller's own grants change with the file.
    fixture.write(&WITH_ISSUER.replace("namespace = \"a\"", "namespace = \"b\""));
    assert!(access.reload().unwrap());
    let caller = access.authenticate(&known, CLIENT).unwrap();
    assert!(
        caller.may(READ, Target::Lease("b", "x")) && !caller.may(READ, Target::Lease("a", "x"))
    );
    // The key is withdrawn, the identity is denied, or another authority replaces its authority.
    let (file, keys) = (WITH_ISSUER, [signer.key("one"), next.key("two")]);
    let changes: [&dyn Fn(); 4] = [
        &|| assert!(replace(&[next.key("two")])),
        &|| assert!(replace(&[])),
        &|| fixture.write(&file.replace("team/old", "team/build")),
        &|| fixture.write(&file.replace("\"tenure\"", "\"other\"")),
    ];
    for change in changes {
        fixture.write(file);
        access.reload().unwrap();
        replace(&keys);
        let elsewhere = "10.0.0.10".parse().ok();
        access.authenticate(&known, elsewhere).unwrap();
        assert!(is_admitted());
        change();
        access.reload().unwrap();
        assert!(!is_admitted());
    }
}

#[test]
fn an_authority_that_is_named_again_has_the_keys_that_are_put_in_force_again() {
    let (fixture, signer) = (Fixture::new(), Signer::new());
    fixture.write(WITH_ISSUER);
    let access = fixture.open();
    let keys = signer.key_set("one");
    assert!(
        access
            .replace_keys(&access.issuers()[0], &keys, None)
            .unwrap()
    );
    let issuer = access.issuers().remove(0);
    fixture.write("version = 1\n");
    assert!(access.reload().unwrap());
    access.replace_keys(&issuer, &keys, None).unwrap_err();
    fixture.write(&WITH_ISSUER.replace("\"unused\"", "\"other\""));
    assert!(access.reload().unwrap());
    let other = "keys that were fetched for another issuer of this name";
    access.replace_keys(&issuer, &keys, None).expect_err(other);
    fixture.write(WITH_ISSUER);
    assert!(access.reload().unwrap());
    assert!(
        access
            .replace_keys(&access.issuers()[0], &keys, None)
            .unwrap()
    );
    let token = with_jwt(&signer.sign("one", &claims("team/build")));
    access.authenticate(&token, CLIENT).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_could_block_or_that_others_may_write_is_refused_at_once() {
    use nix::sys::stat::Mode;

    let folder = tempfile::tempdir().unwrap();
    let (pipe, keys) = (folder.path().join("pipe"), folder.path().join("keys"));
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    // No process writes into the pipe, so a plain open would wait forever.
    assert!(matches!(
        Access::open(&pipe),
        Err(AccessError::Unreadable { .. })
    ));
    assert!(matches!(
        read_keys(&pipe),
        Err(AccessError::Unreadable { .. })
    ));
    fs::write(&keys, "{}").unwrap();
    assert_eq!(read_keys(&keys).unwrap(), "{}");
    let mode = fs::Permissions::from_mode(0o666);
    fs::set_permissions(&keys, mode).unwrap();
    assert!(matches!(
        read_keys(&keys),
        Err(AccessError::Permissions { .. })
    ));
}

#[tokio::test]
async fn what_an_authority_vouched_for_ends_with_its_key_its_issuer_and_its_audience() {
    let target = Target::Lease("a", "x");
    let other_audience = WITH_ISSUER.replace("\"tenure\"", "\"other\"");
    let other_issuer = WITH_ISSUER.replace(signer::ISSUER, "https://other.example");
    let signer = Signer::new();
    let replace = |access: &Access, signer: &Signer| {
        let issuer = access.issuers().remove(0);
        access
            .replace_keys(&issuer, &signer.key_set("one"), None)
            .unwrap();
    };
    // With the same keys, another authority does not vouch for these tokens either.
    let reload = |fixture: &Fixture, access: &Access, text: &str| {
        fixture.write(text);
        assert!(access.reload().unwrap());
        if !access.issuers().is_empty() {
            replace(access, &signer);
        }
    };
    type Change<'a> = &'a dyn Fn(&Fixture, &Access);
    let changes: [Change<'_>; 4] = [
        &|_, access| replace(access, &Signer::new()),
        &|fixture, access| reload(fixture, access, "version = 1\n"),
        &|fixture, access| reload(fixture, access, &other_audience),
        &|fixture, access| reload(fixture, access, &other_issuer),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let fixture = Fixture::new();
        fixture.write(WITH_ISSUER);
        let access = fixture.open();
        replace(&access, &signer);
        let token = with_jwt(&signer.sign("one", &claims("team/build")));
        let [connection, other] = [(); 2].map(|()| LastCredential::default());
        let caller = access.authenticate_on(&connection, &token, CLIENT).unwrap();
        let session = access.issue_session(&caller).unwrap().text;
        let session = headers(&[&format!("Bearer {session}")]);
        let of_session = access.authenticate_on(&other, &session, CLIENT).unwrap();
        let code = access.issue_code(&caller).unwrap().text;
        let ended = async {
            tokio::join!(
                access.refused(&caller, READ, target),
                access.refused(&of_session, READ, target)
            )
        };
        let mut ended = std::pin::pin!(ended);
        let pending = tokio::time::timeout(Duration::ZERO, &mut ended).await;
        pending.unwrap_err();
        // An announced key changes nothing for the others.
        let issuer = access.issuers().remove(0);
        let set = serde_json::json!({"keys": [signer.key("one"), Signer::new().key("two")]});
        assert!(
            access
                .replace_keys(&issuer, &set.to_string(), None)
                .unwrap()
        );
        let pending = tokio::time::timeout(Duration::ZERO, &mut ended).await;
        pending.unwrap_err();

        change(&fixture, &access);
        let in_time = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(in_time.is_ok(), "change {number} ends what is open");
        for (caller, connection, headers) in [
            (&caller, &connection, &token),
            (&of_session, &other, &session),
        ] {
            access.check_again(caller, READ, target).unwrap_err();
            let again = access.authenticate_on(connection, headers, CLIENT);
            again.unwrap_err();
        }
        access.use_code(&code, CLIENT).unwrap_err();
    }
}

/// A writer of log lines for a test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Returns the lines that are logged meanwhile.
    fn of(action: impl FnOnce()) -> String {
        let lines = Self::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, action);
        let lines = lines.0.lock().unwrap();
        String::from_utf8(lines.clone()).unwrap()
    }
}

#[test]
fn each_refused_credential_has_a_line_with_the_reason_and_no_secret() {
    let (fixture, signer) = (Fixture::new(), Signer::new());
    let [token, unknown, expired] = [(); 3].map(|()| Secret::generate());
    let principal = |name: &str, token: &Secret, more: &str| {
        format!(
            "[[principal]]\nname = {name:?}\n[[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n{more}\n",
            token.id(),
            token.hash()
        )
    };
    fixture.write(&format!(
        "{WITH_ISSUER}{}{}",
        principal("ada", &token, ""),
        principal("old", &expired, "expires = 2020-01-01T00:00:00Z")
    ));
    // The lines of a store are limited, so the cases have stores of their own.
    let open = || {
        let access = fixture.open();
        let issuer = access.issuers().remove(0);
        let keys = signer.key_set("one");
        access.replace_keys(&issuer, &keys, None).unwrap();
        access
    };
    let check_line = |lines: &str, parts: &[&str], secret: &str| {
        assert_eq!(lines.lines().count(), 1, "{lines}");
        let always = ["DEBUG", "a credential is refused", "10.0.0.9"];
        for part in always.iter().chain(parts) {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        for part in secret.split(['.', '_']).filter(|part| part.len() > 20) {
            assert!(!lines.contains(part), "{lines}");
        }
    };
    let send = |access: &Access, text: &str, parts: &[&str]| {
        let headers = headers(&[&format!("Bearer {text}")]);
        let lines = Lines::of(|| drop(access.authenticate(&headers, CLIENT).unwrap_err()));
        check_line(&lines, parts, text);
    };
    let id = |token: &Secret| format!("id=\"{}\"", token.id());
    let right = claims("team/build");
    let jwt = |name: &str, value: serde_json::Value| {
        signer.sign("one", &signer::with(right.clone(), name, value))
    };
    let mut mistyped = token.reveal().to_owned();
    let other = if &mistyped[20..21] == "x" { "y" } else { "x" };
    mistyped.replace_range(20..21, other);
    let now = signer::now_secs();
    let iss = format!("iss=\"{}\"", signer::ISSUER);
    for (text, parts) in [
        (
            mistyped,
            &["kind=\"token\"", "the checksum of", &id(&token)][..],
        ),
        (
            unknown.reveal().into(),
            &["no principal has a token with this id", &id(&unknown)],
        ),
        (expired.reveal().into(), &["it has expired", &id(&expired)]),
        ("nonsense".into(), &["a token has"]),
        (
            jwt("aud", "other".into()),
            &[
                "kind=\"jwt\"",
                "the claim aud",
                &iss,
                "sub=\"team/build\"",
                "kid=\"one\"",
            ],
        ),
        (
            jwt("iss", "https://x".into()),
            &["the claim iss is", "iss=\"https://x\""],
        ),
        (jwt("exp", 1.into()), &["the claim exp is over", &iss]),
        (
            jwt("exp", (now + 100_000).into()),
            &["more than 24 hours ahead"],
        ),
        (
            jwt("exp", serde_json::Value::Null),
            &["it has no claim exp"],
        ),
        (jwt("nbf", (now + 600).into()), &["the claim nbf is ahead"]),
        (
            jwt("sub", "a\u{202e}\nb".into()),
            &["the claim sub is", "sub=\"a\\u{202e}\\nb\""],
        ),
        (
            jwt("sub", "team/old".into()),
            &["the access file denies it", "sub=\"team/old\""],
        ),
        (
            signer.sign("two", &right),
            &["no key with this kid", "kid=\"two\""],
        ),
        (
            Signer::new().sign("one", &right),
            &["the signature is not that of the key", "kid=\"one\""],
        ),
        ("a.b.c".into(), &["it is not a JSON web token"]),
    ] {
        send(&open(), &text, parts);
    }

    let access = open();
    let caller = access.authenticate(&with(&token), None).unwrap();
    let session = access.issue_session(&caller).unwrap().text;
    send(
        &open(),
        &session,
        &[
            "kind=\"session\"",
            "has not made it",
            "sub=\"ada\"",
            &id(&token),
        ],
    );
    let own = headers(&[&format!("Bearer {session}")]);
    let own = access.authenticate(&own, None).unwrap();
    access.end_session(&own).unwrap();
    send(
        &access,
        &session,
        &["its user has signed out", "sub=\"ada\""],
    );
    let lines = Lines::of(|| drop(access.use_code("tnc1_x", CLIENT).unwrap_err()));
    check_line(
        &lines,
        &["kind=\"one-time code\"", "it was used before"],
        "",
    );
    let twice = headers(&["Bearer a", "Bearer b"]);
    let lines = Lines::of(|| drop(access.authenticate(&twice, CLIENT).unwrap_err()));
    check_line(&lines, &["is not that of one bearer token"], "");
    let tokens = BearerTokens::new(&signer.key_set("one"), signer::ISSUER, "x").unwrap();
    let wrong = signer.sign("one", &right);
    let lines = Lines::of(|| drop(tokens.check(&wrong, CLIENT).unwrap_err()));
    check_line(
        &lines,
        &["kind=\"bearer token\"", "the claim aud", &iss],
        &wrong,
    );
}

#[cfg(unix)]
#[test]
fn the_mark_of_a_data_directory_is_a_file_of_its_owner_and_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = TempDir::new().unwrap();
    let mark = folder.path().join("GUARDED");
    symlink(folder.path().join("elsewhere"), &mark).unwrap();
    mark_guarded(folder.path()).expect_err("a link");
    assert!(!folder.path().join("elsewhere").exists());
    fs::remove_file(&mark).unwrap();
    mark_guarded(folder.path()).unwrap();
    mark_guarded(folder.path()).unwrap();
    assert!(is_guarded(folder.path()));
    let mode = fs::metadata(&mark).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
