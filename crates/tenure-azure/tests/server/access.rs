//! Accounts, keys and permissions.

use chrono::{Duration, Utc};
use tenure_azure::server::{AzureConfig, ServedAccount};
use tenure_server::{Limits, StoreConfig};

use crate::client::{ACCOUNT, Az, KEY, development, in_memory, start};
use crate::common::id;

const FIRST: &str = "Zmlyc3QgZmlyc3QgZmlyc3QgZmlyc3Q=";
const SECOND: &str = "c2Vjb25kIHNlY29uZCBzZWNvbmQgc2U=";

#[tokio::test]
async fn an_unknown_account_is_refused_like_a_wrong_signature() {
    let (_running, az) = in_memory();
    let other = Az {
        key: FIRST.into(),
        ..az.clone()
    };
    let unknown = Az {
        account: "nobody".into(),
        ..az.clone()
    };
    let unknown_too = Az {
        account: "Not-An-Account".into(),
        ..az.clone()
    };
    let mut texts = Vec::new();
    for who in [other, unknown, unknown_too] {
        let answer = who.get("/?comp=list", &[]).await;
        answer.assert_refused(403, "AuthenticationFailed");
        let text = answer.text();
        let (code, _) = text.split_once("RequestId").unwrap();
        texts.push(code.to_owned());
        // The refusal is the same for an invalid path.
        who.get("/NOT?comp=list", &[])
            .await
            .assert_refused(403, "AuthenticationFailed");
    }
    texts.dedup();
    assert_eq!(texts.len(), 1);
    let answer = az.get("/?comp=list", &[("authorization", "")]).await;
    answer.assert_refused(403, "AuthenticationFailed");
    let url = format!("{}/{ACCOUNT}?comp=list", az.origin);
    assert_eq!(
        az.http.get(url).send().await.unwrap().status().as_u16(),
        401
    );
}

#[tokio::test]
async fn both_keys_of_an_account_are_valid_and_those_of_another_are_not() {
    let accounts = vec![
        ServedAccount::new("one", [FIRST, SECOND]).unwrap(),
        ServedAccount::new("two", [KEY]).unwrap(),
    ];
    let (_running, az) = start(StoreConfig::memory(), AzureConfig::new(accounts));
    for (account, key, status) in [
        ("one", FIRST, 200),
        ("one", SECOND, 200),
        ("one", KEY, 403),
        ("two", KEY, 200),
        ("two", FIRST, 403),
        (ACCOUNT, KEY, 403),
    ] {
        let az = Az {
            account: account.into(),
            key: key.into(),
            ..az.clone()
        };
        az.get("/?comp=list", &[]).await.assert(status);
    }
    // An account does not see the containers of another account.
    let one = Az {
        account: "one".into(),
        key: FIRST.into(),
        ..az.clone()
    };
    let two = Az {
        account: "two".into(),
        ..az.clone()
    };
    one.put("/mine?restype=container", &[]).await.assert(201);
    two.get("/mine?restype=container", &[])
        .await
        .assert_refused(404, "ContainerNotFound");
    assert!(!two.get("/?comp=list", &[]).await.text().contains("mine"));
}

#[tokio::test]
async fn a_request_that_was_signed_long_ago_or_altered_is_refused() {
    let (_running, az) = in_memory();
    for minutes in [-16, 16] {
        let date = Utc::now() + Duration::minutes(minutes);
        let date = date.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        az.get("/?comp=list", &[("x-ms-date", &date)])
            .await
            .assert_refused(403, "AuthenticationFailed");
    }
    // This signature is for another path.
    let url = format!("{}/{ACCOUNT}/aaa?restype=container", az.origin);
    let answer = az.put("/aaa?restype=container", &[]).await;
    answer.assert(201);
    let stolen = az
        .http
        .delete(url)
        .header("authorization", "SharedKey devstoreaccount1:AAAA");
    assert_eq!(stolen.send().await.unwrap().status().as_u16(), 403);
}

#[tokio::test]
async fn over_the_limit_of_connections_only_a_renewal_is_served() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let (_running, az) = start(StoreConfig::memory().with_limits(limits), development());
    az.put("/leases?restype=container", &[]).await.assert(201);
    az.put_block("/leases/b", &[], b"").await.assert(201);
    let holder = id(1);
    let acquire = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", &holder),
    ];
    az.put("/leases/b?comp=lease", &acquire).await.assert(201);
    // The connection of the first client remains, and this client is over the limit.
    let late = Az {
        http: reqwest::Client::builder()
            .http1_only()
            .tls_certs_only([])
            .build()
            .unwrap(),
        ..az.clone()
    };
    late.get("/?comp=list", &[])
        .await
        .assert_refused(503, "ServerBusy");
    let renew = [("x-ms-lease-action", "renew"), ("x-ms-lease-id", &*holder)];
    let renewed = late.put("/leases/b?comp=lease", &renew).await;
    assert_eq!(renewed.assert(200).header("connection"), "close");
    az.put("/leases/b?comp=lease", &renew).await.assert(200);
}
