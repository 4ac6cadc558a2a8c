//! Behaviour that clients of the service rely on, apart from leases.

use crate::client::{Answer, Az, in_memory};
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
