//! Tests of wrong credentials and their effect on leaders with the same address.

use super::*;

#[tokio::test]
async fn wrong_credentials_are_limited_by_address_and_valid_ones_are_not() {
    let guarded = Guarded::start(&[("worker", &grant("candidate", "a", ""))]);
    let lease = "/v1/namespaces/a/leases/job";
    let path = format!("{lease}/acquire");
    assert_eq!(
        guarded
            .post("worker", &path, body_of("acquire", &id(1)))
            .await
            .0,
        200
    );
    let wrong = Secret::generate();
    let mut statuses = Vec::new();
    for _ in 0..200 {
        let request = guarded.running.api.request(Method::GET, lease);
        let response = request.bearer_auth(wrong.reveal()).send().await.unwrap();
        let status = response.status().as_u16();
        assert_eq!(
            response.headers().contains_key("retry-after"),
            status == 429
        );
        statuses.push(status);
        let (status, _) = guarded
            .post(
                "worker",
                &format!("{lease}/renew"),
                body_of("renew", &id(1)),
            )
            .await;
        assert_eq!(status, 200);
    }
    let refused = statuses.iter().filter(|status| **status == 401).count();
    assert!((10..=12).contains(&refused), "{refused} times 401");
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        200 - refused
    );
}

/// Sends 10,000 requests with these credentials from the address of 50 leaders, and checks that the
/// leaders renew during that time.
async fn assert_that_leaders_go_on(wrong: impl Fn(&Guarded, u32) -> String) {
    const LEADERS: u32 = 50;
    const REQUESTS: u32 = 10_000;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let worker = grant("candidate", "a", "");
    let guarded = Guarded::start_audited(StoreConfig::memory(), audit, &[("worker", &worker)]);
    let lease = |number: u32| format!("/v1/namespaces/a/leases/job-{number}");
    // Leaders use both kinds of credentials.
    let leader = |number: u32| ["worker", "ci:worker"][number as usize % 2];
    let mut epochs = Vec::new();
    for number in 0..LEADERS {
        let acquire = json!({"holder": "c1", "duration_ms": 15_000, "lease_id": id(number + 1)});
        let path = format!("{}/acquire", lease(number));
        let (status, view) = guarded.post(leader(number), &path, acquire).await;
        assert_eq!(status, 200, "{view}");
        epochs.push(view["epoch"].clone());
    }
    let began = Instant::now();
    let flood = async {
        let mut refused = [0; 2];
        for batch in 0..REQUESTS / 100 {
            let batch = (0..100).map(|number| {
                let request = guarded.running.api.request(Method::GET, "/v1/limits");
                request
                    .bearer_auth(wrong(&guarded, batch * 100 + number))
                    .send()
            });
            for response in join_all(batch).await {
                let response = response.unwrap();
                let status = response.status().as_u16();
                let is_limited = status == 429;
                assert_eq!(response.headers().contains_key("retry-after"), is_limited);
                assert!(
                    is_limited || status == 401,
                    "a wrong credential got {status}"
                );
                refused[usize::from(is_limited)] += 1;
            }
        }
        refused
    };
    let mut flood = std::pin::pin!(flood);
    let mut rounds = 0;
    let refused = loop {
        let round = join_all((0..LEADERS).map(|number| {
            let renew = json!({"lease_id": id(number + 1)});
            let path = format!("{}/renew", lease(number));
            let (guarded, epoch) = (&guarded, &epochs[number as usize]);
            async move {
                // If a lease had ended, even for a moment, the renewal would be refused or the
                // epoch would differ.
                let (status, view) = guarded.post(leader(number), &path, renew).await;
                assert_eq!((status, &view["epoch"]), (200, epoch), "{view}");
            }
        }));
        tokio::select! {
            refused = &mut flood => break refused,
            _ = round => rounds += 1,
        }
    };
    assert_eq!(refused[0] + refused[1], REQUESTS);
    // Ten failures at the same time are within the limit, and one more in six seconds.
    let most = 11 + began.elapsed().as_secs() as u32 / 6;
    assert!((10..=most).contains(&refused[0]), "{refused:?}");
    assert!(rounds >= 1);
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    // The log has one line a minute.
    assert!((1..=15).contains(&lines), "{lines} lines");
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_costs_the_leaders_of_its_address_nothing() {
    let token = Secret::generate();
    assert_that_leaders_go_on(|_, _| token.reveal().to_owned()).await;
}

#[tokio::test]
async fn a_flood_of_forged_json_web_tokens_costs_the_leaders_of_its_address_nothing() {
    let forger = Signer::new();
    assert_that_leaders_go_on(|_, number| forger.sign("one", &claims(&number.to_string()))).await;
}
