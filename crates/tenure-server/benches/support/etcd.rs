//! Clients of etcd's gateway: locks as etcd's users make them, and appends to a log.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Connection;

/// A lock in etcd's own way: a lease of etcd, and a key that is created if it is missing and that
/// goes with the lease.
pub struct EtcdLock {
    connection: Connection,
    key: String,
}

impl EtcdLock {
    pub async fn open(address: SocketAddr, name: &str) -> Self {
        Self {
            connection: Connection::open(address).await,
            key: STANDARD.encode(name),
        }
    }

    /// Grants a lease, and creates the key with it. Returns the lease if the key was missing.
    pub async fn acquire(&mut self, holder: &str) -> Option<String> {
        let lease = ask(
            &mut self.connection,
            "/v3/lease/grant",
            &json!({"TTL": "15"}),
        )
        .await;
        let lease = lease["ID"].as_str().expect("a lease").to_owned();
        let key = &self.key;
        let request = json!({
            "compare": [{
                "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0",
            }],
            "success": [{"request_put": {
                "key": key, "value": STANDARD.encode(holder), "lease": lease,
            }}],
            "failure": [{"request_range": {"key": key}}],
        });
        let created = ask(&mut self.connection, "/v3/kv/txn", &request).await;
        let is_created = created["succeeded"] == true;
        is_created.then_some(lease)
    }

    /// Revokes the lease, which deletes the key.
    pub async fn release(&mut self, lease: &str) {
        ask(
            &mut self.connection,
            "/v3/lease/revoke",
            &json!({"ID": lease}),
        )
        .await;
    }
}

/// A head that is replaced by compare-and-swap.
pub struct EtcdHead {
    connection: Connection,
    key: String,
    value: Option<String>,
    number: u64,
}

impl EtcdHead {
    pub async fn open(address: SocketAddr, name: &str) -> Self {
        Self {
            connection: Connection::open(address).await,
            key: STANDARD.encode(name),
            value: None,
            number: 0,
        }
    }

    /// Replaces the head, and adds a batch of this size.
    pub async fn append(&mut self, batch_bytes: usize) {
        self.number += 1;
        let key = &self.key;
        let value = STANDARD.encode(format!("{{\"number\":{:0300}}}", self.number));
        let condition = match &self.value {
            Some(value) => {
                json!({"key": key, "target": "VALUE", "result": "EQUAL", "value": value})
            }
            None => {
                json!({"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"})
            }
        };
        let batch_key = STANDARD.encode(format!("log/{:020}", self.number));
        let batch = STANDARD.encode(vec![b'x'; batch_bytes]);
        let request = json!({
            "compare": [condition],
            "success": [
                {"request_put": {"key": key, "value": value}},
                {"request_put": {"key": batch_key, "value": batch}},
            ],
            "failure": [{"request_range": {"key": key}}],
        });
        let answer = ask(&mut self.connection, "/v3/kv/txn", &request).await;
        assert_eq!(answer["succeeded"], true, "{answer}");
        self.value = Some(value);
    }
}

async fn ask(connection: &mut Connection, path: &str, body: &Value) -> Value {
    let status = connection.post(path, &body.to_string()).await;
    let answer = serde_json::from_slice(connection.body()).unwrap_or_default();
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}
