//! Several members of etcd, of which some fail.

use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::*;
use crate::engine::shared::conformance::until_definite;
use crate::engine::shared::log::{Edit, LoggedBatch, Place};
use crate::support::ports::free_address;

/// The time of an attempt with the default ownership duration of 3 s.
const ATTEMPT: Duration = Duration::from_millis(500);

#[test]
fn appends_go_on_after_a_member_is_stopped_or_killed() {
    let test = "appends_go_on_after_a_member_is_stopped_or_killed";
    let Some(mut etcd) = Etcd::start(test, 3) else {
        return;
    };
    // The leader is used first.
    let mut endpoints = etcd.endpoints();
    endpoints.rotate_left(etcd.leader());
    let mut log = steady(&config(endpoints), ATTEMPT);
    assert_eq!(replace(&mut *log, None, "0"), Ok(Appended::Done));
    let engine = log.head().unwrap().engine;
    let mut last = 0;
    let mut append_some = |log: &mut dyn SharedLog| {
        for _ in 0..5 {
            let (old, new) = (last.to_string(), (last + 1).to_string());
            assert_eq!(replace(log, Some(&old), &new), Ok(Appended::Done));
            last += 1;
        }
    };
    let leader = etcd.leader();
    etcd.signal(leader, Signal::SIGSTOP);
    append_some(&mut *log);
    etcd.signal(leader, Signal::SIGCONT);
    append_some(&mut *log);
    let leader = etcd.leader();
    etcd.kill(leader);
    append_some(&mut *log);
    etcd.spawn(leader);
    etcd.wait_until_ready(leader);
    // Each append was applied once, and in order.
    let numbers = (0..=last).map(|number| number.to_string());
    assert_eq!(
        etcd.history("tenure/default/0/head"),
        Vec::from_iter(numbers)
    );
    // Two members are a majority, and each of them can be used alone.
    etcd.kill(leader);
    for member in (0..3).filter(|member| *member != leader) {
        let mut other = steady(&config(vec![etcd.endpoint(member)]), PATIENT);
        let sighting = other.head().unwrap();
        assert_eq!((head_of(&sighting), sighting.engine), (Some("15"), engine));
    }
}

#[test]
fn members_that_are_down_are_passed_over_in_the_same_call() {
    let test = "members_that_are_down_are_passed_over_in_the_same_call";
    let Some(etcd) = Etcd::start(test, 1) else {
        return;
    };
    let down = format!("http://{}/", free_address());
    let endpoints = vec![down.clone(), down.clone(), etcd.endpoint(0)];
    let mut log = steady(&config(endpoints), PATIENT);
    assert_eq!(head_of(&log.head().unwrap()), None);
    assert_eq!(replace(&mut *log, None, "one"), Ok(Appended::Done));

    let outcome = connect(&config(vec![down.clone()]), PATIENT).head();
    let Err(LogError::Unknown(message)) = outcome else {
        panic!("{outcome:?}")
    };
    let url = down.trim_end_matches('/');
    assert!(
        message.starts_with(&format!("etcd at {url}: ")),
        "{message}"
    );
    assert!(message.contains("refused"), "{message}");
}

#[test]
fn a_member_without_its_gateway_is_named_and_passed_over() {
    let test = "a_member_without_its_gateway_is_named_and_passed_over";
    let off = ["--enable-grpc-gateway=false"];
    let (Some(without), Some(with)) = (Etcd::start_with(test, 1, &off), Etcd::start(test, 1))
    else {
        return;
    };
    let message = misconfigured(steady(&config(without.endpoints()), PATIENT).head());
    assert_eq!(
        message,
        format!(
            "etcd at {} answers 404 to /v3/kv/range: its JSON gateway is off \
             (--enable-grpc-gateway) or on another port (--listen-client-http-urls)",
            without.endpoint(0)
        )
    );
    let endpoints = vec![without.endpoint(0), with.endpoint(0)];
    steady(&config(endpoints), PATIENT).head().unwrap();
}

#[test]
fn a_full_etcd_refuses_every_append_and_says_so() {
    let test = "a_full_etcd_refuses_every_append_and_says_so";
    let Some(etcd) = Etcd::start_with(test, 1, &["--quota-backend-bytes", "4000000"]) else {
        return;
    };
    let mut log = connect(&config(etcd.endpoints()), PATIENT);
    assert_eq!(log.facts().used_space(), None);
    log.maintain();
    assert!(log.facts().used_space().unwrap() < 0.1);
    let stored = |log: &mut dyn SharedLog| {
        let sighting = until_definite(|| log.head()).unwrap();
        head_of(&sighting).map_or(0_u64, |head| head.parse().unwrap())
    };
    let append = |log: &mut dyn SharedLog, head: u64| {
        let expected = (head > 0).then(|| head.to_string());
        log.append(&Append {
            expected: expected.as_deref().map(str::as_bytes),
            head: (head + 1).to_string().as_bytes(),
            batch: Some(LoggedBatch {
                sequence: head + 1,
                bytes: vec![0; 700_000].into(),
            }),
            edits: &[Edit::Put(Place {
                key: "lease/a/a".to_owned(),
                value: "{}".into(),
            })],
            keep_from: 0,
        })
    };
    // On a slow disk, etcd may answer that the time is over, refuse the next attempt because it is
    // full, and then apply the first one. Then the refusal says nothing about the first attempt.
    let (mut lost, mut left) = (None, 100);
    let (head, error) = loop {
        let head = stored(&mut *log);
        match append(&mut *log, head) {
            Ok(Appended::Done | Appended::Refused(_)) => {}
            Err(LogError::Unknown(_)) => lost = Some(head),
            Err(LogError::Full(_)) if lost == Some(head) && left > 0 => {
                left -= 1;
                thread::sleep(Duration::from_millis(100));
            }
            Err(error) => break (head, error),
        }
    };
    let LogError::Full(message) = error else {
        panic!("{error:?}")
    };
    assert!(message.contains("etcdctl alarm disarm"), "{message}");
    // Nothing of it was applied, and a small append is refused, too.
    assert_eq!(stored(&mut *log), head);
    assert_eq!(until_definite(|| log.batches(head)).unwrap(), []);
    let outcome = until_definite(|| replace(&mut *log, Some(&head.to_string()), "next"));
    assert!(matches!(outcome, Err(LogError::Full(_))), "{outcome:?}");
    // etcd counts the size some time after a write, on a busy machine later.
    let used = || {
        let mut log = connect(&config(etcd.endpoints()), PATIENT);
        log.maintain();
        log.facts().used_space()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while used() <= Some(0.7) {
        assert!(Instant::now() < until, "{:?}", used());
        thread::sleep(Duration::from_millis(20));
    }
}
