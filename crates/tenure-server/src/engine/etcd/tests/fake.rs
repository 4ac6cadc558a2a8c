//! Answers that a real etcd does not give here, from a small HTTP server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::engine::shared::log::{Page, PlaceRange};

/// The answer to a request: a status and a body. `None` ends the connection without an answer.
type Answer = Option<(u16, String)>;

/// An HTTP server that records the paths that it is asked for. Its threads end with the process.
struct Fake {
    address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let paths = Arc::default();
        let (seen, answer) = (Arc::clone(&paths), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(&stream, &seen, &*answer));
            }
        });
        Self { address, paths }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &dyn Fn(&str) -> Answer,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? <= 2 {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        seen.lock().unwrap().push(path.to_owned());
        let Some((status, body)) = answer(path) else {
            return Ok(());
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
    }
}

fn version(version: &str) -> Answer {
    let body = format!(r#"{{"etcdserver":"{version}","etcdcluster":"3.5.0"}}"#);
    Some((200, body))
}

/// The answer to a range request in the cluster 7. `eA==` is `x`.
fn head() -> Answer {
    let body =
        r#"{"header":{"cluster_id":"7","revision":"3"},"kvs":[{"key":"eA==","value":"eA=="}]}"#;
    Some((200, body.to_owned()))
}

fn open(fakes: &[&Fake]) -> Box<dyn SharedLog> {
    let endpoints = fakes.iter().map(|fake| fake.url()).collect();
    connect(&config(endpoints), PATIENT)
}

#[test]
fn a_version_that_loses_changes_is_not_used() {
    let bad = Fake::start(|path| match path {
        "/version" => version("3.5.2"),
        _ => head(),
    });
    let message = misconfigured(open(&[&bad]).head());
    assert_eq!(
        message,
        format!(
            "etcd 3.5.2 at {} may lose acknowledged changes (3.5.0 to 3.5.4 do): upgrade it to \
             3.5.30 or later",
            bad.url()
        )
    );
    assert_eq!(bad.paths(), ["/version"]);

    let good = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        _ => head(),
    });
    let mut log = open(&[&bad, &good]);
    assert_eq!(head_of(&log.head().unwrap()), Some("x"));
    log.head().unwrap();
    assert_eq!(good.paths(), ["/version", "/v3/kv/range", "/v3/kv/range"]);
}

#[test]
fn a_member_that_takes_most_of_an_attempt_for_each_answer_is_used() {
    const ATTEMPT: Duration = Duration::from_secs(2);
    let slow = Fake::start(|path| {
        thread::sleep(ATTEMPT * 3 / 5);
        match path {
            "/version" => version("3.6.11"),
            _ => head(),
        }
    });
    // A busy machine takes the rest of the time now and then. A new connection asks for both.
    let is_used = |_| {
        let sighting = connect(&config(vec![slow.url()]), ATTEMPT).head();
        sighting.is_ok_and(|sighting| head_of(&sighting) == Some("x"))
    };
    assert!((0..10).any(is_used));
}

#[test]
fn an_old_version_is_warned_of_once() {
    let old = Fake::start(|path| match path {
        "/version" => version("3.5.29"),
        "/metrics" => Some((404, String::new())),
        _ => head(),
    });
    let connects = ConnectEtcd::new(&config(vec![old.url()]), "default", PATIENT);
    let mut log = connects.connect().unwrap();
    let lines = log_lines(|| drop(log.head()));
    let warning = format!(
        "WARN tenure_register::etcd::gateway: etcd 3.5.29 at {} has known errors in its \
         access control: upgrade it to 3.5.30, 3.6.11 or later",
        old.url()
    );
    assert!(lines.contains(&warning), "{lines}");
    let warnings = log.facts().warnings;
    assert!(
        warning.ends_with(&warnings[0]) && warnings.len() == 1,
        "{warnings:?}"
    );
    // The upkeep checks the version again: a member may have been upgraded, or the reverse.
    let lines = log_lines(|| {
        log.maintain();
        drop(log.head());
    });
    assert_eq!(lines, "");
    let checks = old
        .paths()
        .iter()
        .filter(|path| *path == "/version")
        .count();
    assert_eq!(checks, 2);
    // A server has several connections.
    let mut other = connects.connect().unwrap();
    assert_eq!(log_lines(|| drop(other.head())), "");
    assert_eq!(other.facts().warnings, warnings);
}

#[test]
fn a_version_that_a_proxy_hides_does_not_matter() {
    let fake = Fake::start(|path| match path {
        "/version" => Some((403, "no".to_owned())),
        _ => head(),
    });
    assert_eq!(open(&[&fake]).head().unwrap().engine.0, 7);
}

#[test]
fn an_append_without_an_answer_is_unknown_and_the_next_member_is_asked_after_two() {
    let silent = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        "/v3/kv/txn" => None,
        _ => head(),
    });
    let other = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        _ => Some((
            200,
            r#"{"header":{"cluster_id":"7"},"succeeded":true}"#.to_owned(),
        )),
    });
    let mut log = open(&[&silent, &other]);
    let outcome = replace(&mut *log, None, "one");
    assert!(matches!(outcome, Err(LogError::Unknown(_))), "{outcome:?}");
    // The same call must not repeat it: the caller counts attempts.
    assert_eq!(silent.paths(), ["/version", "/v3/kv/txn"]);
    // The next call needs no more than one answer of the same member.
    let outcome = replace(&mut *log, None, "one");
    assert!(matches!(outcome, Err(LogError::Unknown(_))), "{outcome:?}");
    assert_eq!(silent.paths()[2..], ["/v3/kv/txn"]);
    assert!(other.paths().is_empty());
    assert_eq!(replace(&mut *log, None, "one"), Ok(Appended::Done));
}

#[test]
fn a_call_ends_with_its_attempt() {
    let hangs = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        _ => {
            thread::sleep(Duration::from_secs(60));
            None
        }
    });
    let other = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        _ => head(),
    });
    let config = config(vec![hangs.url(), other.url()]);
    let mut log = connect(&config, Duration::from_secs(3));
    let outcome = log.head();
    let message = format!("etcd at {}: no answer in time", hangs.url());
    assert_eq!(outcome, Err(LogError::Unknown(message)));
    // The next call goes to the other member, which may be slow on a busy machine.
    assert!((0..50).any(|_| log.head().is_ok()));
    assert_eq!(hangs.paths()[..2], ["/version", "/v3/kv/range"]);
    assert!(other.paths().len() > 1);
}

/// The page of a range without places.
fn end() -> Page {
    Page {
        places: Vec::new(),
        is_last: true,
    }
}

#[test]
fn ranges_of_leases_are_read_from_all_members_at_the_same_time() {
    let asked = Arc::new((Mutex::new(0), Condvar::new()));
    let member = || {
        let asked = Arc::clone(&asked);
        Fake::start(move |path| match path {
            "/version" => version("3.6.11"),
            _ => {
                let (number, changed) = &*asked;
                let mut number = number.lock().unwrap();
                *number += 1;
                changed.notify_all();
                // No member answers before all of them were asked.
                drop(changed.wait_while(number, |number| *number < 3).unwrap());
                let body = r#"{"header":{"cluster_id":"7"}}"#;
                Some((200, body.to_owned()))
            }
        })
    };
    let members = [member(), member(), member()];
    let mut log = open(&[&members[0], &members[1], &members[2]]);
    let range = |number| PlaceRange {
        from: format!("lease/{number}"),
        to: format!("lease/{number}~"),
        descending: false,
        most: 10,
    };
    assert_eq!((log.ranges(0), log.ranges(100_000)), (3, 100));
    let ranges: Vec<_> = (0..3).map(range).collect();
    assert_eq!(log.pages(&ranges), vec![Ok(end()); 3]);
    for member in &members {
        assert_eq!(member.paths(), ["/version", "/v3/kv/range"]);
    }
}

#[test]
fn leases_and_batches_of_another_cluster_are_refused() {
    let member = |id: &'static str| {
        Fake::start(move |path| match path {
            "/version" => version("3.6.11"),
            _ => Some((200, format!(r#"{{"header":{{"cluster_id":"{id}"}}}}"#))),
        })
    };
    let (first, other) = (member("7"), member("8"));
    let mut log = open(&[&first, &other]);
    let ranges = [("a", "b"), ("b", "c")].map(|(from, to)| PlaceRange {
        from: from.into(),
        to: to.into(),
        descending: false,
        most: 10,
    });
    log.head().unwrap();
    let message = "etcd.endpoints has members of another cluster, 8: name those of one cluster";
    let mut pages = log.pages(&ranges).into_iter();
    assert_eq!(pages.next(), Some(Ok(end())));
    assert_eq!(misconfigured(pages.next().unwrap()), message);
    // Then a member of the right one is asked.
    assert_eq!(log.pages(&ranges), vec![Ok(end()); 2]);
    let mut log = open(&[&other]);
    log.head().unwrap();
    assert_eq!(log.places(&ranges[0]), Ok(Vec::new()));
    assert_eq!(log.batches(0), Ok(Vec::new()));
}

#[test]
fn an_append_that_another_cluster_has_applied_does_not_count() {
    let fake = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        "/v3/kv/txn" => {
            let body = r#"{"header":{"cluster_id":"8"},"succeeded":true}"#;
            Some((200, body.to_owned()))
        }
        _ => head(),
    });
    let mut log = open(&[&fake]);
    log.head().unwrap();
    let Ok(Appended::Refused(shown)) = replace(&mut *log, Some("x"), "y") else {
        panic!("it counts");
    };
    let engine = tenure_core::ownership::EngineId(8);
    assert_eq!((head_of(&shown), shown.engine), (Some("y"), engine));
}

#[test]
fn a_member_that_requires_tls_is_named() {
    let fake = Fake::start(|_| {
        let body = "Client sent an HTTP request to an HTTPS server.\n";
        Some((400, body.to_owned()))
    });
    assert_eq!(
        misconfigured(open(&[&fake]).head()),
        format!(
            "etcd at {} requires TLS: write etcds:// in home",
            fake.url()
        )
    );
}

#[test]
fn redirects_are_not_followed() {
    let fake = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        "/elsewhere" => head(),
        _ => Some((307, String::new())),
    });
    let outcome = open(&[&fake]).head();
    assert!(matches!(outcome, Err(LogError::Unknown(_))), "{outcome:?}");
    assert_eq!(fake.paths(), ["/version", "/v3/kv/range"]);
}

#[test]
fn the_answer_of_another_service_is_unknown() {
    for answer in ["", "ok", "{}", r#"{"header":{"cluster_id":"x"}}"#] {
        let fake = Fake::start(move |path| match path {
            "/version" => version("3.6.11"),
            _ => Some((200, answer.to_owned())),
        });
        let Err(LogError::Unknown(message)) = replace(&mut *open(&[&fake]), None, "one") else {
            panic!("{answer}: an outcome")
        };
        assert!(message.contains("is not etcd's"), "{message}");
    }
}

/// Version 3.6 answers by another library.
#[test]
fn numbers_and_missing_fields_of_other_versions_are_understood() {
    let fake = Fake::start(|path| match path {
        "/version" => version("3.6.11"),
        "/v3/kv/txn" => Some((
            200,
            r#"{"header":{"cluster_id":7,"revision":9},"succeeded":false,"responses":[
                {"response_range":{"header":null,"kvs":[],"more":false,"count":"0"}}]}"#
                .to_owned(),
        )),
        _ => Some((
            403,
            r#"{"code":7,"message":"etcdserver: permission denied","details":[]}"#.to_owned(),
        )),
    });
    let mut log = open(&[&fake]);
    let refused = replace(&mut *log, Some("one"), "two").unwrap();
    let engine = tenure_core::ownership::EngineId(7);
    assert_eq!(refused, Appended::Refused(Sighting { engine, head: None }));
    misconfigured(log.head());
}

#[test]
fn a_head_shows_whether_an_append_without_space_was_applied() {
    let full = |read: fn() -> Answer| {
        Fake::start(move |path| match path {
            "/version" => version("3.6.11"),
            "/v3/kv/txn" => {
                let error = "etcdserver: mvcc: database space exceeded";
                let body = format!(r#"{{"error":"{error}","code":8,"message":"{error}"}}"#);
                Some((429, body))
            }
            _ => read(),
        })
    };
    let append = |expected, to| replace(&mut *open(&[&full(head)]), expected, to);
    // The head is x.
    assert_eq!(append(Some("w"), "x"), Ok(Appended::Done));
    let refused = append(Some("x"), "y");
    assert!(matches!(refused, Err(LogError::Full(_))), "{refused:?}");
    let other = append(Some("w"), "y");
    assert!(matches!(&other, Ok(Appended::Refused(it)) if head_of(it) == Some("x")));

    let unknown = replace(&mut *open(&[&full(|| None)]), Some("w"), "x");
    assert!(matches!(unknown, Err(LogError::Unknown(_))), "{unknown:?}");
}
