//! The shares of clients: one of them takes all that it can get, and others notice nothing. Without
//! access control the address is the client.

use super::*;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use tenure_server::Server;
use tenure_server::access::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const LEASES: &str = "/v1/namespaces/ns/leases?limit=1000";

/// A page, with one lease that is large.
const PAGE: usize = 256 * 1024;

/// Creates this number of leases with large metadata.
async fn fill(api: &Api, count: u32) {
    for number in 0..count {
        let mut body = minute(number);
        body["metadata"] = json!({"k": "x".repeat(4_000)});
        let filled = api.post(&format!("l{number:03}"), "acquire", body).await;
        assert_ok(&filled);
    }
}

/// Connects without room for an answer.
async fn connect_deaf(api: &Api) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = api.origin.strip_prefix("http://").unwrap();
    Wire::over(socket.connect(address.parse().unwrap()).await.unwrap())
}

#[tokio::test]
async fn the_pages_of_a_list_have_a_limited_size_and_all_leases() {
    let api = common::in_memory().api;
    fill(&api, 150).await;
    let (mut names, mut pages, mut path) = (BTreeSet::new(), 0, LEASES.to_owned());
    loop {
        let page = Wire::connect(&api).await.get(&path).await;
        assert_ok(&page.answer);
        let bytes = page.answer.1.to_string().len();
        assert!(bytes <= PAGE, "{bytes}");
        pages += 1;
        for view in page.answer.1["leases"].as_array().unwrap() {
            names.insert(view["lease"].as_str().unwrap().to_owned());
        }
        let Some(next) = page.answer.1["next"].as_str() else {
            break;
        };
        assert!(bytes > PAGE - 8 * 1024, "{bytes}");
        path = format!("{LEASES}&after={next}");
    }
    assert_eq!((names.len(), pages), (150, 3));
}

#[tokio::test]
async fn answers_that_nobody_reads_are_limited_and_end() {
    let limit = Duration::from_secs(2);
    let running = limited(|limits| {
        limits.max_answers = 8;
        limits.request_time = limit;
    });
    let api = &running.api;
    fill(api, 70).await;
    let began = Instant::now();
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut deaf = connect_deaf(api).await;
        // One page is more than the kernel keeps for a connection.
        deaf.send(head("GET", LEASES, "")).await.unwrap();
        unread.push(deaf);
    }
    let mut wire = Wire::connect(api).await;
    let refused = loop {
        let reply = wire.get(LEASES).await;
        if reply.answer.0 != 200 {
            break reply;
        }
        assert!(began.elapsed() < limit, "no answer counts");
    };
    let parts = ["this address has 4 large answers", "the rest of the 8"];
    assert_problem(&refused, 429, "over_limit", &parts);
    // Leases are kept, also in batches, and another address is not concerned.
    assert_ok(&wire.post(ACQUIRE, &minute(500)).await.answer);
    assert_ok(&wire.post(RENEW, &json!({"lease_id": id(500)})).await.answer);
    let many = json!({"leases": [{"lease": "job", "lease_id": id(500)}]});
    let batch = wire.post("/v1/namespaces/ns/renew", &many).await;
    assert_ok(&batch.answer);
    let mut other = Wire::connect_from(api, "127.0.0.2").await;
    assert_ok(&other.get(LEASES).await.answer);
    // A client that takes a little now and then gains no time.
    for wire in &mut unread {
        let taken = async {
            loop {
                sleep(Duration::from_millis(100)).await;
                if wire.send(b"").await.is_err() || wire.take(512).await == 0 {
                    break;
                }
            }
        };
        let _ = timeout(limit, taken).await;
    }
    let until = Instant::now() + SOON;
    while wire.get(LEASES).await.answer.0 != 200 {
        assert!(Instant::now() < until, "an unread answer stays for ever");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Connects from this address without room for an answer, sends, and reads nothing.
async fn send_deaf(to: SocketAddr, from: &str, requests: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut deaf = socket.connect(to).await.unwrap();
    deaf.write_all(requests.as_bytes()).await.unwrap();
    deaf
}

/// Waits until the store serves this address.
async fn until_served(to: SocketAddr, from: &str) {
    let until = Instant::now() + SOON;
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut wire = Wire::over(socket.connect(to).await.unwrap());
        if wire.get_or_closed("/metrics").await == Some(200) {
            return;
        }
        assert!(Instant::now() < until, "{from}: never served again");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that the kernel has forgotten what the client did not take.
async fn assert_reset(mut deaf: TcpStream) {
    let mut rest = Vec::new();
    let end = timeout(SOON, deaf.read_to_end(&mut rest)).await.unwrap();
    let kind = end.map_err(|error| error.kind());
    assert_eq!(kind, Err(io::ErrorKind::ConnectionReset));
    assert!(rest.len() < 16 * 1024, "{}", rest.len());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_forgets_answers_that_are_not_taken_in_time() {
    let limits = Limits {
        request_time: Duration::from_secs(2),
        max_connections_per_address: 1,
        ..Limits::default()
    };
    let store = Store::open(StoreConfig::memory().with_limits(limits.clone())).unwrap();
    let any_port = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(store, any_port).unwrap();
    let server = server.with_access(Access::anonymous());
    let server = server.with_metrics_listener(any_port).unwrap();
    let to = server.local_addr().unwrap();
    let metrics = server.metrics_addr().unwrap().unwrap();
    let _running = common::served(server);
    let began = Instant::now();
    let many = head("GET", "/openapi.json", "").repeat(60);
    let last = head("GET", "/openapi.json", "connection: close\r\n");
    let many = send_deaf(to, "127.0.0.2", &many).await;
    let closed = send_deaf(to, "127.0.0.3", &last).await;
    let mut half = send_deaf(to, "127.0.0.4", &last).await;
    half.shutdown().await.unwrap();
    // As many as the listener allows.
    let mut scrapes = Vec::new();
    for _ in 0..16 {
        let scrape = head("GET", "/metrics", "").repeat(100);
        scrapes.push(send_deaf(metrics, "127.0.0.1", &scrape).await);
    }
    let ends = [
        (to, "127.0.0.2", many),
        (to, "127.0.0.3", closed),
        (to, "127.0.0.4", half),
        (metrics, "127.0.0.1", scrapes.remove(0)),
    ];
    for (to, from, deaf) in ends {
        // The connection counts until it is reset.
        until_served(to, from).await;
        assert!(began.elapsed() >= limits.request_time, "{from}");
        // The place may be that of another scrape, and the end of this one is near.
        sleep(Duration::from_millis(500)).await;
        assert_reset(deaf).await;
    }
}

#[tokio::test]
async fn a_client_that_is_slower_than_the_end_of_its_connection_gets_the_whole_answer() {
    let running = common::in_memory();
    let to = running.api.origin.strip_prefix("http://").unwrap();
    let request = head("GET", "/openapi.json", "connection: close\r\n");
    for closes_first in [false, true] {
        let mut slow = send_deaf(to.parse().unwrap(), "127.0.0.1", &request).await;
        if closes_first {
            slow.shutdown().await.unwrap();
        }
        sleep(Duration::from_millis(200)).await;
        let mut answer = String::new();
        let read = timeout(SOON, slow.read_to_string(&mut answer)).await;
        read.unwrap().unwrap();
        assert!(answer.ends_with('}'), "{}", answer.len());
    }
}

#[tokio::test]
async fn batches_of_renewals_wait_for_their_turn_and_are_not_refused() {
    let running = limited(|limits| limits.max_answers = 8);
    let api = &running.api;
    fill(api, 70).await;
    let leases: Vec<_> = (0..70)
        .map(|number| json!({"lease": format!("l{number:03}"), "lease_id": id(number)}))
        .collect();
    let body = json!({"leases": leases}).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let request = head("POST", "/v1/namespaces/ns/renew", &length) + &body;
    // One at a time has its turn: a quarter of the total, and of that no more than is free.
    let mut deaf = connect_deaf(api).await;
    deaf.send(&request).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let mut waits = Wire::connect(api).await;
    waits.send(&request).await.unwrap();
    assert!(!waits.answers_within(Duration::from_millis(300)).await);
    let mut other = Wire::connect_from(api, "127.0.0.2").await;
    other.send(&request).await.unwrap();
    assert_ok(&other.reply().await.unwrap().answer);
    drop(deaf);
    assert_ok(&waits.reply().await.unwrap().answer);
}

#[tokio::test]
async fn an_address_that_waits_as_often_as_it_can_leaves_waits_and_streams_to_others() {
    let running = limited(|limits| {
        limits.max_waiting = 30;
        limits.max_watchers = 30;
    });
    let api = &running.api;
    assert_ok(&api.acquire("job", 1).await);
    let wait = head(
        "GET",
        "/v1/namespaces/ns/leases/job?after=9007199254740991&wait_ms=60000",
        "",
    );
    let stream = head(
        "GET",
        "/v1/namespaces/ns/leases/job/events",
        "accept: text/event-stream\r\n",
    );
    for (request, what) in [(wait, "requests waiting"), (stream, "streams of events")] {
        let mut taken = Vec::new();
        let refused = loop {
            let mut wire = Wire::connect(api).await;
            wire.send(&request).await.unwrap();
            if wire.answers_within(Duration::from_millis(200)).await {
                let reply = wire.reply().await.unwrap();
                if reply.answer.0 != 200 {
                    break reply;
                }
            }
            taken.push(wire);
        };
        assert_eq!(taken.len(), 15);
        let detail = format!("this address has 15 {what}");
        assert_problem(&refused, 429, "over_limit", &[&detail]);
        let mut other = Wire::connect_from(api, "127.0.0.2").await;
        other.send(&request).await.unwrap();
        let answer = other.answers_within(Duration::from_millis(200)).await;
        let is_admitted = !answer || other.reply().await.unwrap().answer.0 == 200;
        assert!(is_admitted, "{what}");
    }
}

#[tokio::test]
async fn heads_without_an_end_take_no_more_than_the_buffer_of_a_short_one() {
    let running = limited(|_| ());
    let endless = |bytes: usize| format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(bytes));
    let mut short = Wire::connect(&running.api).await;
    short.send(endless(8_000)).await.unwrap();
    let mut long = Vec::new();
    for _ in 0..65 {
        let mut wire = Wire::connect(&running.api).await;
        wire.send(endless(9_000)).await.unwrap();
        long.push(wire);
        // The heads arrive one after the other.
        assert!(
            !long
                .last_mut()
                .unwrap()
                .closes_within(Duration::from_millis(5))
                .await
        );
    }
    assert!(long[0].closes_within(Duration::from_secs(1)).await);
    // Nothing is taken from a short head, and a long one that goes on is served.
    assert!(!short.closes_within(Duration::from_millis(5)).await);
    long[64].send("\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(long[64].reply().await.unwrap().answer.0, 200);
    // The others have little time.
    assert!(long[63].closes_within(Duration::from_secs(5)).await);
}
