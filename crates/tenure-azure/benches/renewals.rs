//! The processor time of a renewal through the Azure protocol, compared with a renewal of the same
//! leases through the native API in the same process.
//! The requests are those of the SDK for Python. Requests without a signature, which only this
//! benchmark can send, measure the protocol alone; clients use Shared Key.

#[path = "../../tenure-server/benches/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use support::{Child, Connection, Jumps, Kind, Samples, folder, id, proof, table};
use tenure_azure::server::{Azure, AzureConfig, ServedAccount};
use tokio::time::{Instant, timeout_at};

const CONNECTIONS: u64 = 64;
const LEASES: u64 = 1_000;
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[derive(Clone, Copy)]
enum Client {
    Native,
    Unsigned,
    SharedKey,
}

fn main() {
    support::serve_if_asked_with(|server, store| {
        let mut config = AzureConfig::new(vec![ServedAccount::development()]);
        config.unguarded = true;
        server.with_protocol(Azure::open(store, config).expect("the protocol"))
    });
    let (rounds, length) = match support::quick() {
        true => (2, Duration::from_millis(300)),
        false => (5, Duration::from_secs(1)),
    };
    let folder = folder();
    let server = Child::start(Kind::Memory, 0, folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(make(&server));
    let clients = [
        ("native", Client::Native),
        ("Azure, unsigned", Client::Unsigned),
        ("Azure, Shared Key", Client::SharedKey),
    ];
    let mut all =
        clients.map(|(name, client)| (name, client, Samples::default(), Samples::default()));
    // The first round warms up.
    for round in 0..=rounds {
        for (_, client, micros, rate) in &mut all {
            let requests: Arc<[Vec<u8>]> =
                (0..LEASES).map(|number| renewal(*client, number)).collect();
            let before = server.cpu();
            let began = Instant::now();
            let done = runtime.block_on(load(&server, &requests, began + length));
            let (time, cpu) = (began.elapsed(), server.cpu() - before);
            if round > 0 {
                micros.push(cpu.as_secs_f64() * 1e6 / done as f64);
                rate.push(support::per_second(done, time));
            }
        }
    }
    let mut rows = vec![
        [
            "protocol",
            "processor time of one, us",
            "ratio",
            "renewals a second",
        ]
        .map(String::from)
        .to_vec(),
    ];
    rows.extend(all.iter().map(|(name, _, micros, rate)| {
        vec![
            (*name).to_owned(),
            micros.text(1),
            micros.over(&all[0].2).text(2),
            format!("{:.0}", rate.median()),
        ]
    }));
    table(
        "Renewals over HTTP, 64 connections (target: ratio at most 1.6 unsigned, 2.5 with Shared Key)",
        &rows,
    );
}

/// Creates each blob and acquires its lease.
async fn make(server: &Child) {
    let mut connection = Connection::open(server.address).await;
    let container = put("/devstoreaccount1/bench?restype=container", "");
    assert_eq!(
        connection
            .ask(container.as_bytes())
            .await
            .expect("an answer"),
        201
    );
    for number in 0..LEASES {
        let path = format!("/devstoreaccount1/bench/lease-{number:07}");
        let blob = put(&path, "x-ms-blob-type: BlockBlob\r\n");
        let lease = put(
            &format!("{path}?comp=lease"),
            &format!(
                "x-ms-lease-action: acquire\r\nx-ms-lease-duration: -1\r\nx-ms-proposed-lease-id: {}\r\n",
                id(number)
            ),
        );
        for request in [blob, lease] {
            assert_eq!(
                connection.ask(request.as_bytes()).await.expect("an answer"),
                201
            );
        }
    }
}

fn put(target: &str, headers: &str) -> String {
    format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n{headers}\r\n")
}

/// Returns a complete request.
fn renewal(client: Client, number: u64) -> Vec<u8> {
    if let Client::Native = client {
        let body = proof(number);
        let length = body.len();
        let path = format!("/v1/namespaces/devstoreaccount1.bench/leases/lease-{number:07}/renew");
        return format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes();
    }
    let path = format!("/devstoreaccount1/bench/lease-{number:07}");
    let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
    let service = format!(
        "x-ms-client-request-id:{}\nx-ms-date:{date}\nx-ms-lease-action:renew\nx-ms-lease-id:{}\n\
         x-ms-version:2026-10-06\n",
        id(number + LEASES),
        id(number)
    );
    let mut headers = String::from(
        "accept: application/xml\r\nuser-agent: azsdk-python-storage-blob/12.31.1 Python/3.11.7 \
         (Linux-6.1-x86_64)\r\nconnection: keep-alive\r\n",
    );
    headers += &service.replace('\n', "\r\n");
    if let Client::SharedKey = client {
        let text =
            format!("PUT\n\n\n\n\n\n\n\n\n\n\n\n{service}/devstoreaccount1{path}\ncomp:lease");
        let key = BASE64_STANDARD.decode(KEY).expect("a key");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        headers += &format!("authorization: SharedKey devstoreaccount1:{signature}\r\n");
    }
    put(&format!("{path}?comp=lease"), &headers).into_bytes()
}

/// Renews leases in random order until the time is over. Returns their number.
async fn load(server: &Child, requests: &Arc<[Vec<u8>]>, until: Instant) -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CONNECTIONS {
        let (address, done, requests) = (server.address, Arc::clone(&done), Arc::clone(requests));
        tasks.spawn(timeout_at(until, async move {
            let mut connection = Connection::open(address).await;
            let mut jumps = Jumps::new(client + 1);
            loop {
                let number = jumps.below(LEASES) as usize;
                let status = connection.ask(&requests[number]).await.expect("an answer");
                assert_eq!(status, 200);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    while let Some(task) = tasks.join_next().await {
        // A client ends because the time is over, or because it panicked.
        let _time_is_up = task.expect("renewals");
    }
    done.load(Ordering::Relaxed)
}
