//! Tests of sessions: the way to one, the rights that it gives, and its end.

use super::*;

const SESSION: &str = "/v1/session";
const CODE: &str = "/v1/session/code";

fn two() -> Guarded {
    Guarded::start(&[
        ("ada", &grant("operator", "a", "")),
        ("worker", &grant("candidate", "a", "x")),
    ])
}

/// Returns the status of a request with this credential.
async fn status(guarded: &Guarded, credential: &str) -> u16 {
    let request = guarded.running.api.request(Method::GET, "/v1/whoami");
    let sent = request.bearer_auth(credential).send().await;
    sent.unwrap().status().as_u16()
}

/// Returns a one-time code of this principal.
async fn code(guarded: &Guarded, name: &str) -> String {
    let (status, answer) = guarded.post(name, CODE, json!({})).await;
    assert_eq!(status, 200, "{answer}");
    answer["code"].as_str().unwrap().to_owned()
}

async fn redeem(guarded: &Guarded, code: &str) -> (u16, Value) {
    guarded.post("", SESSION, json!({"code": code})).await
}

#[tokio::test]
async fn a_session_has_the_name_and_the_rights_of_its_principal() {
    let mut guarded = two();
    let before = std::time::SystemTime::now();
    let made = guarded.sign_in("worker").await;
    assert_eq!(made["principal"], "worker");
    assert!(made["session"].as_str().unwrap().starts_with("tns1_"));
    let own = guarded.get("session:worker", "/v1/whoami").await.1;
    let token = guarded.get("worker", "/v1/whoami").await.1;
    assert_eq!(own["kind"], "session");
    for field in ["principal", "secret", "grants"] {
        assert_eq!(own[field], token[field], "{field}");
    }
    assert_eq!(own["expires"], made["expires_at"]);
    let end = chrono::DateTime::parse_from_rfc3339(made["expires_at"].as_str().unwrap());
    let left = std::time::SystemTime::from(end.unwrap()).duration_since(before);
    let hours = Duration::from_secs(12 * 3600);
    assert!(left.is_ok_and(|left| left + SOON > hours && left < hours + SOON));

    // A lease that a session acquires belongs to the principal, whose token may use it.
    let acquire = "/v1/namespaces/a/leases/x/acquire";
    let acquired = guarded.post("session:worker", acquire, body_of("acquire", &id(1)));
    let (status, view) = acquired.await;
    assert_eq!((status, &view["owner"]), (200, &json!("worker")), "{view}");
    let renew = "/v1/namespaces/a/leases/x/renew";
    assert_eq!(
        guarded
            .post("worker", renew, body_of("renew", &id(1)))
            .await
            .0,
        200
    );
    let foreign = "/v1/namespaces/a/leases/y";
    assert_refused(
        &guarded.get("session:worker", foreign).await,
        403,
        "forbidden",
    );
}

#[tokio::test]
async fn a_code_is_exchanged_for_a_session_once() {
    let guarded = two();
    let code = code(&guarded, "ada").await;
    let answer = guarded
        .send("", Method::POST, SESSION, json!({"code": code}))
        .await;
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let (status_of_answer, made) = crate::common::answer(answer).await;
    assert_eq!(
        (status_of_answer, &made["principal"]),
        (200, &json!("ada")),
        "{made}"
    );
    assert_eq!(
        status(&guarded, made["session"].as_str().unwrap()).await,
        200
    );
    assert_refused(&redeem(&guarded, &code).await, 401, "unauthenticated");
    for wrong in ["", "x", "tnc1_x"] {
        assert_refused(&redeem(&guarded, wrong).await, 401, "unauthenticated");
    }
    // A code is not a credential itself.
    let other = self::code(&guarded, "ada").await;
    assert_eq!(status(&guarded, &other).await, 401);
    // The code counts, also beside a valid credential.
    let both = guarded.post("ada", SESSION, json!({"code": "x"})).await;
    assert_refused(&both, 401, "unauthenticated");
    let unknown = guarded.post("ada", SESSION, json!({"name": "ada"})).await;
    assert_refused(&unknown, 400, "unknown_field");
    let none = guarded.post("", SESSION, json!({})).await;
    assert_refused(&none, 401, "unauthenticated");
    assert_eq!(redeem(&guarded, &other).await.0, 200);
}

#[tokio::test]
async fn wrong_codes_count_as_wrong_credentials_and_right_ones_are_accepted_meanwhile() {
    let guarded = two();
    let (first, second) = (code(&guarded, "ada").await, code(&guarded, "ada").await);
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(redeem(&guarded, "tnc1_wrong").await.0);
    }
    let refused = statuses.iter().filter(|status| **status == 401).count();
    assert!((10..=12).contains(&refused), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429));
    // Wrong tokens of this address are over the limit, too.
    assert_eq!(status(&guarded, "tnr1_wrong").await, 429);
    let session = redeem(&guarded, &first).await;
    assert_eq!(session.0, 200, "{}", session.1);
    assert_eq!(
        status(&guarded, session.1["session"].as_str().unwrap()).await,
        200
    );
    assert_eq!(redeem(&guarded, &second).await.0, 200);
}

#[tokio::test]
async fn a_session_makes_no_session_and_no_code() {
    let mut guarded = two();
    guarded.sign_in("ada").await;
    for path in [SESSION, CODE] {
        let refused = guarded.post("session:ada", path, json!({})).await;
        assert_refused(&refused, 403, "forbidden");
        assert!(refused.1["detail"].as_str().unwrap().contains("a session"));
    }
}

#[tokio::test]
async fn signing_out_ends_the_session_and_what_is_open_and_no_other_session() {
    let mut guarded = two();
    let other = guarded.sign_in("ada").await;
    let other = other["session"].as_str().unwrap();
    guarded.sign_in("ada").await;
    let stream = guarded.stream("session:ada", "/v1/events").await;
    let end = async |name: &str| {
        let ended = guarded
            .send(name, Method::DELETE, SESSION, Value::Null)
            .await;
        crate::common::answer(ended).await
    };
    assert_refused(&end("ada").await, 403, "forbidden");
    assert_refused(&end("").await, 401, "unauthenticated");
    assert_eq!(end("session:ada").await.0, 204);
    let mut stream = stream;
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    assert_refused(&end("session:ada").await, 401, "unauthenticated");
    assert_eq!(guarded.get("session:ada", "/v1/whoami").await.0, 401);
    assert_eq!(status(&guarded, other).await, 200);
    assert_eq!(guarded.get("ada", "/v1/whoami").await.0, 200);
}

#[tokio::test]
async fn a_session_and_a_code_end_with_the_token_from_which_they_were_made() {
    let mut guarded = two();
    guarded.sign_in("ada").await;
    guarded.sign_in("worker").await;
    let code = code(&guarded, "ada").await;
    assert_eq!(guarded.get("session:ada", "/v1/whoami").await.0, 200);
    let mut stream = guarded.stream("session:ada", "/v1/events").await;
    let grants = grant("candidate", "a", "x");
    guarded.change(&[("worker", &grants)]);
    assert_eq!(guarded.get("session:ada", "/v1/whoami").await.0, 401);
    assert_refused(&redeem(&guarded, &code).await, 401, "unauthenticated");
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    assert_eq!(guarded.get("session:worker", "/v1/whoami").await.0, 200);
    // Other grants apply to the sessions of the principal.
    guarded.change(&[("worker", &grant("read", "a", ""))]);
    let acquire = "/v1/namespaces/a/leases/x/acquire";
    let refused = guarded.post("session:worker", acquire, body_of("acquire", &id(1)));
    assert_refused(&refused.await, 403, "forbidden");
}

#[tokio::test]
async fn a_session_of_a_web_token_ends_with_the_identity_with_the_key_and_with_the_issuer() {
    let access_file = |guarded: &Guarded, more: &str| {
        let path = guarded.folder.path().join("access.toml");
        let grants = grant("operator", "a", "");
        let text = guarded.credentials.file(&[("ada", &grants)]);
        write(&path, &format!("{text}{more}"));
        assert!(guarded.access.reload().unwrap());
    };
    let signed_in = async || {
        let mut guarded = two();
        let made = guarded.sign_in("ci:ada").await;
        assert_eq!(made["principal"], "ci:ada");
        let (status, own) = guarded.get("session:ci:ada", "/v1/whoami").await;
        assert_eq!((status, &own["kind"]), (200, &json!("session")), "{own}");
        assert_eq!(own["secret"], Value::Null);
        // The session does not live longer than the token.
        let token = guarded.get("ci:ada", "/v1/whoami").await.1;
        assert_eq!(own["expires"], token["expires"]);
        guarded
    };
    let guarded = signed_in().await;
    access_file(&guarded, "[[deny]]\nidentity = \"ci:other\"\n");
    assert_eq!(guarded.get("session:ci:ada", "/v1/whoami").await.0, 200);
    access_file(&guarded, "[[deny]]\nidentity = \"ci:ada\"\n");
    assert_eq!(guarded.get("session:ci:ada", "/v1/whoami").await.0, 401);

    let guarded = signed_in().await;
    let issuer = &guarded.access.issuers()[0];
    let keys = Signer::new().key_set("one");
    assert!(guarded.access.replace_keys(issuer, &keys, None).unwrap());
    assert_eq!(guarded.get("session:ci:ada", "/v1/whoami").await.0, 401);

    let guarded = signed_in().await;
    let path = guarded.folder.path().join("access.toml");
    write(&path, "version = 1\n");
    assert!(guarded.access.reload().unwrap());
    assert_eq!(guarded.get("session:ci:ada", "/v1/whoami").await.0, 401);
}

#[tokio::test]
async fn a_session_ends_with_the_process_and_is_of_no_use_to_another_store() {
    let mut guarded = two();
    let made = guarded.sign_in("ada").await;
    let session = made["session"].as_str().unwrap();
    // The same file is read by another process.
    let access = Access::open(guarded.folder.path().join("access.toml")).unwrap();
    let again = served(bind(&guarded.store).with_access(access));
    let request = again.api.request(Method::GET, "/v1/whoami");
    let refused = request.bearer_auth(session).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert_eq!(status(&guarded, session).await, 200);
    // A session with another end, or cut, is refused like any wrong credential.
    for wrong in [&session[..session.len() - 2], "tns1_", "tns1_e30"] {
        assert_eq!(status(&guarded, wrong).await, 401, "{wrong}");
    }
}

#[tokio::test]
async fn a_store_without_access_control_has_no_sessions() {
    let guarded = two();
    let open = served(bind(&guarded.store).with_access(Access::anonymous()));
    for (path, body) in [
        (SESSION, json!({})),
        (SESSION, json!({"code": "x"})),
        (CODE, json!({})),
    ] {
        let request = open.api.request(Method::POST, path).json(&body);
        let refused = crate::common::answer(request.send().await.unwrap()).await;
        assert_refused(&refused, 400, "malformed");
    }
    let whoami = open.api.request(Method::GET, "/v1/whoami").send().await;
    let whoami = crate::common::answer(whoami.unwrap()).await.1;
    assert_eq!(whoami["kind"], "anyone");
}

#[tokio::test]
async fn a_principal_that_signs_in_again_and_again_takes_neither_codes_nor_the_disk_from_others() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let grants = grant("read", "a", "");
    let principals = [("ada", &*grants), ("bob", &*grants)];
    let mut guarded = Guarded::start_audited(StoreConfig::memory(), audit, &principals);
    for _ in 0..50 {
        guarded.sign_in("ada").await;
    }
    guarded.sign_in("bob").await;
    let mut lines = Vec::new();
    until("the line of the other one", async || {
        let text = fs::read_to_string(&path).unwrap();
        let parsed = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines = parsed.map(|line| line["principal"].clone()).collect();
        lines.contains(&json!("bob"))
    })
    .await;
    assert_eq!(lines.len(), 11, "{lines:?}");

    for _ in 0..5 {
        code(&guarded, "ada").await;
    }
    let refused = guarded.post("ada", "/v1/session/code", json!({})).await;
    assert_refused(&refused, 429, "over_limit");
    let detail = refused.1["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("the principal \"ada\" has 5"),
        "{detail}"
    );
    code(&guarded, "bob").await;
}

#[tokio::test]
async fn a_principal_that_waits_as_often_as_it_can_leaves_waits_to_others() {
    let config = StoreConfig::memory().with_limits(tenure_server::Limits {
        max_waiting: 6,
        ..Default::default()
    });
    let grants = grant("candidate", "a", "");
    let principals = [("ada", &*grants), ("bob", &*grants)];
    let guarded = Guarded::start_with(config, &principals);
    let acquire = |number: u32, wait: u32| json!({"holder": "h", "duration_ms": 60_000, "lease_id": id(number), "wait_ms": wait});
    let path = format!("{LEASE}/acquire");
    assert_eq!(guarded.post("bob", &path, acquire(0, 0)).await.0, 200);
    let (ada, bob) = ("ada", "bob");
    let waiting = |name, number| guarded.post(name, &path, acquire(number, 60_000));
    let waits = join_all([waiting(ada, 1), waiting(ada, 2), waiting(ada, 3)]);
    let check = async {
        until("three waiters", async || {
            let (_, view) = guarded.get(bob, LEASE).await;
            view["waiters"] == 3
        })
        .await;
        assert_refused(&waiting(ada, 4).await, 429, "over_limit");
        let other = guarded.post(bob, &path, acquire(5, 100)).await;
        assert_refused(&other, 409, "lease_held");
    };
    tokio::select! {
        waited = waits => panic!("{waited:?}"),
        () = check => {}
    }
}

#[tokio::test]
async fn sign_ins_are_in_the_audit_log_without_a_secret() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let grants = grant("operator", "a", "");
    let mut guarded = Guarded::start_audited(StoreConfig::memory(), audit, &[("ada", &grants)]);
    let made = guarded.sign_in("ada").await;
    let code = code(&guarded, "ada").await;
    assert_eq!(redeem(&guarded, &code).await.0, 200);
    assert_eq!(redeem(&guarded, &code).await.0, 401);
    let broken = guarded
        .post("session:ada", &format!("{LEASE}/break"), json!({}))
        .await;
    assert_eq!(broken.0, 404, "{}", broken.1);
    let mut lines: Vec<Value> = Vec::new();
    until("four lines", async || {
        let text = fs::read_to_string(&path).unwrap();
        let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines = parsed.collect();
        lines.len() == 4
    })
    .await;
    let token = guarded.credentials.token("ada").id().to_string();
    let short = lines.iter().map(|line| {
        ["kind", "outcome", "principal", "via", "reason"].map(|field| line[field].as_str())
    });
    let expected = [
        ["sign-in", "done", "ada", "token", ""],
        ["sign-in", "done", "ada", "token", "one-time code"],
        ["credential", "unauthenticated", "", "", ""],
        ["break", "unknown_lease", "ada", "session", ""],
    ];
    let expected = expected.map(|line| line.map(|text| (!text.is_empty()).then_some(text)));
    assert_eq!(short.collect::<Vec<_>>(), expected);
    for line in [0, 1, 3] {
        assert_eq!(lines[line]["secret"], token);
        assert_eq!(lines[line]["address"], "127.0.0.1");
        assert!(lines[line]["request"].is_string());
    }
    let text = fs::read_to_string(&path).unwrap();
    for secret in [made["session"].as_str().unwrap(), &code] {
        assert!(!text.contains(secret), "{text}");
    }
}
