//! Special requests: HEAD requests, names and hashes.

use crate::client::in_memory;
use crate::common::id;

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
async fn a_head_request_returns_the_length_and_a_range_its_bounds() {
    let (_running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    az.put_block("/con/b", &[], b"0123456789").await.assert(201);
    let head = az.head("/con/b", &[]).await;
    assert_eq!((head.header("content-length"), head.body.len()), ("10", 0));
    let part = az.get("/con/b", &[("x-ms-range", "bytes=2-4")]).await;
    assert_eq!(part.assert(206).body, b"234");
    assert_eq!(part.header("content-range"), "bytes 2-4/10");
    let rest = az.get("/con/b", &[("range", "bytes=7-100")]).await;
    assert_eq!(rest.assert(206).body, b"789");
}

#[tokio::test]
async fn names_with_slashes_escapes_and_plus_signs_stay_different() {
    let (_running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    let names = [
        "a/b", "a//b", "a%20b", "a+b", "a%252Fb", "a_2Fb", "__a_2Fb", "%C3%A4",
    ];
    for (number, name) in names.iter().enumerate() {
        let body = [u8::try_from(number).unwrap()];
        az.put_block(&format!("/con/{name}"), &[], &body)
            .await
            .assert(201);
        let lease = id(u32::try_from(number).unwrap() + 1);
        let acquire = [
            ("x-ms-lease-action", "acquire"),
            ("x-ms-lease-duration", "60"),
            ("x-ms-proposed-lease-id", &*lease),
        ];
        // Each name has its own lease.
        az.put(&format!("/con/{name}?comp=lease"), &acquire)
            .await
            .assert(201);
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(
            usize::from(az.get(&format!("/con/{name}"), &[]).await.body[0]),
            number
        );
    }
    // An encoded slash is the same as a slash.
    assert_eq!(az.get("/con/a%2Fb", &[]).await.body, [0]);
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
