//! The command as processes: serving a store, and reading its leases.

mod audit;
mod backup;
mod clock;
mod damage;
mod demo;
mod files;
mod list;
mod logs;
mod permissions;
mod restart;
mod serve;
mod settings;
mod status;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::process::{Process, stderr, stdout};
use tenure_tests::wait_for;

/// Sends a request to a store; returns the status and the body.
fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    ask_with(address, method, path, "", body)
}

/// Like [`ask`], with more lines in the head.
fn ask_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    head: &str,
    body: &Value,
) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    write!(
        stream,
        "{method} /v1/namespaces/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Acquires a lease for a minute; fails if it is not granted.
fn acquire(address: SocketAddr, lease: &str, holder: &str) -> Value {
    let body = json!({"holder": holder, "duration_ms": 60_000});
    let path = lease.replacen('/', "/leases/", 1) + "/acquire";
    let (status, view) = ask(address, "POST", &path, &body);
    assert_eq!(status, 200, "{view}");
    view
}

/// A store in memory on a free port, and its address.
fn memory_store() -> (Process, SocketAddr) {
    let mut process = Process::start(&["serve", "--listen", "127.0.0.1:0", "--home", "memory"]);
    let address = address_of(&mut process);
    (process, address)
}

/// Waits for the line that a store prints at its start.
fn address_of(store: &mut Process) -> SocketAddr {
    wait_for("the store to listen", || {
        assert!(!store.has_ended(), "{}", store.stderr());
        let line = store.stdout();
        line.strip_prefix("listening on http://")?
            .strip_suffix('\n')?
            .parse()
            .ok()
    })
}
