//! Tests of the audit log of a server.

use super::*;

#[tokio::test]
async fn operators_changes_and_refused_credentials_are_in_the_audit_log() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let principals = [
        ("worker", grant("candidate", "a", "")),
        ("ada", grant("operator", "a", "")),
    ];
    let principals = principals
        .each_ref()
        .map(|(name, grants)| (*name, &**grants));
    let guarded = Guarded::start_audited(StoreConfig::memory(), audit, &principals);
    let lease = "/v1/namespaces/a/leases/job";
    let acquire = format!("{lease}/acquire");
    assert_eq!(
        guarded
            .post("worker", &acquire, body_of("acquire", &id(1)))
            .await
            .0,
        200
    );
    let by_worker = guarded
        .post("worker", &format!("{lease}/break"), json!({}))
        .await;
    assert_eq!(by_worker.0, 403);
    let to = json!({"to": "c2", "within_ms": 1_000, "force": true});
    assert_eq!(
        guarded
            .post("ada", &format!("{lease}/handover"), to)
            .await
            .0,
        200
    );
    let reason = json!({"break_period_ms": 0, "reason": "bad release"});
    assert_eq!(
        guarded
            .post("ada", &format!("{lease}/break"), reason)
            .await
            .0,
        200
    );
    let deleted = guarded
        .send("ada", Method::DELETE, lease, Value::Null)
        .await;
    let refused = deleted.status();
    let wrong = Secret::generate();
    for _ in 0..100 {
        let request = guarded.running.api.request(Method::GET, lease);
        request.bearer_auth(wrong.reveal()).send().await.unwrap();
    }
    let lines = || {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        (text.clone(), lines.collect::<Vec<_>>())
    };
    let waited = async {
        while lines().1.len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited)
        .await
        .expect("four lines");
    let (text, lines) = lines();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["handover", "break", "delete", "credential"]);
    for line in &lines[..3] {
        assert_eq!(
            (&line["principal"], &line["via"]),
            (&json!("ada"), &json!("token"))
        );
        assert_eq!(
            (&line["election"], &line["address"]),
            (&json!("a/job"), &json!("127.0.0.1"))
        );
    }
    let ada = guarded.credentials.token("ada").id().to_string();
    assert_eq!(
        (&lines[1]["reason"], &lines[1]["secret"]),
        (&json!("bad release"), &json!(ada))
    );
    assert_eq!(
        (&lines[1]["holder"], &lines[1]["owner"]),
        (&json!("c1"), &json!("worker"))
    );
    let outcome = if refused == 204 { "done" } else { "lease_held" };
    assert_eq!(lines[2]["outcome"], outcome);
    assert_eq!(lines[3]["count"], 1);
    assert!(verify(&[&path]).unwrap().is_some());
    // The text contains no lease id and no token.
    assert!(!text.contains(&id(1)) && !text.contains("tnr1_"), "{text}");
}

#[tokio::test]
async fn an_operator_who_disconnects_does_not_avoid_the_audit_log() {
    const LEASES: u32 = 40;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    // The data are on disk, so that a change takes time.
    let config = StoreConfig::folder(folder.path().join("data"));
    let admin = grant("admin", "*", "");
    let guarded = Guarded::start_audited(config, audit, &[("ada", &admin)]);
    let lease = |number: u32| format!("{LEASE}-{number}");
    for number in 0..LEASES {
        let acquire = format!("{}/acquire", lease(number));
        let acquired = guarded.post("ada", &acquire, body_of("acquire", &id(number + 1)));
        assert_eq!(acquired.await.0, 200);
        let mut wire = Wire::connect(&guarded.running.api).await;
        let body = json!({"break_period_ms": 0}).to_string();
        let more = format!(
            "content-length: {}\r\n{}",
            body.len(),
            guarded.header("ada")
        );
        let head = crate::common::wire::head("POST", &format!("{}/break", lease(number)), &more);
        wire.send(head + &body).await.unwrap();
        tokio::time::sleep(Duration::from_micros(u64::from(number) * 50)).await;
    }
    let mut broken = 0;
    until("a line for each break", async || {
        broken = 0;
        for number in 0..LEASES {
            let view = guarded.get("ada", &lease(number)).await.1;
            broken += usize::from(view["state"] != "leased");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let lines = fs::read_to_string(&path).unwrap();
        lines.matches("\"kind\":\"break\"").count() == broken
    })
    .await;
    assert!(broken > 0);
}
