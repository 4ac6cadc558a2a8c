//! MACs of requests and of answers.

use std::sync::Mutex;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Response, Uri};
use axum::routing::any;

use super::refusals::Writer;
use super::*;
use crate::peers::wire::mac::MAC_HEADER;

#[tokio::test]
async fn a_message_with_one_altered_byte_is_refused() {
    let (two, mut inbox) = PeerServer::start(setup(2)).unwrap();
    let writer = Writer::to(&two);
    let good = writer.good().await.to_string().into_bytes();
    let mac = writer.mac_of(&good);
    for place in 0..good.len() {
        let mut body = good.clone();
        body[place] ^= 1;
        let (status, problem) = writer.post(body, &[&mac]).await;
        assert_eq!((status, &problem["code"]), (401, &"unauthenticated".into()));
        assert!(
            problem["member"].is_null(),
            "the refusal reveals the member"
        );
    }
    let wrong_path = Mac::new(Some(&key()));
    let wrong_path = wrong_path.of_request("/v1/peers/other/message", &good);
    let wrong_key = Mac::new(Some(&PeerKey::new("another key of tests").unwrap()));
    let wrong_key = wrong_key.of_request("/v1/peers/billing/message", &good);
    for macs in [
        &[][..],
        &[""],
        &["0"],
        &[&mac[..63]],
        &[&mac.to_uppercase()],
        &[&mac, &mac],
        &[wrong_path.header().unwrap()],
        &[wrong_key.header().unwrap()],
    ] {
        let (status, _) = writer.post(good.clone(), macs).await;
        assert_eq!(status, 401, "{macs:?}");
    }
    let refused = two.counters().refused["unauthenticated"];
    assert_eq!(refused, good.len() as u64 + 8);
    assert_eq!(two.counters().taken, 0);
    let taken = async { reply(next_message(&mut inbox).await, Vec::new()) };
    let macs = [&*mac];
    let ((status, _), ()) = tokio::join!(writer.post(good.clone(), &macs), taken);
    assert_eq!(status, 200);
}

/// A change that an attacker between two members makes to answers.
type Change = fn(&mut Vec<(u16, String, Bytes)>, (u16, String, Bytes)) -> (u16, String, Bytes);

/// Starts an attacker in front of a member.
async fn between(target: SocketAddr, change: Change) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let recorded: Arc<Mutex<Vec<_>>> = Arc::default();
    let http = reqwest::Client::new();
    let handler = any(
        move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let url = format!("http://{target}{}", uri.path());
            let request = http.post(url).header(CONTENT_TYPE, &headers[CONTENT_TYPE]);
            let request = request.header(MAC_HEADER, &headers[MAC_HEADER]);
            let response = request.body(body).send().await.unwrap();
            let mac = response.headers()[MAC_HEADER].to_str().unwrap().to_owned();
            let status = response.status().as_u16();
            let answer = (status, mac, response.bytes().await.unwrap());
            let (status, mac, body) = change(&mut recorded.lock().unwrap(), answer);
            let response = Response::builder().status(status).header(MAC_HEADER, mac);
            response.body(Body::from(body)).unwrap()
        },
    );
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    address
}

/// Sends three messages through an attacker, each of which is answered. Returns how many answers
/// were accepted and how many were rejected.
async fn answers_through(change: Change) -> (u64, u64) {
    let (two, inbox) = PeerServer::start(setup(2)).unwrap();
    answering(inbox);
    let address = between(listening_on(&two), change).await;
    let (one, _inbox) = PeerServer::start(one_with_two_at(address)).unwrap();
    for round in 0..3 {
        let before = one.counters();
        one.send(NodeId(2), pre_vote(round));
        wait_until("the answer", || {
            let now = one.counters();
            now.answered + now.answers_unauthenticated
                > before.answered + before.answers_unauthenticated
        })
        .await;
    }
    let counters = one.counters();
    (counters.answered, counters.answers_unauthenticated)
}

#[tokio::test]
async fn an_answer_is_accepted_only_for_its_own_request() {
    assert_eq!(answers_through(|_, answer| answer).await, (3, 0));
    // From the first accepted message on, the attacker sends the answer to that message.
    let replay: Change = |recorded, answer| {
        if answer.0 == 200 {
            recorded.push(answer.clone());
        }
        recorded.first().cloned().unwrap_or(answer)
    };
    assert_eq!(answers_through(replay).await, (1, 2));
}

#[tokio::test]
async fn an_answer_with_an_altered_byte_or_status_is_ignored() {
    let altered: Change = |_, (status, mac, body)| {
        let mut body = body.to_vec();
        if status == 200 {
            let place = body.len() - 3;
            body[place] ^= 1;
        }
        (status, mac, body.into())
    };
    assert_eq!(answers_through(altered).await, (0, 3));
    let status: Change = |_, (status, mac, body)| {
        let status = if status == 409 { 200 } else { status };
        (status, mac, body)
    };
    assert_eq!(answers_through(status).await, (0, 3));
}

#[test]
fn a_key_is_long_enough_and_is_never_shown() {
    assert!(PeerKey::new(vec![7; 16]).is_ok());
    let error = PeerKey::new(vec![7; 15]).unwrap_err().to_string();
    assert_eq!(error, "the key has 15 bytes and must have at least 16");
    assert_eq!(format!("{:?}", key()), "Key(..)");
    assert_eq!(format!("{:?}", keyed()), r#"Mac("keyed")"#);
}
