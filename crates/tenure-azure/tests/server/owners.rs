//! Tests of the owners of leases that are acquired through the protocol.

use reqwest::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use tenure_azure::server::Azure;
use tenure_server::access::{Access, Secret};
use tenure_server::{Server, Store, StoreConfig};

use crate::client::{ACCOUNT, Answer as AzureAnswer, Az, KEY, development};
use crate::common::{Answer, Running, answer, id, served};

/// A store with access control and a data directory on disk.
struct Guarded {
    running: Running,
    az: Az,
    access: Access,
    token: Secret,
    folder: TempDir,
}

const LEASE: &str = "/leases/leader?comp=lease";

impl Guarded {
    async fn start() -> Self {
        let (folder, token) = (TempDir::new().unwrap(), Secret::generate());
        let path = folder.path().join("access.toml");
        let text = format!(
            "version = 1\n[[principal]]\nname = \"worker\"\n\
             grants = [{{ role = \"admin\", namespace = \"*\" }}]\n\
             [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
            token.id(),
            token.hash()
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let access = Access::open(path).unwrap();
        let (running, az) = serve(&folder, &access);
        az.put("/leases?restype=container", &[]).await.assert(201);
        az.put_block("/leases/leader", &[], b"").await.assert(201);
        Self {
            running,
            az,
            access,
            token,
            folder,
        }
    }

    async fn restart(self) -> Self {
        self.running.stop().await.unwrap();
        let (running, az) = serve(&self.folder, &self.access);
        Self {
            running,
            az,
            ..self
        }
    }

    /// Sends a request of the principal `worker` for the lease of the blob.
    async fn native(&self, method: Method, verb: &str, body: Value) -> Answer {
        let path = format!("/v1/namespaces/{ACCOUNT}.leases/leases/leader{verb}");
        let request = self.running.api.request(method.clone(), &path);
        let request = request.bearer_auth(self.token.reveal());
        let request = match method {
            Method::GET => request,
            _ => request.json(&body),
        };
        answer(request.send().await.unwrap()).await
    }

    async fn view(&self) -> Value {
        self.native(Method::GET, "", Value::Null).await.1
    }

    async fn azure(&self, action: &str, number: u32) -> AzureAnswer {
        let (held, proposed) = (id(number), id(9));
        let mut headers = vec![("x-ms-lease-action", action)];
        match action {
            "acquire" => headers.extend([
                ("x-ms-proposed-lease-id", &*held),
                ("x-ms-lease-duration", "60"),
            ]),
            "change" => headers.extend([
                ("x-ms-lease-id", &*held),
                ("x-ms-proposed-lease-id", &*proposed),
            ]),
            _ => headers.push(("x-ms-lease-id", &*held)),
        }
        self.az.put(LEASE, &headers).await
    }
}

fn serve(folder: &TempDir, access: &Access) -> (Running, Az) {
    let store = Store::open(StoreConfig::folder(folder.path().join("data"))).unwrap();
    let azure = Azure::open(&store, development()).unwrap();
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    let running = served(server.with_access(access.clone()).with_protocol(azure));
    let az = Az {
        origin: running.api.origin.clone(),
        http: running.api.http.clone(),
        account: ACCOUNT.into(),
        key: KEY.into(),
    };
    (running, az)
}

/// Returns all native requests that need a lease id, with this lease id.
fn with_lease_id(number: u32) -> [(Method, &'static str, Value); 6] {
    let lease_id = id(number);
    [
        (Method::POST, "/renew", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "/change",
            json!({"lease_id": lease_id, "proposed_lease_id": id(9)}),
        ),
        (
            Method::PUT,
            "/metadata",
            json!({"lease_id": lease_id, "metadata": {}}),
        ),
        (
            Method::POST,
            "/handover",
            json!({"lease_id": lease_id, "to": "c2", "within_ms": 1_000, "force": true}),
        ),
        (Method::POST, "/release", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "/acquire",
            json!({"lease_id": lease_id, "holder": "c1", "duration_ms": 60_000}),
        ),
    ]
}

#[tokio::test]
async fn a_lease_of_an_account_is_of_no_use_to_a_native_principal_with_its_lease_id() {
    let mut guarded = Guarded::start().await;
    guarded.azure("acquire", 1).await.assert(201);
    // The first iteration runs in the process that granted the lease, and the second one after a
    // restart.
    for _ in 0..2 {
        let before = guarded.view().await;
        assert_eq!(before["owner"], format!("azure:{ACCOUNT}"), "{before}");
        for (stolen, wrong) in with_lease_id(1).into_iter().zip(with_lease_id(7)) {
            let mut answers = Vec::new();
            for (method, verb, body) in [stolen, wrong] {
                let (status, mut problem) = guarded.native(method, verb, body).await;
                assert_eq!(status, 409, "{verb}: {problem}");
                problem.as_object_mut().unwrap().remove("remaining_ms");
                answers.push(problem);
            }
            assert_eq!(answers[0], answers[1]);
        }
        let after = guarded.view().await;
        assert_eq!(
            (&after["epoch"], &after["revision"]),
            (&before["epoch"], &before["revision"])
        );
        guarded.azure("renew", 1).await.assert(200);
        guarded = guarded.restart().await;
    }
    let (_, history) = guarded.native(Method::GET, "/history", Value::Null).await;
    assert_eq!(
        history["terms"][0]["owner"],
        format!("azure:{ACCOUNT}"),
        "{history}"
    );
    // An operator ends the term without its lease id.
    let broken = guarded.native(Method::POST, "/break", json!({"break_period_ms": 0}));
    assert_eq!(broken.await.0, 200);
}

#[tokio::test]
async fn a_lease_of_a_native_principal_is_of_no_use_to_an_account_with_its_lease_id() {
    let mut guarded = Guarded::start().await;
    let acquire = json!({"lease_id": id(1), "holder": "c1", "duration_ms": 60_000});
    let granted = guarded.native(Method::POST, "/acquire", acquire).await;
    assert_eq!(granted.0, 200, "{}", granted.1);
    for _ in 0..2 {
        let before = guarded.view().await;
        assert_eq!(before["owner"], "worker", "{before}");
        for action in ["acquire", "renew", "change", "release"] {
            let (stolen, wrong) = (
                guarded.azure(action, 1).await,
                guarded.azure(action, 7).await,
            );
            assert_eq!(stolen.assert(409).outcome(), wrong.outcome(), "{action}");
        }
        let stolen = id(1);
        let stolen = [("x-ms-lease-id", &*stolen)];
        let mismatch = "LeaseIdMismatchWithBlobOperation";
        let written = guarded.az.put_block("/leases/leader", &stolen, b"x").await;
        written.assert_refused(412, mismatch);
        let read = guarded.az.get("/leases/leader", &stolen).await;
        read.assert_refused(412, mismatch);
        let deleted = guarded.az.delete("/leases/leader", &stolen).await;
        deleted.assert_refused(412, mismatch);
        let after = guarded.view().await;
        assert_eq!(
            (&after["epoch"], &after["revision"]),
            (&before["epoch"], &before["revision"])
        );
        guarded = guarded.restart().await;
    }
    let renewed = guarded.native(Method::POST, "/renew", json!({"lease_id": id(1)}));
    assert_eq!(renewed.await.0, 200);
}

#[tokio::test]
async fn a_native_request_that_waits_for_a_lease_of_an_account_owns_the_next_term() {
    let guarded = Guarded::start().await;
    guarded.azure("acquire", 1).await.assert(201);
    let acquire = json!({"lease_id": id(2), "holder": "c2", "duration_ms": 60_000,
        "wait_ms": 60_000});
    let waiting = guarded.native(Method::POST, "/acquire", acquire);
    let released = async {
        while guarded.view().await["waiters"] != 1 {
            tokio::task::yield_now().await;
        }
        guarded.azure("release", 1).await.assert(200);
    };
    let (granted, ()) = tokio::join!(waiting, released);
    assert_eq!((granted.0, &granted.1["owner"]), (200, &json!("worker")));
    guarded
        .azure("renew", 2)
        .await
        .assert_refused(409, "LeaseIdMismatchWithLeaseOperation");
}

#[tokio::test]
async fn a_blob_and_its_lease_are_deleted_by_the_account_that_holds_it() {
    let guarded = Guarded::start().await;
    guarded.azure("acquire", 1).await.assert(201);
    let held = id(1);
    let held = [("x-ms-lease-id", &*held)];
    guarded
        .az
        .put_block("/leases/leader", &held, b"x")
        .await
        .assert(201);
    guarded.az.delete("/leases/leader", &held).await.assert(202);
    let (status, _) = guarded.native(Method::GET, "", Value::Null).await;
    assert_eq!(status, 404);
}
