//! The search for the route of a request, by its method and by its path.

use std::collections::BTreeMap;
use std::fs;

use crate::common::wire::{Reply, Wire};
use crate::common::{Api, assert_ok, in_memory};
use tenure_server::access::Access;
use tenure_server::{Server, Store, StoreConfig};

/// A request; its status, its code, or with status 405 the methods of its path, and the label of its
/// route in a store without access control; its status without a credential in a store with access
/// control.
type Row = (&'static str, u16, &'static str, &'static str, u16);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("GET /", 200, "", "page", 200),
    ("HEAD /", 200, "", "page", 200),
    ("POST /", 405, "GET,HEAD", "other", 401),
    ("GET /?x=1", 200, "", "page", 200),
    ("GET /ui/app.js", 200, "", "page_file", 200),
    ("GET /ui/none", 404, "unknown_route", "page_file", 404),
    ("GET /ui/", 404, "unknown_route", "other", 404),
    ("GET /ui/%ff", 404, "unknown_route", "page_file", 404),
    ("GET /ui/app%2ejs", 200, "", "page_file", 200),
    ("GET /livez", 200, "", "livez", 200),
    ("HEAD /livez", 200, "", "livez", 200),
    ("OPTIONS /livez", 405, "GET,HEAD", "other", 401),
    ("GET /livez/", 404, "unknown_route", "other", 401),
    ("GET /livez?x=1", 400, "unknown_field", "livez", 400),
    ("GET /live%7a", 404, "unknown_route", "other", 401),
    ("BREW /livez", 405, "GET,HEAD", "other", 401),
    ("CONNECT localhost:1", 400, "malformed", "other", 400),
    ("GET /metrics", 200, "", "metrics", 401),
    ("HEAD /metrics", 200, "", "metrics", 401),
    ("GET /openapi.json", 200, "", "openapi", 200),
    ("POST /v1/session", 400, "malformed", "session", 401),
    ("DELETE /v1/session", 400, "malformed", "session_end", 401),
    ("GET /v1/session", 405, "POST,DELETE", "other", 401),
    ("GET /v1/nothing", 404, "unknown_route", "other", 401),
    ("HEAD /v1/nothing", 404, "", "other", 401),
    ("GET /v1/namespaces", 200, "", "namespaces", 401),
    ("GET /v1/namespaces?x=1", 400, "unknown_field", "namespaces", 401),
    ("GET /v1/namespaces/ns/leases", 200, "", "list", 401),
    ("POST /v1/namespaces/ns/leases", 405, "GET,HEAD", "other", 401),
    ("GET /v1/namespaces//leases", 400, "invalid_name", "list", 401),
    ("GET /v1/namespaces/ns/leases/", 404, "unknown_route", "other", 401),
    ("GET /v1/namespaces/%6es/leases", 200, "", "list", 401),
    ("GET /v1/namespaces/a%2fb/leases", 400, "invalid_name", "list", 401),
    ("GET /v1/namespaces/%ff/leases", 400, "invalid_name", "list", 401),
    ("GET /v1/namespaces/a%/leases", 400, "invalid_name", "list", 401),
    ("GET /v1/namespaces/ns/leases?limit=0", 422, "out_of_range", "list", 401),
    ("GET /v1/namespaces/ns/leases/job", 200, "", "view", 401),
    ("HEAD /v1/namespaces/ns/leases/job", 200, "", "view", 401),
    ("GET /v1/namespaces/ns/leases/j%6fb", 200, "", "view", 401),
    ("PATCH /v1/namespaces/ns/leases/job", 405, "GET,HEAD,DELETE", "other", 401),
    ("GET /v1/namespaces/ns/leases/none", 404, "unknown_lease", "view", 401),
    ("HEAD /v1/namespaces/ns/leases/none", 404, "", "view", 401),
    ("GET /v1/namespaces/ns/leases/%ff", 400, "invalid_name", "view", 401),
    ("GET /v1/namespaces/ns/leases/a%20b?x=1", 400, "invalid_name", "view", 401),
    ("GET /v1/namespaces/ns/leases/job?x=1", 400, "unknown_field", "view", 401),
    ("DELETE /v1/namespaces/ns/leases/a%20b?x=1", 400, "invalid_name", "delete", 401),
    ("DELETE /v1/namespaces/ns/leases/job?x=1", 400, "unknown_field", "delete", 401),
    ("DELETE /v1/namespaces/ns/leases/job?", 409, "lease_held", "delete", 401),
    ("HEAD /v1/namespaces/ns/leases/events", 200, "", "view", 401),
    ("GET /v1/namespaces/ns/leases/job/renew", 405, "POST", "other", 401),
    ("POST /v1/namespaces/ns/leases/job/renew", 400, "malformed", "renew", 401),
    ("POST /v1/namespaces/ns/leases/job/renew?x=1", 400, "unknown_field", "renew", 401),
    ("POST /v1/namespaces/ns/leases/a%20b/renew", 400, "invalid_name", "renew", 401),
    ("POST /v1/namespaces/ns/leases/%ff/renew", 400, "invalid_name", "renew", 401),
    ("POST /v1/namespaces/ns/leases/job/renew/", 404, "unknown_route", "other", 401),
    ("POST /v1/namespaces/ns/leases/a/b/renew", 404, "unknown_route", "other", 401),
    ("POST /v1/namespaces/ns/leases//renew", 400, "invalid_name", "renew", 401),
    ("POST /v1/namespaces/ns/leases/job/%72enew", 404, "unknown_route", "other", 401),
    ("POST /v1/namespaces/ns/renew", 400, "malformed", "renew_many", 401),
    ("POST /v1/namespaces/a%20b/renew", 400, "invalid_name", "renew_many", 401),
    ("PUT /v1/namespaces/ns/leases/job/metadata", 400, "malformed", "metadata", 401),
    ("GET /v1/namespaces/ns/leases/job/history", 200, "", "history", 401),
    ("POST /v1/namespaces/ns/leases/job/acquire?x=1", 400, "unknown_field", "acquire", 401),
];

/// Sends a request with an empty object as its body.
async fn reply(api: &Api, line: &str) -> Reply {
    let mut wire = Wire::connect(api).await;
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    wire.send(request).await.unwrap();
    let (method, _) = line.split_once(' ').unwrap();
    wire.reply_to(method).await.expect(line)
}

#[tokio::test]
async fn each_method_and_path_has_its_answer_and_its_label() {
    let open = in_memory().api;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.toml");
    fs::write(&file, "version = 1\n").unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let guarded = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    let guarded = crate::common::served(guarded.with_access(Access::open(file).unwrap())).api;
    assert_ok(&open.acquire("job", 1).await);
    let mut counts = BTreeMap::from([(("acquire", 200), 1)]);
    for (line, status, told, label, without_credential) in ROWS {
        let of_get = match line.strip_prefix("HEAD ") {
            Some(path) if !path.ends_with("/events") => {
                *counts.entry((label, *status)).or_default() += 1;
                Some(reply(&open, &format!("GET {path}")).await)
            }
            _ => None,
        };
        let found = reply(&open, line).await;
        assert_eq!(found.answer.0, *status, "{line}: {found:?}");
        match status {
            405 => assert!(found.has(&format!("allow: {told}")), "{line}: {found:?}"),
            _ => assert_eq!(
                found.answer.1["code"].as_str().unwrap_or(""),
                *told,
                "{line}"
            ),
        }
        // An answer to HEAD has the headers of the answer to GET.
        if let Some(of_get) = of_get.filter(|_| *label != "metrics") {
            let length = |reply: &Reply| {
                let mut lines = reply.head.lines();
                lines
                    .find(|line| line.starts_with("content-length: "))
                    .map(str::to_owned)
            };
            assert!(length(&found).is_some(), "{line}: {found:?}");
            assert_eq!(length(&found), length(&of_get), "{line}");
        }
        *counts.entry((label, *status)).or_default() += 1;
        let status = reply(&guarded, line).await.answer.0;
        assert_eq!(status, *without_credential, "{line} without a credential");
    }
    let metrics = open.request("GET".parse().unwrap(), "/metrics").send();
    let metrics = metrics.await.unwrap().text().await.unwrap();
    for ((label, status), count) in counts {
        let name = "tenure_http_requests_total";
        let line = format!("{name}{{route=\"{label}\",status=\"{status}\"}} {count}");
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in\n{metrics}"
        );
    }
}
