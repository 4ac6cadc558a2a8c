//! All that the attackers do.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{Act, NUMBER, Target};
use crate::client::id;
use crate::wire::{bearer, percent, request};

/// The account of emulators, whose key is public.
pub const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The requests of a principal with a right in a namespace of its own.
pub(super) fn of_candidate(target: &Target) -> Vec<Act> {
    let (token, sas) = (bearer(&target.token), sas());
    let get = |path: &str| request("GET", path, &token, None);
    let post = |path: &str, body: &str| request("POST", path, &token, Some(body));
    let azure = |path: &str| request("GET", &format!("/{ACCOUNT}{path}&{sas}"), "", None);
    let leases = "/v1/namespaces/other/leases";
    let batch: Vec<_> = (0..target.stored.min(1_000))
        .map(|number| json!({"lease": format!("l{number}"), "lease_id": id(number)}))
        .collect();
    let batch = post(
        "/v1/namespaces/other/renew",
        &json!({ "leases": batch }).to_string(),
    );
    let acquire = |lease: &str, lease_id: &str, wait: u64| {
        let body = json!({"lease_id": lease_id, "holder": "c", "duration_ms": 2_000,
            "wait_ms": wait, "metadata": {"k": "x".repeat(4_000)}});
        post(&format!("{leases}/{lease}/acquire"), &body.to_string())
    };
    let fresh = format!("00000000-0000-4000-8000-{NUMBER}");
    let release = json!({"lease_id": fresh, "reason": "r".repeat(500)}).to_string();
    let churn = acquire("churn", &fresh, 0) + &post(&format!("{leases}/churn/release"), &release);
    let list = get(&format!("{leases}?limit=1000"));
    let overview = get("/v1/overview");
    let history = get(&format!("{leases}/churn/history"));
    let azure_list = azure("/stored?restype=container&comp=list&include=metadata&maxresults=5000");
    let stream = request(
        "GET",
        "/v1/events?renewed=true",
        &format!("{token}accept: text/event-stream\r\n"),
        None,
    );
    let poll = get(&format!("{leases}/l0?after=9007199254740991&wait_ms=60000"));
    let half = |length: usize| {
        let body = "x".repeat(length);
        let whole = post(&format!("{leases}/l0/acquire"), &body);
        whole[..whole.len() - 1].to_owned()
    };
    let upload = format!("/{ACCOUNT}/stored/upload?{sas}");
    let blob = "x-ms-blob-type: BlockBlob\r\n";
    let upload = request("PUT", &upload, blob, Some(&"x".repeat(1 << 20)));
    let mut acts = vec![
        Act::Ask("list", list.clone()),
        Act::Deaf("list, unread", list.clone()),
        Act::Sip("list, sipped", list),
        Act::Ask("overview", overview.clone()),
        Act::Deaf("overview, unread", overview),
        Act::Ask("history", history.clone()),
        Act::Deaf("history, unread", history),
        Act::Ask("waiters", get(&format!("{leases}/l0/waiters"))),
        Act::Ask("namespaces", get("/v1/namespaces")),
        Act::Ask("batch", batch.clone()),
        Act::Deaf("batch, unread", batch.clone()),
        Act::Sip("batch, sipped", batch),
        Act::Ask("acquire and release", churn.clone()),
        Act::Deaf("acquire and release, unread", churn),
        Act::Deaf("wait", acquire("l0", &id(1 << 41), 60_000)),
        Act::Deaf("long poll", poll),
        Act::Deaf("stream, unread", stream.clone()),
        Act::Sip("stream, sipped", stream),
        Act::Ask("code", post("/v1/session/code", "")),
        Act::Ask("sign-in", post("/v1/session", "{}")),
        Act::Drip("half a body", half(16_000)),
        Act::Ask("azure list", azure_list.clone()),
        Act::Deaf("azure list, unread", azure_list.clone()),
        Act::Sip("azure list, sipped", azure_list),
        Act::Ask("azure containers", azure("/?comp=list&include=metadata")),
        Act::Ask("azure upload", upload.clone()),
        Act::Drip("azure upload, half", upload[..upload.len() - 100].into()),
        Act::Deaf("azure blob, unread", azure("/stored/upload?x=y")),
    ];
    acts.extend(endless());
    acts
}

/// The requests of a client without a credential.
pub(super) fn of_stranger() -> Vec<Act> {
    let get = |path: &str| request("GET", path, "", None);
    let wrong = bearer("tnr1_aaaaaaaa_wrong");
    let azure = get(&format!("/{ACCOUNT}/stored?restype=container&comp=list"));
    let body = request(
        "POST",
        "/v1/namespaces/led/renew",
        "",
        Some(&"x".repeat(200_000)),
    );
    let mut acts = vec![
        Act::Ask("page", get("/")),
        Act::Ask("file", get("/ui/app.js")),
        Act::Deaf("file, unread", get("/ui/app.js")),
        Act::Sip("file, sipped", get("/ui/style.css")),
        Act::Ask("description", get("/openapi.json")),
        Act::Deaf("description, unread", get("/openapi.json")),
        Act::Ask("probe", get("/readyz")),
        Act::Ask("active", get("/active")),
        Act::Ask("list", get("/v1/namespaces/led/leases?limit=1000")),
        Act::Deaf("list, unread", get("/v1/namespaces/led/leases?limit=1000")),
        Act::Ask("metrics", get("/metrics")),
        Act::Ask("wrong token", request("GET", "/v1/overview", &wrong, None)),
        Act::Ask(
            "wrong code",
            request("POST", "/v1/session", "", Some(r#"{"code":"x"}"#)),
        ),
        Act::Ask("body", body.clone()),
        Act::Drip("half a body", body[..body.len() - 1].into()),
        Act::Ask("azure", azure.clone()),
        Act::Deaf("azure, unread", azure),
    ];
    acts.extend(endless());
    acts
}

/// A head and TLS records that have no end.
fn endless() -> Vec<Act> {
    let head = format!(
        "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {}",
        "x".repeat(31_000)
    );
    let hello = |length: u16| {
        let [high, low] = length.to_be_bytes();
        let mut record = vec![0x16, 3, 1, high, low, 1, 0, 0xff, 0];
        record.resize(usize::from(length), 0);
        record
    };
    vec![
        Act::Drip("head without an end", head.clone()),
        Act::Drip("short head without an end", head[..8_000].into()),
        Act::Raw("bytes below TLS", head.into()),
        Act::Raw("record without an end", hello(16_000)),
        Act::Raw("nothing", Vec::new()),
    ]
}

/// Returns a shared access signature of the account, for all operations until the year 2100.
///
/// # Panics
///
/// Never: the key is well-formed.
#[must_use]
pub fn sas() -> String {
    let parameters = [
        ("sp", "rwdlac"),
        ("ss", "b"),
        ("srt", "sco"),
        ("st", ""),
        ("se", "2100-01-01T00:00:00Z"),
        ("sip", ""),
        ("spr", ""),
        ("sv", "2018-11-09"),
    ];
    let lines = std::iter::once(ACCOUNT).chain(parameters.map(|(_, value)| value));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let key = BASE64_STANDARD.decode(KEY).expect("a key");
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
    let given = parameters
        .into_iter()
        .filter(|(_, value)| !value.is_empty());
    let query = given.map(|(name, value)| format!("{name}={}", percent(value)));
    let query = query.collect::<Vec<_>>().join("&");
    format!(
        "{query}&sig={}",
        percent(&BASE64_STANDARD.encode(signature))
    )
}
