//! An admission webhook that refuses, hangs, or changes objects.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::Bench;

/// What a webhook does to each write of a Lease in its namespace.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    Allow,
    /// Refuses with this status.
    Refuse(u16),
    /// Never answers.
    Hang,
    /// Changes the object by this JSON patch.
    Change(Value),
}

/// A webhook of one namespace. It does nothing from its drop on.
pub(crate) struct Hook<'a> {
    bench: &'a Bench,
    does: Arc<Mutex<Does>>,
}

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

impl<'a> Hook<'a> {
    pub(crate) fn start(bench: &'a Bench) -> Self {
        let does = Arc::new(Mutex::new(Does::Allow));
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let runtime = bench.server.runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = does.clone();
        runtime.spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(acceptor.clone(), connection, shared.clone()));
            }
        });
        let namespace = &bench.place.namespace;
        let hook = json!({
            "name": "hook.tests.example", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30, "failurePolicy": "Fail",
            "clientConfig": { "url": format!("https://{address}/"),
                "caBundle": STANDARD.encode(made.cert.pem()) },
            "rules": [{ "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"],
                "resources": ["leases"], "operations": ["CREATE", "UPDATE"] }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
        });
        let object = json!({ "metadata": { "name": namespace }, "webhooks": [hook] });
        bench.server.create(HOOKS, &object);
        Self { bench, does }
    }

    pub(crate) fn set(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }
}

impl Drop for Hook<'_> {
    fn drop(&mut self) {
        let path = format!("{HOOKS}/{}", self.bench.place.namespace);
        self.bench.server.try_admin(Method::DELETE, &path, None);
    }
}

/// Answers one request, and closes the connection.
async fn answer(
    acceptor: TlsAcceptor,
    connection: TcpStream,
    does: Arc<Mutex<Does>>,
) -> Option<()> {
    let mut stream = acceptor.accept(connection).await.ok()?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 << 10]);
    let body = loop {
        let read = stream.read(&mut chunk).await.ok().filter(|it| *it > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head.split_once("content-length: ").map_or("0", |it| it.1);
        let length: usize = length.lines().next()?.trim().parse().ok()?;
        if body.len() >= length {
            break body.to_owned();
        }
    };
    let review: Value = serde_json::from_str(&body).ok()?;
    let does = does.lock().unwrap().clone();
    let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
    match does {
        Does::Allow => {}
        Does::Refuse(code) => {
            response["allowed"] = false.into();
            response["status"] = json!({ "code": code, "message": "planted refusal" });
        }
        Does::Hang => std::future::pending().await,
        Does::Change(patch) => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
        }
    }
    let kind = ("admission.k8s.io/v1", "AdmissionReview");
    let body = json!({ "apiVersion": kind.0, "kind": kind.1, "response": response }).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
