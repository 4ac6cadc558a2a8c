//! Batches: many deletions in one request.

use std::collections::BTreeMap;

use chrono::Utc;
use reqwest::Method;

use crate::client::{ACCOUNT, Answer, Az, in_memory};
use crate::common::id;

/// Returns a part of a batch, which is a request with its own signature.
fn part(az: &Az, method: &Method, target: &str, headers: &[(&str, &str)]) -> String {
    let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let mut all = BTreeMap::from([
        ("x-ms-date".to_owned(), date),
        ("content-length".to_owned(), "0".to_owned()),
    ]);
    let headers = headers.iter();
    all.extend(headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let signature = az.signature(method, target, &all);
    all.insert("authorization".into(), signature);
    let headers = all
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    format!("{method} /{ACCOUNT}{target} HTTP/1.1\r\n{headers}\r\n")
}

async fn batch(az: &Az, target: &str, parts: &[String]) -> Answer {
    let mut body = String::new();
    for (number, part) in parts.iter().enumerate() {
        let kind = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary";
        body += &format!("--batch_x\r\n{kind}\r\nContent-ID: {number}\r\n\r\n{part}\r\n");
    }
    body += "--batch_x--\r\n";
    let kind = [("content-type", "multipart/mixed; boundary=batch_x")];
    az.send(Method::POST, target, &kind, body.as_bytes()).await
}

/// Returns the statuses and codes of the parts of a response, in the order of their ids.
fn outcomes(answer: &Answer) -> Vec<(u16, String)> {
    let kind = answer.assert(202).header("content-type");
    let boundary = kind.strip_prefix("multipart/mixed; boundary=").unwrap();
    let text = answer.text();
    let end = format!("--{boundary}--\r\n");
    let parts = text.strip_suffix(&end).expect("an end");
    let start = format!("--{boundary}\r\n");
    let parts = parts.split(&start).skip(1);
    let outcome = |(number, part): (usize, &str)| {
        let start = "Content-Type: application/http\r\n";
        let part = part.strip_prefix(start).expect("a type");
        let id = format!("Content-ID: {number}\r\n\r\nHTTP/1.1 ");
        let part = part.strip_prefix(&id).expect("an id");
        let code = part
            .lines()
            .find_map(|line| line.strip_prefix("x-ms-error-code: "));
        let (head, body) = part.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len() - 2)),
            "{part}"
        );
        (
            part[..3].parse().unwrap(),
            code.unwrap_or_default().to_owned(),
        )
    };
    parts.enumerate().map(outcome).collect()
}

fn ok() -> (u16, String) {
    (202, String::new())
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn each_deletion_of_a_batch_has_its_own_response() {
    let (_running, az) = in_memory();
    for container in ["con", "other"] {
        az.put(&format!("/{container}?restype=container"), &[])
            .await
            .assert(201);
        for name in ["a", "b%20c", "leased", "stays"] {
            az.put_block(&format!("/{container}/{name}"), &[], b"x")
                .await
                .assert(201);
        }
    }
    let lease_id = id(1);
    let acquire = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", &*lease_id),
    ];
    az.put("/con/leased?comp=lease", &acquire).await.assert(201);
    let delete =
        |target: &str, headers: &[(&str, &str)]| part(&az, &Method::DELETE, target, headers);
    let mut stranger = az.clone();
    stranger.key = "A".repeat(86) + "==";
    let parts = [
        delete("/con/a", &[]),
        delete("/con/none", &[]),
        delete("/con/leased", &[]),
        delete("/con/leased", &[("x-ms-lease-id", &lease_id)]),
        delete("/con/stays", &[("if-match", "\"0x1\"")]),
        part(&stranger, &Method::DELETE, "/con/stays", &[]),
        format!("DELETE /{ACCOUNT}/con/stays HTTP/1.1\r\n\r\n"),
        delete("/other/b%20c", &[]),
    ];
    let answer = batch(&az, "/?comp=batch", &parts).await;
    let expected = [
        ok(),
        refused(404, "BlobNotFound"),
        refused(412, "LeaseIdMissing"),
        ok(),
        refused(412, "ConditionNotMet"),
        refused(403, "AuthenticationFailed"),
        refused(401, "NoAuthenticationInformation"),
        ok(),
    ];
    assert_eq!(outcomes(&answer), expected, "{}", answer.text());
    for (target, status) in [
        ("/con/a", 404),
        ("/con/leased", 404),
        ("/con/stays", 200),
        ("/con/b%20c", 200),
        ("/other/b%20c", 404),
    ] {
        az.get(target, &[]).await.assert(status);
    }
}

#[tokio::test]
async fn a_batch_deletes_only_blobs_of_its_container() {
    let (_running, az) = in_memory();
    for container in ["con", "other"] {
        az.put(&format!("/{container}?restype=container"), &[])
            .await
            .assert(201);
        az.put_block(&format!("/{container}/a"), &[], b"x")
            .await
            .assert(201);
    }
    let invalid = refused(400, "InvalidInput");
    let parts = [
        part(&az, &Method::DELETE, "/other/a", &[]),
        part(&az, &Method::DELETE, "/con?restype=container", &[]),
        part(&az, &Method::GET, "/con/a", &[]),
        part(&az, &Method::POST, "/?comp=batch", &[]),
        part(&az, &Method::DELETE, "/con/a", &[]).replace(ACCOUNT, "someoneelse"),
        "nonsense".to_owned(),
        part(&az, &Method::DELETE, "/con/a", &[]),
    ];
    let answer = batch(&az, "/con?restype=container&comp=batch", &parts).await;
    let mut expected = vec![invalid; 6];
    expected.push(ok());
    assert_eq!(outcomes(&answer), expected, "{}", answer.text());
    az.get("/other/a", &[]).await.assert(200);
    az.get("/con?restype=container", &[]).await.assert(200);
}
