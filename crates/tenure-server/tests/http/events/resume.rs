//! Streams that resume after an event: they get the missed events or a reset.

use super::limits::overrun;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_reconnects_often_misses_no_event_and_repeats_none() {
    const CHANGES: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let api = server.api.clone();
    let start = Stream::open(namespace(&api, "ns"))
        .await
        .expect("reset")
        .await;
    let start = start.0.unwrap();
    // All leases change; each stream gets the events of its topic.
    let writers = [1, 2, 3].map(|number| {
        let api = api.clone();
        tokio::spawn(async move {
            let name = format!("job{number}");
            // Each acquire uses a new lease id, because an id whose term has ended is not granted
            // again, even after a deletion.
            for number in (1..).take(CHANGES as usize / 6) {
                assert_ok(&api.acquire(&name, number).await);
                let release = json!({"lease_id": id(number)});
                assert_ok(&api.post(&name, "release", release).await);
                assert_eq!(api.delete(&name).await.0, 204);
            }
        })
    });
    let read = async |request: &(dyn Fn() -> RequestBuilder + Sync), count: u64| {
        let (mut last, mut heard) = (start, Vec::new());
        let mut cut_after = 1;
        while (heard.len() as u64) < count {
            let mut stream = Stream::open(after(request(), last)).await;
            for _ in 0..cut_after.min(count - heard.len() as u64) {
                let (event_id, name, data) = stream.next().await;
                assert_ne!(name, "reset", "{data} after {last}");
                last = event_id.unwrap();
                heard.push(last);
            }
            cut_after = cut_after % 40 + 7;
        }
        heard
    };
    let total = CHANGES / 6 * 3 * 3;
    let all = || namespace(&api, "ns");
    let one = || lease(&api, "job2");
    let (all, one) = tokio::join!(read(&all, total), read(&one, total / 3));
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(all, (start + 1..=start + total).collect::<Vec<_>>());
    assert!(one.is_sorted_by(|a, b| a < b));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_stream_after_a_forgotten_revision_begins_with_a_reset() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    assert_ok(&api.acquire("job", 1).await);
    // This revision is in the future.
    let mut stream = Stream::open(after(lease(&api, "job"), begun + 7)).await;
    assert_eq!(
        stream.expect("reset").await.2,
        json!({"revision": begun + 1})
    );
    set_metadata(&api, "job", "after the reset").await;
    assert_eq!(stream.expect("metadata").await.0, Some(begun + 2));
    // These are more changes than the store remembers.
    overrun(&api).await;
    let mut stream = Stream::open(after(lease(&api, "job"), begun + 2)).await;
    let (event_id, _, data) = stream.expect("reset").await;
    let revision = api.get("job").await.1["revision"].clone();
    assert_eq!(
        (json!(event_id), &data["revision"]),
        (revision.clone(), &revision)
    );
    assert_ok(&api.release("job", 1).await);
    assert_eq!(
        stream.expect("released").await.0,
        Some(revision.as_u64().unwrap() + 1)
    );
}

/// A browser may send an empty id before it has received any event.
#[tokio::test]
async fn an_empty_last_event_id_is_none() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let request = lease(&api, "job").header("last-event-id", "");
    Stream::open(request).await.expect("reset").await;
}

#[tokio::test]
async fn after_a_restart_each_stream_begins_with_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let revision = server.api.get("job").await.1["revision"].as_u64().unwrap();
    server.stop().await.unwrap();

    let server = start(StoreConfig::folder(folder.path()));
    let api = server.api.clone();
    let mut stream = Stream::open(after(lease(&api, "job"), revision)).await;
    let reset = stream.expect("reset").await.0.unwrap();
    assert!(reset >= revision);
    assert_ok(&api.release("job", 1).await);
    assert_eq!(stream.expect("released").await.0, Some(reset + 1));
    drop(stream);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_store_does_not_accept_the_revisions_of_an_earlier_store_as_its_own() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let on_disk = [0, 1].map(|number: usize| StoreConfig::folder(folders[number].path()));
    for [first, second] in [on_disk, [StoreConfig::memory(), StoreConfig::memory()]] {
        let server = start(first);
        for lease in ["a", "b", "c"] {
            assert_ok(&server.api.acquire(lease, 1).await);
        }
        let last = revision(&server.api).await;
        server.stop().await.unwrap();
        // Another store in its place makes more changes than the first one.
        let server = start(second);
        for lease in ["d", "e", "f", "g", "h"] {
            assert_ok(&server.api.acquire(lease, 1).await);
        }
        for known in [last, last - 1] {
            let mut stream = Stream::open(after(namespace(&server.api, "ns"), known)).await;
            assert!(stream.expect("reset").await.0 > Some(last + 5));
        }
        server.stop().await.unwrap();
    }
}
