//! Behaviour that clients of the service rely on, apart from leases.

use tenure_server::StoreConfig;

use crate::client::{Answer, Az, development, in_memory, start};
use crate::common::wire::{Wire, head};
use crate::common::{Running, id};

const BLOB: &str = "/con/b";
const LEASE: &str = "/con/b?comp=lease";

/// Starts a store with a blob.
async fn with_blob(body: &[u8]) -> (Running, Az) {
    let (running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    az.put_block(BLOB, &[], body).await.assert(201);
    (running, az)
}

async fn acquire(az: &Az, number: u32) {
    let headers = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", &id(number)),
    ];
    az.put(LEASE, &headers).await.assert(201);
}

#[tokio::test]
async fn the_holder_may_write_a_blob_that_must_be_new() {
    let (_running, az) = with_blob(b"0").await;
    let create = async |lease: Option<u32>| {
        let lease = lease.map(id);
        let mut headers = vec![("if-none-match", "*")];
        headers.extend(lease.as_deref().map(|lease| ("x-ms-lease-id", lease)));
        az.put_block(BLOB, &headers, b"1").await
    };
    let exists = (409, "BlobAlreadyExists");
    assert_eq!(create(None).await.outcome(), exists);
    let absent = (412, "LeaseNotPresentWithBlobOperation");
    assert_eq!(create(Some(1)).await.outcome(), absent);
    acquire(&az, 1).await;
    let mismatch = (412, "LeaseIdMismatchWithBlobOperation");
    assert_eq!(create(Some(2)).await.outcome(), mismatch);
    assert_eq!(create(None).await.outcome(), (412, "LeaseIdMissing"));
    assert_eq!(az.get(BLOB, &[]).await.body, b"0");
    create(Some(1)).await.assert(201);
    assert_eq!(az.get(BLOB, &[]).await.body, b"1");
    // The holder may also write while the lease is breaking, but not when it is broken.
    let break_in = async |period| {
        let headers = [
            ("x-ms-lease-action", "break"),
            ("x-ms-lease-break-period", period),
        ];
        az.put(LEASE, &headers).await.assert(202);
    };
    break_in("60").await;
    create(Some(1)).await.assert(201);
    break_in("0").await;
    assert_eq!(create(Some(1)).await.outcome(), (412, "LeaseLost"));
    assert_eq!(create(None).await.outcome(), exists);
}

#[tokio::test]
async fn responses_have_the_headers_that_clients_require() {
    let (_running, az) = with_blob(b"0").await;
    let has = |answer: &Answer, status, name: &str, value: &str| {
        assert_eq!(answer.assert(status).header(name), value, "{name}");
        assert_eq!(answer.header("server"), "tenure");
    };
    let written = "x-ms-request-server-encrypted";
    has(&az.put_block(BLOB, &[], b"1").await, 201, written, "false");
    let metadata = az.put("/con/b?comp=metadata", &[]).await;
    has(&metadata, 200, written, "false");
    let kept = "x-ms-server-encrypted";
    has(&az.get(BLOB, &[]).await, 200, kept, "false");
    has(&az.head(BLOB, &[]).await, 200, kept, "false");
    has(
        &az.get("/con/b?comp=metadata", &[]).await,
        200,
        kept,
        "false",
    );
    let list = az.get("/con?restype=container&comp=list", &[]).await;
    has(&list, 200, "content-type", "application/xml");
    assert!(
        list.text()
            .contains("<ServerEncrypted>false</ServerEncrypted>")
    );
    let container = az.get("/con?restype=container", &[]).await;
    let versioning = "x-ms-immutable-storage-with-versioning-enabled";
    has(&container, 200, versioning, "false");
    let deleted = az.delete(BLOB, &[]).await;
    has(&deleted, 202, "x-ms-delete-type-permanent", "true");
    has(
        &az.get(BLOB, &[]).await,
        404,
        "x-ms-error-code",
        "BlobNotFound",
    );
}

#[tokio::test]
async fn an_empty_header_of_a_lease_or_a_condition_is_ignored() {
    let (_running, az) = with_blob(b"0").await;
    let headers = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", ""),
        ("if-match", ""),
    ];
    let granted = az.put(LEASE, &headers).await;
    let lease_id = granted.assert(201).header("x-ms-lease-id").to_owned();
    assert_eq!(lease_id.len(), 36);
    for name in [
        "x-ms-lease-id",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
    ] {
        az.get(BLOB, &[(name, "")]).await.assert(200);
    }
    let put = az.put_block(BLOB, &[("x-ms-lease-id", "")], b"1").await;
    put.assert_refused(412, "LeaseIdMissing");
    let renew = [("x-ms-lease-action", "renew"), ("x-ms-lease-id", "")];
    let renewed = az.put(LEASE, &renew).await;
    renewed.assert_refused(400, "MissingRequiredHeader");
}

#[tokio::test]
async fn a_page_has_at_most_5000_results() {
    let (_running, az) = with_blob(b"0").await;
    for (asked, shown) in [
        ("5000", "5000"),
        ("6000", "5000"),
        ("9999999999", "5000"),
        ("1", "1"),
    ] {
        let list = format!("/con?restype=container&comp=list&maxresults={asked}");
        let list = az.get(&list, &[]).await;
        let shown = format!("<MaxResults>{shown}</MaxResults>");
        assert!(list.assert(200).text().contains(&shown), "{}", list.text());
    }
}

#[tokio::test]
async fn a_list_of_blobs_with_large_metadata_has_several_pages() {
    let (_running, az) = with_blob(b"0").await;
    let metadata = "&".repeat(6_000);
    for number in 0..80 {
        let headers = [("x-ms-blob-type", "BlockBlob"), ("x-ms-meta-k", &*metadata)];
        let path = format!("/con/dir{}/{number}", number % 2);
        az.put(&path, &headers).await.assert(201);
    }
    for (delimiter, all) in [("", 81), ("&delimiter=/", 3)] {
        let (mut names, mut pages, mut marker) = (Vec::new(), 0, String::new());
        loop {
            let list = "/con?restype=container&comp=list&include=metadata";
            let page = az
                .get(&format!("{list}{delimiter}&marker={marker}"), &[])
                .await;
            let text = page.assert(200).text();
            assert!(text.len() < (1 << 20) + 50_000, "{}", text.len());
            let found = text.split("<Name>").skip(1);
            names.extend(found.filter_map(|rest| Some(rest.split_once('<')?.0.to_owned())));
            pages += 1;
            let next = text.split("<NextMarker>").nth(1);
            match next.and_then(|next| next.split_once('<')) {
                Some((next, _)) if !next.is_empty() => marker = next.to_owned(),
                _ => break,
            }
        }
        assert_eq!(names.len(), all, "{names:?}");
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        assert_eq!(pages, if delimiter.is_empty() { 3 } else { 1 });
    }
}

#[tokio::test]
async fn the_refusal_of_a_range_names_the_size() {
    let (_running, az) = with_blob(b"0123456789").await;
    let part = az.get(BLOB, &[("x-ms-range", "bytes=10-")]).await;
    part.assert_refused(416, "InvalidRange");
    assert_eq!(part.header("content-range"), "bytes */10");
    let page = [
        ("x-ms-blob-type", "PageBlob"),
        ("x-ms-blob-content-length", "0"),
    ];
    az.put("/con/p", &page).await.assert(201);
    let part = az.get("/con/p", &[("range", "bytes=0-")]).await;
    part.assert_refused(416, "InvalidRange");
    assert_eq!(part.header("content-range"), "bytes */0");
}

#[tokio::test]
async fn the_hash_of_a_range_is_returned_on_request() {
    // The hashes of "body" and of "od".
    const WHOLE: &str = "hBotaJrYa9FhFEdFPCLG/A==";
    const PART: &str = "r8foqY91dV5RPZ1erYiOHQ==";
    let (_running, az) = with_blob(b"").await;
    let md5 = [("x-ms-blob-content-md5", WHOLE)];
    az.put_block(BLOB, &md5, b"body").await.assert(201);
    let ask = async |asked, range| {
        let mut headers = vec![("x-ms-range-get-content-md5", asked)];
        headers.extend(
            Some(range)
                .filter(|range: &&str| !range.is_empty())
                .map(|range| ("range", range)),
        );
        az.get(BLOB, &headers).await
    };
    let part = ask("true", "bytes=1-2").await;
    assert_eq!(part.assert(206).body, b"od");
    assert_eq!(part.header("content-md5"), PART);
    assert_eq!(part.header("x-ms-blob-content-md5"), WHOLE);
    assert_eq!(
        ask("false", "bytes=1-2")
            .await
            .assert(206)
            .header("content-md5"),
        ""
    );
    let malformed = (400, "InvalidHeaderValue");
    assert_eq!(ask("true", "").await.outcome(), malformed);
    assert_eq!(ask("perhaps", "bytes=1-2").await.outcome(), malformed);

    let config = tenure_azure::server::AzureConfig {
        max_blob_bytes: 8 << 20,
        ..development()
    };
    let (_running, az) = start(StoreConfig::memory(), config);
    az.put("/con?restype=container", &[]).await.assert(201);
    let large = vec![0; (4 << 20) + 1];
    az.put_block(BLOB, &[], &large).await.assert(201);
    let headers = [
        ("range", "bytes=0-"),
        ("x-ms-range-get-content-md5", "true"),
    ];
    assert_eq!(az.get(BLOB, &headers).await.outcome(), malformed);
}

#[tokio::test]
async fn a_client_of_an_old_version_signs_an_empty_body() {
    let (_running, az) = in_memory();
    for (version, container) in [("2014-02-14", "old"), ("2015-02-21", "new")] {
        let headers = [("x-ms-version", version)];
        let put = az
            .put(&format!("/{container}?restype=container"), &headers)
            .await;
        assert_eq!(put.assert(201).header("x-ms-version"), version);
    }
}

#[tokio::test]
async fn a_refusal_names_the_parameter_or_the_reason() {
    let (_running, mut az) = with_blob(b"0").await;
    let list = "/con?restype=container&comp=list&maxresults=none";
    let text = az.get(list, &[]).await.text();
    let named = "<QueryParameterName>maxresults</QueryParameterName><QueryParameterValue>none\
                 </QueryParameterValue><Reason>it must be a whole number</Reason>";
    assert!(text.contains(named), "{text}");
    let long_ago = [("x-ms-date", "Sun, 06 Nov 1994 08:49:37 GMT")];
    let skewed = az.get(BLOB, &long_ago).await;
    skewed.assert_refused(403, "AuthenticationFailed");
    let why = "<AuthenticationErrorDetail>the date of the request, Sun, 06 Nov 1994 08:49:37 GMT, is more \
               than 15 minutes from the time of the store, ";
    assert!(skewed.text().contains(why), "{}", skewed.text());
    let right = az.key.clone();
    az.key = right.replace('E', "F");
    let unsigned = az.get(BLOB, &[]).await;
    unsigned.assert_refused(403, "AuthenticationFailed");
    let detail = |answer: &Answer| {
        let text = answer.text();
        let (_, detail) = text.split_once("<AuthenticationErrorDetail>").unwrap();
        detail.to_owned()
    };
    let told = detail(&unsigned);
    assert!(told.contains("signature") && !told.contains(&right) && !told.contains("SharedKey "));
    // The response is the same for an unknown account.
    az.account = "nobody".into();
    assert_eq!(detail(&az.get(BLOB, &[]).await), told);
}

#[tokio::test]
async fn a_client_that_sends_a_whole_refused_body_first_gets_the_response() {
    let (running, _az) = in_memory();
    let body = vec![0; 8 << 20];
    let mut wire = Wire::connect(&running.api).await;
    for _ in 0..3 {
        let length = format!("content-length: {}\r\n", body.len());
        let head = head("PUT", "/devstoreaccount1/con/b", &length);
        wire.send(head).await.unwrap();
        wire.send(&body).await.unwrap();
        let refused = wire.reply().await.expect("an answer");
        assert_eq!(refused.answer.0, 401);
        assert!(refused.has("x-ms-error-code: NoAuthenticationInformation"));
    }
}
