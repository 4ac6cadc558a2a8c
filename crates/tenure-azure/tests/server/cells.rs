//! Every cell of the state tables of Azure Blob leases, over HTTP. The cells for expired leases
//! share one wait until the leases expire.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Answer, Az, in_memory};
use crate::common::id;

/// The resource of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Blob,
    Container,
}

const STATES: [&str; 6] = [
    "available",
    "fixed",
    "infinite",
    "breaking",
    "broken",
    "expired",
];

/// One blob or container with a lease.
#[derive(Clone)]
struct Thing {
    az: Az,
    on: On,
    /// The path of the resource.
    path: String,
}

/// Lease ids.
const A: u32 = 0xa;
const B: u32 = 0xb;
const C: u32 = 0xc;

impl Thing {
    async fn make(az: &Az, on: On, number: usize) -> Self {
        let path = match on {
            On::Blob => format!("/cells/b{number}"),
            On::Container => format!("/c{number}"),
        };
        let thing = Self {
            az: az.clone(),
            on,
            path,
        };
        match on {
            On::Blob => az
                .put_block(&thing.path, &[], b"one")
                .await
                .assert(201)
                .clone(),
            On::Container => az.put(&thing.target(""), &[]).await.assert(201).clone(),
        };
        thing
    }

    fn target(&self, comp: &str) -> String {
        let comp = if comp.is_empty() {
            String::new()
        } else {
            format!("comp={comp}&")
        };
        match self.on {
            On::Blob => format!("{}?{comp}", self.path),
            On::Container => format!("{}?{comp}restype=container", self.path),
        }
    }

    async fn lease(&self, action: &str, headers: &[(&str, &str)]) -> Answer {
        let mut all = vec![("x-ms-lease-action", action)];
        all.extend(headers);
        self.az.put(&self.target("lease"), &all).await
    }

    async fn acquire(&self, number: Option<u32>, duration: &str) -> Answer {
        let id = number.map(id);
        let mut headers = vec![("x-ms-lease-duration", duration)];
        headers.extend(id.as_deref().map(|id| ("x-ms-proposed-lease-id", id)));
        self.lease("acquire", &headers).await
    }

    async fn with_id(&self, action: &str, number: u32) -> Answer {
        self.lease(action, &[("x-ms-lease-id", &id(number))]).await
    }

    async fn change(&self, from: u32, to: u32) -> Answer {
        let (from, to) = (id(from), id(to));
        let ids = [("x-ms-lease-id", &*from), ("x-ms-proposed-lease-id", &*to)];
        self.lease("change", &ids).await
    }

    async fn break_lease(&self, period: Option<&str>) -> Answer {
        let period = period.map(|period| ("x-ms-lease-break-period", period));
        self.lease("break", period.as_slice()).await
    }

    async fn bring_to(&self, state: &str) {
        if state == "available" {
            return;
        }
        let duration = if state == "infinite" { "-1" } else { "15" };
        self.acquire(Some(A), duration).await.assert(201);
        match state {
            "breaking" => self.break_lease(Some("60")).await.assert(202).clone(),
            "broken" => self.break_lease(Some("0")).await.assert(202).clone(),
            _ => return,
        };
    }

    async fn state(&self) -> Answer {
        let answer = match self.on {
            On::Blob => self.az.head(&self.target(""), &[]).await,
            On::Container => self.az.get(&self.target(""), &[]).await,
        };
        answer.assert(200);
        answer
    }

    async fn do_lease(&self, what: &str) -> Answer {
        match what {
            "acquire" => self.acquire(None, "15").await,
            "acquire A" => self.acquire(Some(A), "15").await,
            "acquire B" => self.acquire(Some(B), "15").await,
            "break" => self.break_lease(None).await,
            "break 0" => self.break_lease(Some("0")).await,
            "break 20" => self.break_lease(Some("20")).await,
            "change A B" => self.change(A, B).await,
            "change B A" => self.change(B, A).await,
            "change B C" => self.change(B, C).await,
            "renew A" => self.with_id("renew", A).await,
            "renew B" => self.with_id("renew", B).await,
            "release A" => self.with_id("release", A).await,
            _ => self.with_id("release", B).await,
        }
    }

    async fn do_use(&self, what: &str, number: Option<u32>) -> Answer {
        let id = number.map(id);
        let headers: Vec<_> = id
            .as_deref()
            .map(|id| ("x-ms-lease-id", id))
            .into_iter()
            .collect();
        match what {
            "put" => self.az.put_block(&self.path, &headers, b"two").await,
            "metadata" => self.az.put(&self.target("metadata"), &headers).await,
            "properties" => self.az.put(&self.target("properties"), &headers).await,
            "delete" => self.az.delete(&self.target(""), &headers).await,
            _ => self.az.get(&self.target(""), &headers).await,
        }
    }
}

const MISMATCH: (u16, &str) = (409, "LeaseIdMismatchWithLeaseOperation");

/// The result of an operation for each state of [`STATES`], and the following state if it changes.
const LEASE_TABLE: &str = "
acquire    | 201 leased | present       | present       | present       | 201 leased    | 201 leased
acquire A  | 201 leased | 201           | 201           | no-acquire    | 201 leased    | 201 leased
acquire B  | 201 leased | present       | present       | present       | 201 leased    | 201 leased
break      | absent     | 202 breaking  | 202 broken    | 202           | 202           | 202 broken
break 0    | absent     | 202 broken    | 202 broken    | 202 broken    | 202           | 202 broken
break 20   | absent     | 202 breaking  | 202 breaking  | 202           | 202           | 202 broken
change A B | absent     | 200           | 200           | no-change     | absent        | absent
change B A | absent     | 200           | 200           | mismatch      | absent        | absent
change B C | absent     | mismatch      | mismatch      | mismatch      | absent        | absent
renew A    | mismatch   | 200           | 200           | no-renew      | no-renew      | 200 leased
renew B    | mismatch   | mismatch      | mismatch      | mismatch      | mismatch      | mismatch
release A  | mismatch   | 200 available | 200 available | 200 available | 200 available | 200 available
release B  | mismatch   | mismatch      | mismatch      | mismatch      | mismatch      | mismatch
";

/// The status and the code of a result in the table.
fn outcome(result: &str) -> (u16, &'static str) {
    match result {
        "present" => (409, "LeaseAlreadyPresent"),
        "absent" => (409, "LeaseNotPresentWithLeaseOperation"),
        "mismatch" => MISMATCH,
        "no-acquire" => (409, "LeaseIsBreakingAndCannotBeAcquired"),
        "no-change" => (409, "LeaseIsBreakingAndCannotBeChanged"),
        "no-renew" => (409, "LeaseIsBrokenAndCannotBeRenewed"),
        done => (done.parse().unwrap(), ""),
    }
}

fn shown(state: &'static str) -> &'static str {
    match state {
        "fixed" | "infinite" => "leased",
        state => state,
    }
}

/// Waits until the lease has expired.
async fn expired(thing: &Thing) {
    tokio::time::sleep(Duration::from_secs(15)).await;
    let patience = tokio::time::Instant::now() + Duration::from_secs(15);
    while thing.state().await.header("x-ms-lease-state") != "expired" {
        assert!(tokio::time::Instant::now() < patience, "it does not expire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn prepared(az: Az, on: On, number: usize, state: &str) -> Thing {
    let thing = Thing::make(&az, on, number).await;
    thing.bring_to(state).await;
    if state == "expired" {
        expired(&thing).await;
    }
    thing
}

async fn all(mut cells: JoinSet<()>) {
    let mut count = 0;
    while let Some(cell) = cells.join_next().await {
        cell.expect("a cell as documented");
        count += 1;
    }
    assert!(count > 50, "{count} cells");
}

#[tokio::test]
async fn every_lease_operation_does_in_every_state_what_azure_documents() {
    let (_running, az) = in_memory();
    az.put("/cells?restype=container", &[]).await.assert(201);
    let mut cells = JoinSet::new();
    let mut number = 1000;
    for on in [On::Blob, On::Container] {
        for row in LEASE_TABLE.trim().lines() {
            let mut row = row.split('|').map(str::trim);
            let what = row.next().unwrap();
            for (state, cell) in STATES.into_iter().zip(row) {
                number += 1;
                let az = az.clone();
                let (result, then) = cell.split_once(' ').unwrap_or((cell, ""));
                let expected = outcome(result);
                cells.spawn(async move {
                    let thing = prepared(az, on, number, state).await;
                    let before = thing.state().await;
                    let answer = thing.do_lease(what).await;
                    let cell = format!("{what} on a {on:?} that is {state}");
                    assert_eq!(answer.outcome(), expected, "{cell}");
                    let after = thing.state().await;
                    let then = if then.is_empty() { shown(state) } else { then };
                    assert_eq!(after.header("x-ms-lease-state"), then, "{cell}");
                    let locked = matches!(then, "leased" | "breaking");
                    let status = if locked { "locked" } else { "unlocked" };
                    assert_eq!(after.header("x-ms-lease-status"), status, "{cell}");
                    for kept in ["etag", "last-modified"] {
                        assert_eq!(after.header(kept), before.header(kept), "{cell}");
                        if answer.status < 300 {
                            assert_eq!(answer.header(kept), before.header(kept), "{cell}");
                        }
                    }
                    let tells_id = ["acquire", "renew", "change"]
                        .iter()
                        .any(|w| what.starts_with(w));
                    let has_id = !answer.header("x-ms-lease-id").is_empty();
                    assert_eq!(has_id, answer.status < 300 && tells_id, "{cell}");
                    let has_time = !answer.header("x-ms-lease-time").is_empty();
                    assert_eq!(has_time, answer.status == 202, "{cell}");
                });
            }
        }
    }
    all(cells).await;
}

#[tokio::test]
async fn every_access_does_in_every_state_what_azure_documents() {
    let (_running, az) = in_memory();
    az.put("/cells?restype=container", &[]).await.assert(201);
    let mut cells = JoinSet::new();
    let mut number = 1000;
    let uses = [
        (On::Blob, "put", 201),
        (On::Blob, "metadata", 200),
        (On::Blob, "properties", 200),
        (On::Blob, "delete", 202),
        (On::Blob, "read", 200),
        (On::Container, "delete", 202),
        (On::Container, "metadata", 200),
        (On::Container, "read", 200),
    ];
    for (on, what, done) in uses {
        for given in [Some(A), Some(B), None] {
            for state in STATES {
                number += 1;
                let az = az.clone();
                cells.spawn(async move {
                    let thing = prepared(az, on, number, state).await;
                    let answer = thing.do_use(what, given).await;
                    // The lease of a container protects the container only from deletion.
                    let reads = what == "read" || (on == On::Container && what == "metadata");
                    let held = matches!(state, "fixed" | "infinite" | "breaking");
                    let expected = match given {
                        Some(A) if held => (done, String::new()),
                        Some(_) if held => (412, format!("LeaseIdMismatchWith{on:?}Operation")),
                        Some(A) if state != "available" => (412, "LeaseLost".into()),
                        Some(_) => (412, format!("LeaseNotPresentWith{on:?}Operation")),
                        None if held && !reads => (412, "LeaseIdMissing".into()),
                        None => (done, String::new()),
                    };
                    let cell = format!("{what} of a {on:?} that is {state} with {given:?}");
                    assert_eq!(answer.outcome(), (expected.0, &*expected.1), "{cell}");
                    if answer.status < 300 && what == "delete" {
                        let gone = thing.az.get(&thing.target(""), &[]).await;
                        gone.assert_refused(404, &format!("{on:?}NotFound"));
                        return;
                    }
                    // A change of the resource also ends an expired or broken lease.
                    let cleared = answer.status < 300 && !reads && !held;
                    let then = if cleared { "available" } else { shown(state) };
                    assert_eq!(
                        thing.state().await.header("x-ms-lease-state"),
                        then,
                        "{cell}"
                    );
                    if cleared {
                        let renewed = thing.with_id("renew", A).await;
                        assert_eq!(renewed.outcome(), MISMATCH, "{cell}");
                    }
                });
            }
        }
    }
    all(cells).await;
}
