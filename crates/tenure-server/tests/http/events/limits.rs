//! Slow watchers, idle streams, and the limit on the number of streams.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;

/// Makes more changes than the store remembers: 8 MiB.
pub(super) async fn overrun(api: &Api) {
    let text = "x".repeat(4_000);
    for _ in 0..2_200 {
        set_metadata(api, "job", &text).await;
    }
}

/// Opens a stream of the lease's events that is not read yet, with a small receive buffer.
async fn unread(api: &Api) -> TcpStream {
    let address = api.origin.strip_prefix("http://").unwrap().parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = "GET /v1/namespaces/ns/leases/job/events HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Waits until another client may watch.
async fn until_there_is_room(api: &Api) {
    let until = Instant::now() + SOON;
    while lease(api, "other").send().await.unwrap().status() != 200 {
        assert!(Instant::now() < until, "the permit was not freed");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_read_gets_a_reset_and_continues() {
    // The client pauses for longer than other requests may take.
    let request_time = Duration::from_secs(1);
    let server = with_limits(|limits| limits.request_time = request_time);
    let api = server.api.clone();
    assert_ok(&api.acquire("job", 1).await);
    let mut slow = unread(&api).await;
    let mut attentive = Stream::open(lease(&api, "job")).await;
    let first = attentive.expect("reset").await.0.unwrap();

    // The first changes fill the buffers of the connection. The next ones replace the events that
    // the store remembers.
    let overruns = async {
        overrun(&api).await;
        overrun(&api).await;
        assert_ok(&api.release("job", 1).await);
    };
    let attention = async {
        let mut last = first;
        loop {
            let (event_id, name, _) = attentive.next().await;
            assert_eq!(
                event_id,
                Some(last + 1),
                "an attentive watcher misses nothing"
            );
            last += 1;
            if name == "released" {
                return last - first;
            }
        }
    };
    let ((), told) = tokio::join!(overruns, attention);
    sleep(3 * request_time).await;

    let (mut names, mut text) = (Vec::new(), String::new());
    let mut buffer = vec![0; 64 * 1024];
    while names.last().is_none_or(|name| name != "released") {
        let read = timeout(SOON, slow.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(read > 0);
        text += std::str::from_utf8(&buffer[..read]).unwrap();
        let ends = text.rfind("\n\n").map_or(0, |at| at + 2);
        let rest = text.split_off(ends);
        let fields = text.lines().filter_map(|line| line.strip_prefix("event: "));
        names.extend(fields.map(String::from));
        text = rest;
        // The client sends no further request: the reset arrives in the same stream.
        if names.last().is_some_and(|name| name == "reset") && names.len() > 1 {
            assert_ok(&api.acquire("job", 2).await);
            assert_ok(&api.release("job", 2).await);
        }
    }
    let resets = names.iter().filter(|name| *name == "reset").count();
    assert_eq!(
        resets, 2,
        "the initial reset, and one for the missed events"
    );
    assert!((names.len() as u64) < told, "{} of {told}", names.len());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_never_read_again_is_closed() {
    let server = with_limits(|limits| {
        limits.max_watchers = 1;
        limits.header_time = Duration::from_secs(1);
    });
    let api = server.api.clone();
    assert_ok(&api.acquire("job", 1).await);
    let _deaf = unread(&api).await;
    overrun(&api).await;
    until_there_is_room(&api).await;
}

#[tokio::test]
async fn a_stream_has_no_time_limit() {
    let server = with_limits(|limits| limits.request_time = Duration::from_millis(50));
    let api = server.api.clone();
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    sleep(Duration::from_millis(300)).await;
    assert_ok(&api.acquire("job", 1).await);
    stream.expect("granted").await;
}

#[tokio::test]
async fn an_idle_stream_has_heartbeats() {
    let api = in_memory().api;
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    // Clients consider a stream dead after 40 s of silence.
    let sign = timeout(Duration::from_secs(40), stream.response.chunk());
    let sign = sign.await.expect("a heartbeat").unwrap().unwrap();
    assert!(sign.starts_with(b":"), "{sign:?}");
}

#[tokio::test]
async fn a_watcher_over_the_limit_is_refused_until_another_one_leaves() {
    let server = with_limits(|limits| limits.max_watchers = 3);
    let api = server.api.clone();
    let mut first = Stream::open(lease(&api, "job")).await;
    first.expect("reset").await;
    let second = Stream::open(namespace(&api, "ns")).await;
    let response = lease(&api, "job").send().await.unwrap();
    assert!(response.headers().contains_key("retry-after"));
    let refused = answer(response).await;
    assert_refused(&refused, 429, "over_limit");
    assert!(
        refused.1["detail"]
            .as_str()
            .unwrap()
            .contains("the rest of the 3")
    );
    // The limit on streams affects no other requests.
    assert_ok(&api.acquire("job", 1).await);
    first.expect("granted").await;
    drop(second);
    until_there_is_room(&api).await;
}
