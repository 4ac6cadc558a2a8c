//! Special requests: HEAD requests, names and hashes.

use crate::client::in_memory;

#[tokio::test]
async fn a_request_with_only_the_header_of_a_renewal_renews_nothing() {
    let (_running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    az.put_block("/con/b", &[], b"").await.assert(201);
    let renew = [("x-ms-lease-action", "renew")];
    // A renewal without a lease id would be refused.
    az.get("/con/b", &renew).await.assert(200);
    az.get("/con?restype=container&comp=list", &renew)
        .await
        .assert(200);
    az.head("/con/b", &renew).await.assert(200);
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused_in_the_form_of_its_protocol() {
    let (running, az) = in_memory();
    let long = "x".repeat(20_000);
    let refused = az.get("/c/b", &[("x-pad", &long)]).await;
    refused.assert_refused(400, "OutOfRangeInput");
    assert_eq!(refused.header("content-type"), "application/xml");
    assert!(
        refused.text().contains("at most 16384"),
        "{}",
        refused.text()
    );
    let names: Vec<String> = (0..65).map(|n| format!("x-{n}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    let refused = az.get("/c/b", &many).await;
    refused.assert_refused(400, "OutOfRangeInput");
    let head = az.head("/c/b", &[("x-pad", &long)]).await;
    head.assert_refused(400, "OutOfRangeInput");
    assert!(head.body.is_empty());
    // Native paths have native errors.
    let native = az.http.get(format!("{}/v1/limits", running.api.origin));
    let native = native.header("x-pad", long).send().await.unwrap();
    assert_eq!(native.status(), 431);
    let problem: serde_json::Value = native.json().await.unwrap();
    assert_eq!(problem["code"], "too_large");
}

#[tokio::test]
async fn a_body_that_does_not_match_its_hash_is_not_written() {
    // The hashes of "body", of "other", and of an empty body.
    const BODY: &str = "hBotaJrYa9FhFEdFPCLG/A==";
    const OTHER: &str = "eV8yArF8trw9S3cdjGyerw==";
    const EMPTY: &str = "1B2M2Y8AsgTpgAmY7PhCfg==";
    let (_running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    let of_body = "content-md5";
    let of_blob = "x-ms-blob-content-md5";
    let mismatch = (400, "Md5Mismatch");
    for (name, value, refusal) in [
        (of_body, OTHER, mismatch),
        (of_blob, OTHER, mismatch),
        (of_body, "!", (400, "InvalidMd5")),
        (of_blob, "AAAA", (400, "InvalidMd5")),
    ] {
        let put = az.put_block("/con/b", &[(name, value)], b"body").await;
        assert_eq!(put.outcome(), refusal, "{name}: {value}");
        let get = az.get("/con/b", &[]).await;
        get.assert_refused(404, "BlobNotFound");
    }
    // A content header of the blob has precedence over one of the request.
    let both = [(of_blob, OTHER), (of_body, BODY)];
    let put = az.put_block("/con/b", &both, b"body").await;
    assert_eq!(put.outcome(), mismatch);
    for headers in [&[(of_body, BODY)], &[(of_blob, BODY)]] {
        az.put_block("/con/b", headers, b"body").await.assert(201);
        let get = az.get("/con/b", &[]).await;
        assert_eq!(get.assert(200).header("content-md5"), BODY);
    }
    // A new page blob has no body.
    let page = ("x-ms-blob-type", "PageBlob");
    let length = ("x-ms-blob-content-length", "512");
    let put = az.put("/con/p", &[page, length, (of_body, OTHER)]).await;
    assert_eq!(put.outcome(), mismatch);
    let right = [page, length, (of_body, EMPTY), (of_blob, OTHER)];
    az.put("/con/p", &right).await.assert(201);
    let get = az.head("/con/p", &[]).await;
    assert_eq!(get.assert(200).header("content-md5"), OTHER);
}
