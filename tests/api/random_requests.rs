//! Random requests by schemathesis: no answer may differ from the description.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tokio::net::TcpListener;

use crate::{FOLDER, Store, assert_success, python};

/// Sends random requests to this store. The seed is fixed; `TENURE_API_SEED` sets another one, and
/// `TENURE_API_EXAMPLES` the number of requests of each kind.
fn schemathesis(bin: &Path, url: &str, token: &str, arguments: &[&str]) -> Output {
    let setting = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let folder = tempfile::tempdir().expect("a folder");
    let mut schemathesis = Command::new(bin.join("schemathesis"));
    schemathesis
        .args([
            "--config-file",
            &format!("{FOLDER}/schemathesis.toml"),
            "run",
        ])
        .arg(format!("{url}/openapi.json"))
        .args(["--seed", &setting("TENURE_API_SEED", "1")])
        .args(["--max-examples", &setting("TENURE_API_EXAMPLES", "10")])
        .args([
            "--checks",
            "all",
            "--generation-database",
            "none",
            "--no-color",
        ])
        .args(arguments)
        .env("SCHEMATHESIS_HOOKS", format!("{FOLDER}/hooks.py"))
        .env("TENURE_TOKEN", token)
        .current_dir(folder.path());
    schemathesis.output().expect("schemathesis runs")
}

#[test]
fn random_requests_get_no_answer_outside_of_the_description() {
    let test = "random_requests_get_no_answer_outside_of_the_description";
    let Some(bin) = python(test) else { return };
    let store = Store::start();
    let phases = ["--phases", "examples,coverage,fuzzing,stateful"];
    let ran = schemathesis(&bin, &store.url(), &store.token, &phases);
    let text = assert_success(&ran);
    // A warning about leases that random requests did not find is no issue.
    assert!(
        text.contains("✅ Stateful") && !text.contains('❌'),
        "{text}"
    );
}

/// A proxy that forges answers of the store.
struct Forger {
    url: String,
    token: String,
    client: reqwest::Client,
}

impl Forger {
    async fn forward(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().expect("a path").as_str();
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        let url = format!("{}{path}", self.url);
        let mut headers = head.headers;
        if path == "/v1/access" {
            let token = format!("Bearer {}", self.token);
            headers.insert("authorization", token.parse().expect("a header"));
        }
        let sent = self.client.request(head.method, url).headers(headers);
        let answer = sent.body(body).send().await.expect("an answer");
        let (mut parts, body) = axum::http::Response::from(answer).into_parts();
        parts.headers.remove("transfer-encoding");
        let is_success = parts.status.is_success();
        match path {
            "/v1/limits" if is_success => parts.status = StatusCode::ACCEPTED,
            "/v1/whoami" if is_success => parts.status = StatusCode::INTERNAL_SERVER_ERROR,
            "/readyz" => {
                let html = "text/html".parse().expect("a header");
                parts.headers.insert("content-type", html);
            }
            _ => {}
        }
        Response::from_parts(parts, Body::new(body))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_answers_are_found() {
    let Some(bin) = python("forged_answers_are_found") else {
        return;
    };
    let store = Store::start();
    let forger = Arc::new(Forger {
        url: store.url(),
        token: store.token.clone(),
        client: tenure_tests::client::plain_http()
            .build()
            .expect("a client"),
    });
    let forward =
        async |State(forger): State<Arc<Forger>>, request: Request| forger.forward(request).await;
    let router = Router::new().fallback(forward).with_state(forger);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let token = store.token.clone();
    let ran = tokio::task::spawn_blocking(move || {
        let operations = ["limits", "whoami", "readyz", "access", "livez"];
        let mut arguments = vec!["--phases", "fuzzing", "--continue-on-failure"];
        arguments.extend(
            operations
                .into_iter()
                .flat_map(|id| ["--include-operation-id", id]),
        );
        schemathesis(&bin, &url, &token, &arguments)
    });
    let ran = ran.await.expect("schemathesis ends");
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let text = String::from_utf8_lossy(&ran.stdout);
    for (operation, finding) in [
        ("GET /v1/limits", "Undocumented status code"),
        ("GET /v1/whoami", "Server error"),
        ("GET /readyz", "Undocumented Content-Type"),
        (
            "GET /v1/access",
            "API accepts requests without authentication",
        ),
    ] {
        let found = text.split("____ ").find(|part| part.starts_with(operation));
        let found = found.unwrap_or_else(|| panic!("{operation} has no finding: {text}"));
        assert!(found.contains(finding), "{operation}: {text}");
    }
    assert!(!text.contains("____ GET /livez"), "{text}");
}
