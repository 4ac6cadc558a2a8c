//! Break and hand over, by keyboard alone.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use tenure_tests::Limit;
use tenure_tests::wait_for;

use crate::page::Page;
use crate::states::{sign_in, wait_for_row, wait_until_visible};
use crate::store::{TestStore, lease};

/// The id of the element that has the focus.
const FOCUS: &str = "return document.activeElement.id";
const IS_OFF: &str = "return document.getElementById('action-submit').disabled";
const IS_OPEN: &str = "return document.getElementById('action').open";

/// Presses Tab until the element with this id has the focus.
#[track_caller]
fn tab_to(page: &Page, id: &str) {
    for _ in 0..30 {
        if page.js(FOCUS) == id {
            return;
        }
        page.press("Tab");
    }
    panic!("the key Tab does not reach {id}");
}

/// The newest term in the history that has ended or is breaking.
fn last_reason(store: &TestStore, election: &str) -> Value {
    let history = store.get(&format!("{}/history", lease(election)));
    let mut terms = history["terms"].as_array().expect("terms").iter();
    let term = terms.find(|term| !term["reason"].is_null());
    term.map(|term| term["reason"].clone()).unwrap_or_default()
}

/// Waits for a line of the audit log.
fn wait_for_audit(store: &TestStore, kind: &str, expected: &Value) {
    wait_for("a line of the audit log", || {
        let text = fs::read_to_string(store.path("audit.jsonl")).unwrap_or_default();
        let mut lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line
        });
        let fields = expected.as_object().expect("fields");
        let is_it = |line: &Value| fields.iter().all(|(name, value)| &line[name] == value);
        lines
            .any(|line| line["kind"] == kind && is_it(&line))
            .then_some(())
    });
}

#[test]
fn an_operator_breaks_a_lease_by_keyboard_alone() {
    let Some(page) = Page::start("an_operator_breaks_a_lease_by_keyboard_alone") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::guarded();
    let _leader = store.run("billing/nightly", "worker-1", 100);
    store.acquire("ops/backup", "cron-a", json!(600_000), &json!(null));
    sign_in(&page, &store, "ada");
    wait_for_row(&page, "billing/nightly", "[data-kind=led]");

    // From the filter to the row, and with `b` into the dialog.
    page.press("/");
    assert_eq!(page.js(FOCUS), "filter");
    page.type_text("nightly");
    page.wait(
        "the filter",
        "return document.querySelectorAll('#rows tr').length === 1",
    );
    page.press("Escape");
    page.press("j");
    let row = "return document.activeElement.closest('tr')?.dataset.election";
    page.wait("the focus in the table", row);
    assert_eq!(page.js(row), "billing/nightly");
    page.press("b");
    wait_until_visible(&page, "#action[data-kind=break]");
    assert_eq!(page.js(FOCUS), "reason");

    // The focus does not leave the dialog, whatever the number of steps.
    for step in 0..12 {
        page.press("Tab");
        let is_within = page.js("return document.activeElement === document.body
            || document.getElementById('action').contains(document.activeElement)");
        assert_eq!(is_within, true, "after {step} steps");
    }
    tab_to(&page, "reason");
    page.type_text("bad release");
    tab_to(&page, "confirm");
    page.type_text("billing/nightl");
    assert_eq!(page.js(IS_OFF), true, "a part of the name");
    // Enter in a field would submit the form.
    page.press("Enter");
    assert_eq!(page.js(IS_OPEN), true);
    page.type_text("yy");
    assert_eq!(page.js(IS_OFF), true, "another name");
    page.press("Backspace");
    assert_eq!(page.js(IS_OFF), false, "the name");
    // A name without a reason is not enough.
    page.press_with_shift("Tab");
    page.press("Backspace");
    assert_eq!(page.js(IS_OFF), true, "no reason");
    page.type_text("bad release");
    assert_eq!(last_reason(&store, "billing/nightly"), json!(null));
    tab_to(&page, "action-submit");
    page.press("Enter");
    page.wait(
        "the end of the dialog",
        "return !document.getElementById('action').open",
    );
    wait_until_visible(&page, "#toast");
    page.wait("the focus back in the table", row);
    assert_eq!(last_reason(&store, "billing/nightly"), "bad release");
    let expected = json!({
        "principal": "ada", "election": "billing/nightly", "reason": "bad release",
        "outcome": "done",
    });
    wait_for_audit(&store, "break", &expected);
    page.finish();
}

#[test]
fn an_operator_hands_over_to_a_waiter_by_keyboard_alone() {
    let test = "an_operator_hands_over_to_a_waiter_by_keyboard_alone";
    let Some(page) = Page::start(test) else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::guarded();
    let _candidates = [
        store.run("billing/nightly", "worker-1", 100),
        store.run("billing/nightly", "worker-2", 100),
        store.run("billing/nightly", "worker-3", 200),
    ];
    sign_in(&page, &store, "ada");
    wait_for_row(&page, "billing/nightly", "[data-kind=led]");
    page.press("j");
    page.press("Enter");
    wait_until_visible(&page, "#election[data-state=ready]");
    wait_until_visible(&page, "#waiters li:nth-child(2)");
    page.press("h");
    wait_until_visible(&page, "#action[data-kind=handover]");
    // The waiters are there to choose from, in their order. The second one is chosen.
    let targets = "return [...document.querySelectorAll('#targets input')].map(one => one.value)";
    assert_eq!(page.js(targets), json!(["worker-2", "worker-3"]));
    for _ in 0..20 {
        if page.js("return document.activeElement.closest('#targets') !== null") == true {
            break;
        }
        page.press("Tab");
    }
    page.press("ArrowDown");
    let chosen = "return document.querySelector('#targets input:checked')?.value";
    assert_eq!(page.js(chosen), "worker-3");
    tab_to(&page, "reason");
    page.type_text("maintenance of one");
    tab_to(&page, "confirm");
    page.type_text("billing/nightly");
    page.press("Enter");
    page.wait(
        "the end of the dialog",
        "return !document.getElementById('action').open",
    );
    wait_for("the new leader", || {
        let view = store.get(&lease("billing/nightly"));
        (view["holder"] == "worker-3").then_some(())
    });
    page.wait_for_text("worker-3 leads");
    let expected = json!({
        "principal": "ada", "election": "billing/nightly", "reason": "maintenance of one",
        "outcome": "done",
    });
    wait_for_audit(&store, "handover", &expected);
    assert_eq!(last_reason(&store, "billing/nightly"), "maintenance of one");
    page.finish();
}

#[test]
fn a_right_that_ends_while_the_dialog_is_open_is_reported_in_it() {
    let test = "a_right_that_ends_while_the_dialog_is_open_is_reported_in_it";
    let Some(page) = Page::start(test) else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::guarded();
    store.add_principal("olga", &["--role", "operator"]);
    store.acquire("billing/nightly", "worker-1", json!(600_000), &json!(null));
    sign_in(&page, &store, "olga");
    page.go_to(&format!("{}/#/billing/nightly", store.origin()));
    wait_until_visible(&page, "#election[data-state=ready]");
    page.press("b");
    wait_until_visible(&page, "#action");
    page.type_text("bad release");
    tab_to(&page, "confirm");
    page.type_text("billing/nightly");

    // Her role becomes one that may only read.
    let file = store.path("access.toml");
    let access = fs::read_to_string(&file).expect("the access file");
    let changed = access.replacen("\"operator\"", "\"read\"", 1);
    assert_ne!(access, changed, "a role to change: {access}");
    fs::write(&file, changed).expect("the access file");
    wait_for("the new rights", || {
        let (_, me) = store.ask("olga", Method::GET, "/v1/whoami", &Value::Null);
        (me["grants"][0]["role"] == "read").then_some(())
    });
    page.expect_message("status of 403");
    page.expect_message("ERR_INCOMPLETE_CHUNKED_ENCODING");
    // Streams of her earlier rights may end, and the page then connects again.
    page.wait(
        "a complete form",
        "return !document.getElementById('action-submit').disabled",
    );
    page.press("Enter");
    let error = "return document.getElementById('action-error').textContent";
    let error = page.wait("the refusal", error);
    let error = error.as_str().expect("text");
    assert!(
        error.contains("operator") && error.contains("olga"),
        "{error}"
    );
    assert_eq!(page.js(IS_OPEN), true);
    assert_eq!(
        page.js("return document.getElementById('reason').value"),
        "bad release"
    );
    page.check("refused");
    assert_eq!(store.get(&lease("billing/nightly"))["state"], "leased");
    page.finish();
}
