//! Many renewals in one request.

use crate::common::{Answer, Api, answer, assert_ok, assert_refused, id, in_memory, start};
use serde_json::{Value, json};
use tenure_server::StoreConfig;

async fn renew_many(api: &Api, body: &Value) -> Answer {
    let url = format!("{}/v1/namespaces/ns/renew", api.origin);
    answer(api.http.post(url).json(body).send().await.unwrap()).await
}

fn renewals(numbers: impl IntoIterator<Item = u32>) -> Value {
    let one = |number| json!({"lease": format!("job-{number}"), "lease_id": id(number)});
    json!({"leases": numbers.into_iter().map(one).collect::<Vec<_>>()})
}

#[tokio::test]
async fn each_renewal_succeeds_or_fails_independently_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let api = start(StoreConfig::folder(folder.path())).api;
    assert_ok(&api.acquire("mine", 1).await);
    assert_ok(&api.acquire("others", 2).await);
    assert_ok(&api.acquire("broken", 3).await);
    let shorter = json!({"break_period_ms": 0});
    assert_ok(&api.post("broken", "break", shorter).await);
    let (_, before) = api.get("mine").await;
    let body = json!({"leases": [
        {"lease": "others", "lease_id": id(1)},
        {"lease": "unknown", "lease_id": id(1)},
        {"lease": "mine", "lease_id": id(1)},
        {"lease": "not a name", "lease_id": id(1)},
        {"lease": "mine", "lease_id": "no id"},
        {"lease": "broken", "lease_id": id(3)},
        {"lease": "mine", "lease_id": id(1)},
    ]});
    let (status, reply) = renew_many(&api, &body).await;
    assert_eq!(status, 200, "{reply}");
    let of = |result: &Value| result["code"].as_str().unwrap_or("renewed").to_owned();
    let outcomes: Vec<String> = reply["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    assert_eq!(
        outcomes,
        [
            "lease_id_mismatch",
            "unknown_lease",
            "renewed",
            "invalid_name",
            "invalid_name",
            "lease_broken",
            "renewed"
        ]
    );
    assert_eq!(reply["results"][2]["revision"], before["revision"]);
    assert_eq!(reply["results"][0]["status"], 409);
}

#[tokio::test]
async fn a_thousand_renewals_are_accepted_and_one_more_is_refused() {
    let api = in_memory().api;
    let taken = renew_many(&api, &renewals(0..1_000)).await;
    assert_ok(&taken);
    assert_eq!(taken.1["results"][999]["code"], "unknown_lease");
    let refused = renew_many(&api, &renewals(0..1_001)).await;
    assert_refused(&refused, 422, "out_of_range");
    let detail = refused.1["detail"].as_str().unwrap();
    assert!(
        detail.contains("1001") && detail.contains("1000"),
        "{detail}"
    );
    assert_ok(&renew_many(&api, &json!({"leases": []})).await);
}

#[tokio::test]
async fn the_body_of_many_renewals_has_its_own_limit() {
    let api = in_memory().api;
    let url = format!("{}/v1/namespaces/ns/renew", api.origin);
    let send = async |bytes: usize| {
        let mut body = renewals(0..1).to_string();
        body.extend(std::iter::repeat_n(' ', bytes - body.len()));
        let request = api
            .http
            .post(&url)
            .header("content-type", "application/json");
        answer(request.body(body).send().await.unwrap()).await
    };
    assert_ok(&send(256 * 1024).await);
    let refused = send(256 * 1024 + 1).await;
    assert_refused(&refused, 413, "too_large");
    let detail = refused.1["detail"].as_str().unwrap();
    assert!(
        detail.contains("262145") && detail.contains("262144"),
        "{detail}"
    );
}
