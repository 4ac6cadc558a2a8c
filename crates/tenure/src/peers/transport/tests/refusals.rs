//! Every refusal: its status and code, its counter, and that it changes no state.

use reqwest::header::{CONTENT_TYPE, HOST, ORIGIN};
use serde_json::{Value, json};

use super::*;
use crate::peers::wire::mac::MAC_HEADER;

/// A caller that has the key and sends requests to member 2 without the client.
pub(super) struct Writer {
    http: reqwest::Client,
    pub(super) url: String,
    path: String,
    mac: Arc<Mac>,
}

impl Writer {
    pub(super) fn to(server: &PeerServer) -> Self {
        let path = "/v1/peers/billing/message".to_owned();
        let base = at(listening_on(server));
        Self {
            http: reqwest::Client::new(),
            url: format!("{}{}", base.as_str().trim_end_matches('/'), path),
            path,
            mac: keyed(),
        }
    }

    pub(super) fn mac_of(&self, body: &[u8]) -> String {
        self.mac
            .of_request(&self.path, body)
            .header()
            .unwrap()
            .to_owned()
    }

    pub(super) async fn post(&self, body: Vec<u8>, macs: &[&str]) -> (u16, Value) {
        let mut request = self.http.post(&self.url).body(body);
        request = request.header(CONTENT_TYPE, "application/json");
        for mac in macs {
            request = request.header(MAC_HEADER, *mac);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    pub(super) async fn send(&self, message: &Value) -> (u16, Value) {
        let body = message.to_string().into_bytes();
        let mac = self.mac_of(&body);
        self.post(body, &[&mac]).await
    }

    /// Returns a message of member 1 that is valid for some seconds.
    pub(super) async fn good(&self) -> Value {
        let mut message = json!({
            "version": 1, "cluster": "billing", "config": fingerprint(1).hash,
            "from": 1, "incarnation": 3, "instance": 77, "to": 2, "number": 5, "good_until": null,
            "payload": {"election": {"quorum": {"pre_vote": {"round": 1}}}},
        });
        let (status, problem) = self.send(&message).await;
        assert_eq!(
            (status, &problem["code"]),
            (409, &"late".into()),
            "{problem}"
        );
        let member = &problem["member"];
        assert_eq!(member["node"], 2);
        let now = member["time_ms"].as_u64().unwrap();
        message["good_until"] = json!({"instance": member["instance"], "time_ms": now + 4_000});
        message
    }
}

fn with(message: &Value, path: &str, value: impl Into<Value>) -> Value {
    let mut message = message.clone();
    match message.pointer_mut(path) {
        Some(place) => *place = value.into(),
        None => message[&path[1..]] = value.into(),
    }
    message
}

#[tokio::test]
async fn each_refusal_has_its_code_is_counted_and_changes_nothing() {
    let (two, mut inbox) = PeerServer::start(setup(2)).unwrap();
    let writer = Writer::to(&two);
    let good = writer.good().await;
    let instance = &good["good_until"]["instance"];
    let without = |field: &str| {
        let mut message = good.clone();
        message.as_object_mut().unwrap().remove(field);
        message
    };
    let round = "/payload/election/quorum/pre_vote";
    let extra = |path: &str| {
        let mut message = good.clone();
        message.pointer_mut(path).unwrap()["extra"] = 1.into();
        message
    };
    let mut before = two.counters();
    for (message, status, code) in [
        (json!(7), 400, "malformed"),
        (without("number"), 400, "malformed"),
        (with(&good, "/extra", 1), 400, "malformed"),
        (extra(round), 400, "malformed"),
        (extra("/good_until"), 400, "malformed"),
        (
            with(&good, "/payload", json!({"gossip": 1})),
            400,
            "malformed",
        ),
        (with(&good, "/from", -1), 400, "malformed"),
        (with(&good, "/version", 2), 409, "version_differs"),
        (
            with(&with(&good, "/version", 2), "/extra", 1),
            409,
            "version_differs",
        ),
        (with(&good, "/cluster", "other"), 404, "unknown_cluster"),
        (with(&good, "/to", 3), 421, "misdirected"),
        (with(&good, "/from", 9), 403, "unknown_member"),
        (with(&good, "/config", "0000"), 409, "config_differs"),
        (with(&good, "/good_until", Value::Null), 409, "late"),
        (with(&good, "/good_until/instance", 1), 409, "late"),
        (
            with(
                &good,
                "/good_until",
                json!({"instance": instance, "time_ms": 1}),
            ),
            409,
            "late",
        ),
    ] {
        let (got, problem) = writer.send(&message).await;
        assert_eq!(
            (got, &problem["code"]),
            (status, &code.into()),
            "{message}: {problem}"
        );
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:tenure:problem:{code}"));
        // The refusal is counted once, and no other counter changes.
        *before.refused.entry(code.into()).or_default() += 1;
        assert_eq!(two.counters(), before, "{message}");
    }
    // None of the messages was admitted, and none of them prevents the admission of a valid one.
    let idle = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(idle.is_err(), "{idle:?}");
    let taken = async {
        let message = next_message(&mut inbox).await;
        reply(message, Vec::new());
    };
    let ((status, answer), ()) = tokio::join!(writer.send(&good), taken);
    assert_eq!((status, &answer["payloads"]), (200, &json!([])));
    assert_eq!(two.counters().taken, 1);
}

/// Returns the member 1 of a group without a key, which it could be ended by, and a message that
/// says that another process is member 1.
async fn open_to_all() -> (PeerServer, Inbox, Value) {
    let (one, inbox) = PeerServer::start(Setup {
        mac: Mac::new(None).into(),
        ..setup(1)
    })
    .unwrap();
    let claim = json!({
        "version": 1, "cluster": "billing", "config": fingerprint(1).hash,
        "from": 1, "incarnation": 9, "instance": 1, "to": 1, "number": 1, "good_until": null,
        "payload": {"election": {"quorum": {"pre_vote": {"round": 1}}}},
    });
    (one, inbox, claim)
}

#[tokio::test]
async fn a_stranger_to_the_group_does_not_end_a_member_by_its_node_id() {
    let (one, mut inbox, claim) = open_to_all().await;
    let writer = Writer::to(&one);
    let stranger = with(&claim, "/config", "0000").to_string().into_bytes();
    let (status, problem) = writer.post(stranger, &[]).await;
    assert_eq!((status, &problem["code"]), (409, &"config_differs".into()));
    let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(event.is_err(), "{event:?}");
    // The same claim of a process with the settings of the group counts.
    let (_, problem) = writer.post(claim.to_string().into_bytes(), &[]).await;
    assert_eq!(problem["code"], "runs_twice");
    let event = next(&mut inbox).await;
    assert!(matches!(event, PeerEvent::Duplicate(_)), "{event:?}");
}

#[tokio::test]
async fn a_page_of_another_site_reads_nothing_and_sends_nothing() {
    let (one, mut inbox, claim) = open_to_all().await;
    let url = Writer::to(&one).url;
    let json = (CONTENT_TYPE, "application/json");
    let post = |headers: Vec<(reqwest::header::HeaderName, &'static str)>| {
        let post = reqwest::Client::new().post(&url).body(claim.to_string());
        let post = headers
            .into_iter()
            .fold(post, |post, (name, value)| post.header(name, value));
        async {
            let answer = post.send().await.unwrap();
            let status = answer.status().as_u16();
            let problem: Value = answer.json().await.unwrap();
            (status, problem["code"].as_str().unwrap().to_owned())
        }
    };
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let refused = post(vec![(CONTENT_TYPE, kind)]).await;
        assert_eq!(refused, (415, "not_json".into()), "{kind}");
    }
    assert_eq!(post(Vec::new()).await, (415, "not_json".into()));
    let foreign = (403, "cross_origin".to_owned());
    assert_eq!(
        post(vec![json.clone(), (ORIGIN, "https://evil.example")]).await,
        foreign
    );
    // The name resolves to this address, so the browser considers both to be of one origin.
    let rebound = [
        (HOST, "evil.example:7500"),
        (ORIGIN, "http://evil.example:7500"),
    ];
    assert_eq!(post([vec![json], rebound.to_vec()].concat()).await, foreign);
    for path in ["v1/peers/billing/status", "v1/peers/billing/members", ""] {
        let get = reqwest::Client::new().get(at(listening_on(&one)).join(path).unwrap());
        let get = get.header(HOST, "evil.example");
        assert_eq!(get.send().await.unwrap().status(), 403, "{path}");
    }
    let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(event.is_err(), "{event:?}");
}

#[tokio::test]
async fn a_member_answers_under_its_names_and_members_with_the_key_may_use_another_one() {
    let (two, _inbox) = PeerServer::start(setup(2)).unwrap();
    let status_for = |host: &'static str| {
        let url = at(listening_on(&two))
            .join("v1/peers/billing/status")
            .unwrap();
        let get = reqwest::Client::new().get(url).header(HOST, host);
        async { get.send().await.unwrap().status().as_u16() }
    };
    for (host, status) in [("two.lan:7500", 200), ("10.0.0.2", 200), ("other.lan", 403)] {
        assert_eq!(status_for(host).await, status, "{host}");
    }
    let writer = Writer::to(&two);
    let body = writer.good().await.to_string();
    let post = reqwest::Client::new().post(&writer.url);
    let post = post
        .header(HOST, "other.lan")
        .header(CONTENT_TYPE, "application/json");
    let wrong = post
        .header(MAC_HEADER, "0")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(wrong.status(), 401, "the MAC decides");
}

#[tokio::test]
async fn a_message_is_accepted_once_and_older_ones_are_refused() {
    let (two, mut inbox) = PeerServer::start(setup(2)).unwrap();
    let driver = tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(PATIENCE, inbox.recv()).await {
            if let PeerEvent::Message(message) = event {
                taken.push((message.incarnation.0, message.from.0));
            }
        }
        taken
    });
    let writer = Writer::to(&two);
    let good = writer.good().await;
    let numbered = |incarnation: u64, number: u64| {
        with(&with(&good, "/incarnation", incarnation), "/number", number)
    };
    for (message, expected) in [
        (numbered(3, 5), None),
        (numbered(3, 5), Some("replayed")),
        (numbered(3, 4), Some("replayed")),
        (numbered(3, 6), None),
        (numbered(2, 7), Some("older_start")),
        (with(&numbered(3, 8), "/instance", 78), Some("runs_twice")),
        // A new start begins to count again, and ends the previous start.
        (with(&numbered(4, 1), "/instance", 79), None),
        (numbered(3, 9), Some("older_start")),
        (with(&numbered(4, 1), "/instance", 79), Some("replayed")),
        // Other members have their own numbers.
        (with(&numbered(1, 1), "/from", 3), None),
    ] {
        let (_, answer) = writer.send(&message).await;
        assert_eq!(answer["code"].as_str(), expected, "{message}: {answer}");
    }
    let refused = two.counters().refused;
    assert_eq!((refused["replayed"], refused["older_start"]), (3, 2));
    drop(two);
    assert_eq!(driver.await.unwrap(), [(3, 1), (3, 1), (4, 1), (1, 3)]);
}

#[tokio::test]
async fn the_next_process_refuses_a_recorded_message() {
    let (two, _inbox) = PeerServer::start(setup(2)).unwrap();
    let recorded = Writer::to(&two).good().await;
    drop(two);
    let (two, _inbox) = PeerServer::start(setup(2)).unwrap();
    let (_, problem) = Writer::to(&two).send(&recorded).await;
    assert_eq!(problem["code"], "late");
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_one_at_it_is_read() {
    let (two, _inbox) = PeerServer::start(setup(2)).unwrap();
    let writer = Writer::to(&two);
    let good = writer.good().await.to_string();
    for (bytes, code) in [(16 * 1024, "unauthenticated"), (16 * 1024 + 1, "too_large")] {
        // Spaces after JSON are allowed.
        let body = format!("{good:bytes$}").into_bytes();
        assert_eq!(body.len(), bytes);
        let (_, problem) = writer.post(body, &["0"]).await;
        assert_eq!(problem["code"], code);
        assert_eq!(two.counters().refused[code], 1);
    }
}

#[tokio::test]
async fn a_message_that_the_driver_can_t_accept_is_refused_and_can_be_sent_again() {
    let (two, inbox) = PeerServer::start(setup(2)).unwrap();
    let writer = Writer::to(&two);
    let good = writer.good().await;
    drop(inbox);
    let (status, problem) = writer.send(&good).await;
    assert_eq!((status, &problem["code"]), (503, &"unavailable".into()));
    let (_, problem) = writer.send(&good).await;
    assert_eq!(
        problem["code"], "unavailable",
        "it was not accepted the first time"
    );
    assert_eq!(two.counters().taken, 0);
}
