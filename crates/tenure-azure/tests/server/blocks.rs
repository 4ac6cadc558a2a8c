//! Blobs that clients upload in blocks.

use reqwest::Method;
use tenure_server::StoreConfig;

use crate::client::{Answer, Az, development, in_memory, start};
use crate::common::id;

const BLOB: &str = "/con/b";
const LIST: &str = "/con/b?comp=blocklist";

async fn put_block(az: &Az, block: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let target = format!("{BLOB}?comp=block&blockid={block}");
    az.send(Method::PUT, &target, headers, body).await
}

/// Creates the blob from these blocks. Each entry contains the source and the id of a block.
async fn commit(az: &Az, headers: &[(&str, &str)], blocks: &[(&str, &str)]) -> Answer {
    let entry = |(source, block): &(&str, &str)| format!("<{source}>{block}</{source}>");
    let entries: String = blocks.iter().map(entry).collect();
    let list = format!("<?xml version=\"1.0\"?><BlockList>{entries}</BlockList>");
    az.send(Method::PUT, LIST, headers, list.as_bytes()).await
}

async fn container(az: &Az) {
    az.put("/con?restype=container", &[]).await.assert(201);
}

async fn lease(az: &Az, action: &str, headers: &[(&str, &str)]) {
    let mut headers = headers.to_vec();
    headers.push(("x-ms-lease-action", action));
    let answer = az.put("/con/b?comp=lease", &headers).await;
    assert!((200..300).contains(&answer.status), "{}", answer.text());
}

#[tokio::test]
async fn a_blob_is_made_of_blocks_in_the_order_of_the_list() {
    let (_running, az) = in_memory();
    container(&az).await;
    put_block(&az, "AAAA", &[], b"one ").await.assert(201);
    put_block(&az, "AAAB", &[], b"two ").await.assert(201);
    // A block with the same id is replaced.
    put_block(&az, "AAAA", &[], b"three").await.assert(201);
    // There is no blob yet.
    az.get(BLOB, &[]).await.assert_refused(404, "BlobNotFound");
    let headers = [
        ("x-ms-blob-content-type", "text/x"),
        ("content-type", "application/xml"),
        ("x-ms-meta-a", "b"),
    ];
    let made = commit(
        &az,
        &headers,
        &[("Latest", "AAAB"), ("Uncommitted", "AAAA")],
    )
    .await;
    assert_eq!(
        made.assert(201).header("x-ms-request-server-encrypted"),
        "false"
    );
    let blob = az.get(BLOB, &[]).await;
    assert_eq!(blob.assert(200).text(), "two three");
    assert_eq!(blob.header("etag"), made.header("etag"));
    assert_eq!(
        (blob.header("content-type"), blob.header("x-ms-meta-a")),
        ("text/x", "b")
    );
    // This is the same list again, as from a client that did not receive the response.
    commit(&az, &headers, &[("Latest", "AAAB"), ("Latest", "AAAA")])
        .await
        .assert(201);
    assert_eq!(az.get(BLOB, &[]).await.text(), "two three");
    // The list contains only some of the old blocks, one of them twice, and a new block.
    put_block(&az, "AAAC", &[], b"!").await.assert(201);
    let blocks = [
        ("Committed", "AAAA"),
        ("Committed", "AAAA"),
        ("Uncommitted", "AAAC"),
    ];
    commit(&az, &[], &blocks).await.assert(201);
    let blob = az.get(BLOB, &[]).await;
    assert_eq!(blob.text(), "threethree!");
    assert_eq!(blob.header("content-type"), "application/octet-stream");
    // Blocks that were not in the list were dropped.
    let gone = commit(&az, &[], &[("Latest", "AAAB")]).await;
    gone.assert_refused(400, "InvalidBlockList");
    assert_eq!(az.get(BLOB, &[]).await.text(), "threethree!");
    commit(&az, &[], &[]).await.assert(201);
    assert_eq!(az.get(BLOB, &[]).await.text(), "");
}

#[tokio::test]
async fn blocks_and_block_lists_need_the_lease_like_other_writes() {
    let (_running, az) = in_memory();
    container(&az).await;
    let (own, other) = (id(1), id(2));
    let (own, other) = (("x-ms-lease-id", &*own), ("x-ms-lease-id", &*other));
    let latest = [("Latest", "AAAA")];
    let absent = (412, "LeaseNotPresentWithBlobOperation");
    let mismatch = (412, "LeaseIdMismatchWithBlobOperation");
    let missing = (412, "LeaseIdMissing");
    assert_eq!(put_block(&az, "AAAA", &[own], b"1").await.outcome(), absent);
    assert_eq!(commit(&az, &[own], &[]).await.outcome(), absent);
    az.put_block(BLOB, &[], b"0").await.assert(201);
    // The client puts a block, and then acquires the lease. The acquire does not write the block.
    put_block(&az, "AAAA", &[], b"1").await.assert(201);
    let acquire = [
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", own.1),
    ];
    lease(&az, "acquire", &acquire).await;
    for (headers, refusal) in [(&[][..], missing), (&[other], mismatch)] {
        assert_eq!(
            put_block(&az, "AAAA", headers, b"2").await.outcome(),
            refusal
        );
        assert_eq!(commit(&az, headers, &latest).await.outcome(), refusal);
    }
    let listed = az.get(LIST, &[other]).await;
    assert_eq!(listed.outcome(), mismatch);
    az.get(LIST, &[own]).await.assert(200);
    assert_eq!(az.get(BLOB, &[]).await.text(), "0");
    put_block(&az, "AAAA", &[own], b"3").await.assert(201);
    commit(&az, &[own], &latest).await.assert(201);
    let blob = az.get(BLOB, &[]).await;
    assert_eq!(
        (&*blob.text(), blob.header("x-ms-lease-state")),
        ("3", "leased")
    );
    // Blocks do not change the blob, so the last holder can use a broken lease until the blob
    // changes.
    lease(&az, "break", &[("x-ms-lease-break-period", "0")]).await;
    put_block(&az, "AAAA", &[], b"4").await.assert(201);
    let state = async || {
        az.head(BLOB, &[])
            .await
            .header("x-ms-lease-state")
            .to_owned()
    };
    assert_eq!(state().await, "broken");
    // A refused list does not change the blob either.
    let unknown = commit(&az, &[], &[("Latest", "AAAZ")]).await;
    unknown.assert_refused(400, "InvalidBlockList");
    assert_eq!(state().await, "broken");
    let lost = (412, "LeaseLost");
    assert_eq!(commit(&az, &[own], &latest).await.outcome(), lost);
    commit(&az, &[], &latest).await.assert(201);
    assert_eq!(state().await, "available");
}

#[tokio::test]
async fn a_block_list_has_the_conditions_of_a_write() {
    let (_running, az) = in_memory();
    container(&az).await;
    put_block(&az, "AAAA", &[], b"1").await.assert(201);
    let latest = [("Latest", "AAAA")];
    let new = ("if-none-match", "*");
    let made = commit(&az, &[new], &latest).await;
    let etag = made.assert(201).header("etag");
    let exists = (409, "BlobAlreadyExists");
    assert_eq!(commit(&az, &[new], &latest).await.outcome(), exists);
    let unmet = (412, "ConditionNotMet");
    let other = ("if-match", "\"0x1\"");
    assert_eq!(commit(&az, &[other], &latest).await.outcome(), unmet);
    commit(&az, &[("if-match", etag)], &latest)
        .await
        .assert(201);
    // A page blob does not become a block blob either.
    let page = [
        ("x-ms-blob-type", "PageBlob"),
        ("x-ms-blob-content-length", "512"),
    ];
    az.put(BLOB, &page).await.assert(201);
    let wrong = (409, "InvalidBlobType");
    assert_eq!(put_block(&az, "AAAA", &[], b"1").await.outcome(), wrong);
    assert_eq!(commit(&az, &[], &[]).await.outcome(), wrong);
    assert_eq!(az.get(LIST, &[]).await.outcome(), wrong);
}

#[tokio::test]
async fn committed_blobs_survive_a_restart_and_uncommitted_blocks_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let open = || start(StoreConfig::folder(folder.path()), development());
    let (running, az) = open();
    container(&az).await;
    put_block(&az, "AAAA", &[], b"1").await.assert(201);
    put_block(&az, "AAAB", &[], b"2").await.assert(201);
    commit(&az, &[], &[("Latest", "AAAA"), ("Latest", "AAAB")])
        .await
        .assert(201);
    put_block(&az, "AAAC", &[], b"3").await.assert(201);
    running.stop().await.unwrap();
    let (_running, az) = open();
    assert_eq!(az.get(BLOB, &[]).await.text(), "12");
    for lost in ["AAAA", "AAAC"] {
        let list = commit(&az, &[], &[("Latest", lost)]).await;
        list.assert_refused(400, "InvalidBlockList");
    }
}
