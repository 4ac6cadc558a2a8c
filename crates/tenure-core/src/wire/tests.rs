use super::*;
use crate::Instant;
use crate::Random;
use crate::lease::{LeaseDuration, Metadata, Record, Rules};
use alloc::string::ToString;
use core::time::Duration;

struct Zeros;

impl Random for Zeros {
    fn next_u64(&mut self) -> u64 {
        0
    }
}

fn acquire(json: &str) -> Result<Queued, Problem> {
    let request: AcquireRequest = serde_json::from_str(json).expect("the right shape");
    request.check(&Rules::NATIVE, &mut Zeros)
}

#[test]
fn an_acquire_needs_a_holder_and_a_duration_only() {
    let queued = acquire(r#"{"holder": "a", "duration_ms": 15000}"#).unwrap();
    assert_eq!(
        queued.request.duration,
        LeaseDuration::Fixed(Duration::from_secs(15))
    );
    assert_eq!(
        (queued.wait, queued.priority),
        (Duration::ZERO, DEFAULT_PRIORITY)
    );
    let infinite = acquire(r#"{"holder": "a", "duration_ms": "infinite"}"#).unwrap();
    assert_eq!(infinite.request.duration, LeaseDuration::Infinite);
}

#[test]
fn an_error_for_a_number_out_of_range_names_both_limits() {
    for (field, value, limits) in [
        ("duration_ms", "999", ["1000", "86400000"]),
        ("duration_ms", "86400001", ["1000", "86400000"]),
        ("duration_ms", "-1", ["1000", "86400000"]),
        ("duration_ms", "18446744073709551615", ["1000", "86400000"]),
        ("duration_ms", "1e300", ["1000", "86400000"]),
        ("wait_ms", "300001", ["0", "300000"]),
        ("priority", "4294967296", ["0", "4294967295"]),
        ("priority", "-1", ["0", "4294967295"]),
        ("lock_delay_ms", "86400001", ["0", "86400000"]),
        ("min_epoch", "9007199254740992", ["0", "9007199254740991"]),
    ] {
        let json = match field {
            "duration_ms" => alloc::format!(r#"{{"holder": "a", "duration_ms": {value}}}"#),
            _ => alloc::format!(r#"{{"holder": "a", "duration_ms": 1000, "{field}": {value}}}"#),
        };
        let problem = acquire(&json).unwrap_err();
        assert_eq!(
            (problem.code, problem.status),
            (Code::OutOfRange, 422),
            "{json}"
        );
        assert!(problem.detail.contains(field), "{}", problem.detail);
        assert!(
            limits.iter().all(|limit| problem.detail.contains(limit)),
            "{}",
            problem.detail
        );
    }
}

#[test]
fn the_limits_themselves_are_allowed() {
    for json in [
        r#"{"holder": "a", "duration_ms": 1000, "wait_ms": 300000, "priority": 4294967295}"#,
        r#"{"holder": "a", "duration_ms": 86400000, "lock_delay_ms": 86400000, "priority": 0}"#,
        r#"{"holder": "a", "duration_ms": 1000, "min_epoch": 9007199254740991}"#,
        r#"{"holder": "a", "duration_ms": 1000.0, "wait_ms": 3e5, "priority": -0.0}"#,
    ] {
        assert!(acquire(json).is_ok(), "{json}");
    }
}

#[test]
fn a_body_of_the_wrong_shape_is_refused() {
    for json in [
        r#"{"holder": "a"}"#,
        r#"{"holder": "a", "duration_ms": "forever"}"#,
        r#"{"holder": "a", "duration_ms": 1500.5}"#,
        r#"{"holder": "a", "duration_ms": null}"#,
        r#"{"holder": 1, "duration_ms": 1000}"#,
        r#"{"holder": "a", "duration_ms": 1000, "extra": 1}"#,
        r#"{"holder": "a", "duration_ms": 1000, "duration_ms": 1000}"#,
        r#"[]"#,
    ] {
        assert!(
            serde_json::from_str::<AcquireRequest>(json).is_err(),
            "{json}"
        );
    }
}

#[test]
fn an_array_or_a_duplicate_key_is_not_accepted_as_an_object() {
    let of = |json: &str| serde_json::from_str::<Object<RenewManyRequest>>(json);
    assert!(of(r#"{"leases": [{"lease": "b1", "lease_id": "x"}]}"#).is_ok());
    for json in [
        r#"{"leases": [["b1", "x"]]}"#,
        r#"[[{"lease": "b1", "lease_id": "x"}]]"#,
        r#"{"leases": [{"lease": "b1", "lease_id": "x", "extra": 1}]}"#,
    ] {
        assert!(of(json).is_err(), "{json}");
    }
    let acquire = |metadata: &str| {
        let json =
            alloc::format!(r#"{{"holder": "a", "duration_ms": 1000, "metadata": {metadata}}}"#);
        serde_json::from_str::<AcquireRequest>(&json).map(|request| request.metadata)
    };
    assert_eq!(acquire("null").unwrap(), Metadata::new());
    assert_eq!(acquire(r#"{"k": "v"}"#).unwrap()["k"], "v");
    let twice = acquire(r#"{"k": "v", "k": "w"}"#).unwrap_err();
    assert!(twice.to_string().contains("duplicate key `k`"), "{twice}");
    for wrong in ["[]", r#"[["k", "v"]]"#, r#"{"k": 1}"#, r#""k""#] {
        assert!(acquire(wrong).is_err(), "{wrong}");
    }
    let metadata = |metadata: &str| {
        let json = alloc::format!(r#"{{"lease_id": "x", "metadata": {metadata}}}"#);
        serde_json::from_str::<MetadataRequest>(&json)
    };
    assert!(metadata(r#"{"k": "v"}"#).is_ok());
    for wrong in ["null", r#"{"k": "v", "k": "v"}"#] {
        assert!(metadata(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn ids_are_checked_and_an_error_does_not_repeat_a_secret() {
    let problem = acquire(r#"{"holder": "a b", "duration_ms": 1000}"#).unwrap_err();
    assert_eq!(problem.code, Code::InvalidName);
    let json = r#"{"holder": "a", "duration_ms": 1000, "lease_id": "hunter2"}"#;
    let problem = acquire(json).unwrap_err();
    assert_eq!(problem.code, Code::InvalidName);
    assert!(!problem.detail.contains("hunter2"));
}

#[test]
fn metadata_is_limited() {
    let value = "x".repeat(MAX_METADATA_BYTES - 1);
    let json = |value: &str| {
        alloc::format!(r#"{{"holder": "a", "duration_ms": 1000, "metadata": {{"k": "{value}"}}}}"#)
    };
    assert!(acquire(&json(&value)).is_ok());
    let problem = acquire(&json(&(value + "x"))).unwrap_err();
    assert_eq!(problem.code, Code::TooLarge);
    assert!(problem.detail.contains("4097") && problem.detail.contains("4096"));
}

#[test]
fn codes_have_the_same_name_in_json_and_in_text() {
    for code in [
        Code::Malformed,
        Code::CrossOrigin,
        Code::LeaseIdRetired,
        Code::HomeUnavailable,
        Code::Other,
    ] {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
    let newer: Code = serde_json::from_str(r#""of_a_newer_store""#).unwrap();
    assert_eq!(newer, Code::Other);
}

#[test]
fn a_problem_of_a_newer_store_is_read() {
    let json = r#"{"type": "urn:x", "title": "t", "status": 418, "detail": "d",
                   "code": "teapot", "extra": [1]}"#;
    let problem: Problem = serde_json::from_str(json).unwrap();
    assert_eq!(
        (problem.status, problem.detail.to_string()),
        (418, "d".to_string())
    );
}

#[test]
fn events_have_the_same_name_in_json_and_in_the_stream() {
    for kind in [EventKind::Granted, EventKind::Metadata, EventKind::Reset] {
        let json = serde_json::to_value(kind).unwrap();
        assert_eq!(json, kind.to_string());
        assert_eq!(EventKind::of_name(&kind.to_string()), Some(kind));
    }
    assert_eq!(EventKind::of_name("rewritten"), None);
}

#[test]
fn an_event_is_a_view_with_a_term_and_a_reason() {
    let view = LeaseView::of("ns", "job", &Record::default(), Instant::default());
    let event = LeaseEvent {
        view,
        term: Some(PastTerm {
            epoch: 7,
            holder: "c1".into(),
        }),
        reason: Some("done".into()),
    };
    let json = serde_json::to_value(&event).unwrap();
    assert_eq!(
        (&json["lease"], &json["reason"]),
        (&"job".into(), &"done".into())
    );
    assert_eq!(
        (&json["term"]["epoch"], &json["epoch"]),
        (&7.into(), &serde_json::Value::Null)
    );
    assert_eq!(serde_json::from_value::<LeaseEvent>(json).unwrap(), event);
}
