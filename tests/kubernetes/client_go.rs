//! A candidate with the rules of Kubernetes' client-go (`tools/leaderelection`), which is a Go
//! library and can't run here. It reads its Lease as `LeaseLock` does, keeps annotations that it
//! does not know, and releases at its end (`ReleaseOnCancel`) as client-go 0.34 to 0.37 do.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tenure_tests::receiver::{Link, now};
use tokio::sync::watch;

use super::{LEASE, NAMESPACE};

/// The interval between two attempts.
const RETRY_PERIOD: Duration = Duration::from_millis(300);

pub(crate) struct ClientGo {
    http: reqwest::Client,
    url: String,
    identity: String,
    lease_duration: Duration,
    renew_deadline: Duration,
    /// The object of the last answer.
    lease: Value,
    observed: Option<Value>,
    observed_at: Instant,
}

impl ClientGo {
    pub(crate) fn new(api: SocketAddr, identity: &str, lease_duration: Duration) -> Self {
        let http = tenure_tests::client::plain_http();
        Self {
            http: http.timeout(Duration::from_secs(1)).build().unwrap(),
            url: format!("http://{api}/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
            identity: identity.into(),
            lease_duration,
            // The default of client-go is 10 of 15 seconds.
            renew_deadline: lease_duration * 2 / 3,
            lease: Value::Null,
            observed: None,
            observed_at: Instant::now(),
        }
    }

    /// Acquires the lease once, leads for this time or until the renew deadline, and releases.
    pub(crate) async fn lead_once(
        mut self,
        receiver: SocketAddr,
        time: Duration,
        mut stop: watch::Receiver<bool>,
    ) {
        while !self.try_acquire_or_renew().await {
            tokio::select! {
                () = tokio::time::sleep(RETRY_PERIOD) => {}
                () = stopped(&mut stop) => return,
            }
        }
        let (leads, task) = watch::channel(true);
        let identity = self.identity.clone();
        let acting = std::thread::spawn(move || act(receiver, &identity, &task));
        let until = Instant::now() + time;
        let mut renewed = Instant::now();
        while Instant::now() < until && renewed.elapsed() < self.renew_deadline {
            tokio::time::sleep(RETRY_PERIOD).await;
            let left = self.renew_deadline.saturating_sub(renewed.elapsed());
            let renewal = tokio::time::timeout(left, self.try_acquire_or_renew());
            if matches!(renewal.await, Ok(true)) {
                renewed = Instant::now();
            }
        }
        // The task ends before the release, as the documentation of ReleaseOnCancel requires.
        leads.send_replace(false);
        tokio::task::spawn_blocking(move || acting.join().unwrap())
            .await
            .unwrap();
        self.release().await;
    }

    /// Releases the object. The decision follows from the record that this candidate saw last, and
    /// the write replaces the version that it reads now. So it can empty the object of another holder.
    async fn release(&mut self) {
        let read = self.http.get(format!("{}/{LEASE}", self.url));
        let Ok(read) = read.timeout(self.renew_deadline).send().await else {
            return;
        };
        if !read.status().is_success() || !self.is_leader() {
            return;
        }
        let Ok(lease) = read.json::<Value>().await else {
            return;
        };
        let time = micro_time();
        let transitions = lease["spec"]["leaseTransitions"].clone();
        self.lease = lease;
        let _ = self
            .update(json!({ "holderIdentity": "", "leaseDurationSeconds": 1,
                "acquireTime": time, "renewTime": time, "leaseTransitions": transitions }))
            .await;
    }

    async fn try_acquire_or_renew(&mut self) -> bool {
        let time = micro_time();
        let mut record = json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.lease_duration.as_secs(),
            "acquireTime": time, "renewTime": time, "leaseTransitions": 0,
        });
        // The fast path of the leader: the record that it observed last is the current version.
        if self.is_leader() && self.is_valid() {
            let old = self.observed_spec();
            record["acquireTime"] = old["acquireTime"].clone();
            record["leaseTransitions"] = old["leaseTransitions"].clone();
            if self.update(record.clone()).await {
                return true;
            }
        }
        let read = self.http.get(format!("{}/{LEASE}", self.url)).send().await;
        let Ok(read) = read else { return false };
        if read.status() == StatusCode::NOT_FOUND {
            let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": LEASE, "namespace": NAMESPACE }, "spec": record });
            let created = self.http.post(&self.url).json(&lease).send().await;
            return self.observe_written(created.ok()).await;
        }
        if !read.status().is_success() {
            return false;
        }
        let Ok(lease) = read.json::<Value>().await else {
            return false;
        };
        if self.observed.as_ref() != Some(&lease["spec"]) {
            self.observed = Some(lease["spec"].clone());
            self.observed_at = Instant::now();
        }
        self.lease = lease;
        let old = self.observed_spec();
        let is_held = old["holderIdentity"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
        if is_held && self.is_valid() && !self.is_leader() {
            return false;
        }
        let transitions = old["leaseTransitions"].as_i64().unwrap_or(0);
        if self.is_leader() {
            record["acquireTime"] = old["acquireTime"].clone();
            record["leaseTransitions"] = transitions.into();
        } else {
            record["leaseTransitions"] = (transitions + 1).into();
        }
        self.update(record).await
    }

    async fn update(&mut self, record: Value) -> bool {
        let mut lease = self.lease.clone();
        lease["spec"] = record;
        let url = format!("{}/{LEASE}", self.url);
        let updated = self.http.put(url).json(&lease).send().await;
        self.observe_written(updated.ok()).await
    }

    async fn observe_written(&mut self, written: Option<reqwest::Response>) -> bool {
        let Some(written) = written.filter(|it| it.status().is_success()) else {
            return false;
        };
        let Ok(lease) = written.json::<Value>().await else {
            return false;
        };
        self.observed = Some(lease["spec"].clone());
        self.observed_at = Instant::now();
        self.lease = lease;
        true
    }

    fn observed_spec(&self) -> Value {
        self.observed.clone().unwrap_or_default()
    }

    fn is_leader(&self) -> bool {
        self.observed_spec()["holderIdentity"] == self.identity.as_str()
    }

    fn is_valid(&self) -> bool {
        let seconds = self.observed_spec()["leaseDurationSeconds"].as_u64();
        self.observed_at.elapsed() < Duration::from_secs(seconds.unwrap_or(0))
    }
}

/// Acts at the receiver until the term ends. client-go has no epoch, so the wall clock in
/// milliseconds stands for it. Epochs of this project are that of the server in whole seconds, or
/// one more than the last epoch: so the term before this one has a smaller number, and the term
/// after it has a greater one, as it begins more than a second later.
fn act(receiver: SocketAddr, identity: &str, leads: &watch::Receiver<bool>) {
    let mut link = Link::connect(receiver, identity);
    let epoch = wall().as_millis();
    loop {
        let before = now();
        if !*leads.borrow() {
            return;
        }
        link.act(u64::try_from(epoch).unwrap(), before, now());
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn wall() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}

fn micro_time() -> String {
    let time = wall();
    let seconds = time.as_secs();
    // The date does not matter to any candidate, as long as it changes: the day is that of 1970.
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    let (seconds, micros) = (seconds % 60, time.subsec_micros());
    format!("1970-01-01T{hours:02}:{minutes:02}:{seconds:02}.{micros:06}Z")
}
