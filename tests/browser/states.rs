//! Each state of the page, made by a real store: in both themes and two widths it violates no rule
//! of accessibility and does not scroll sideways, and a screenshot of it is kept.

use std::thread;
use std::time::Duration;

use serde_json::json;
use tenure_tests::process::Process;

use crate::front::{Change, Front};
use crate::page::{NARROW, Page, Theme, WIDE};
use crate::store::TestStore;

/// Opens the page with a code for this principal, and waits for the overview.
#[track_caller]
pub(crate) fn sign_in(page: &Page, store: &TestStore, principal: &str) {
    sign_in_at(page, &store.origin(), store, principal);
}

#[track_caller]
fn sign_in_at(page: &Page, origin: &str, store: &TestStore, principal: &str) {
    let path = format!("/#code={}", store.code(principal));
    page.open(origin, &path);
    let shows = format!(
        "document.body.dataset.connection === 'live'
            && document.getElementById('menu-button').textContent.includes('{principal}')"
    );
    let asks = "document.getElementById('replace').open";
    page.wait("an answer", &format!("return {asks} || {shows}"));
    page.js(&format!(
        "if ({asks}) document.getElementById('replace-submit').click()"
    ));
    page.wait("the principal", &format!("return !{asks} && {shows}"));
    wait_for_view(page, "overview");
}

#[track_caller]
pub(crate) fn wait_for_view(page: &Page, view: &str) {
    let is_shown = format!(
        "return document.body.dataset.view === '{view}'
            && document.body.dataset.connection === 'live'"
    );
    page.wait(&format!("the view {view}"), &is_shown);
}

/// Waits for a message instead of rows.
#[track_caller]
fn wait_for_message(page: &Page, message: &str) {
    let is_shown = format!(
        "const message = document.getElementById('overview-message');
        return !message.hidden && message.dataset.message === '{message}'"
    );
    page.wait(&format!("the message {message}"), &is_shown);
}

/// Waits until the row of this election matches a selector.
#[track_caller]
pub(crate) fn wait_for_row(page: &Page, election: &str, selector: &str) {
    let is_shown = format!(
        "return document.querySelector('#rows tr[data-election=\"{election}\"]{selector}') !== null"
    );
    page.wait(&format!("the row of {election} as {selector:?}"), &is_shown);
}

/// Waits until an element matches this selector and is visible.
#[track_caller]
pub(crate) fn wait_until_visible(page: &Page, selector: &str) {
    let is_visible =
        format!("return document.querySelector({selector:?})?.checkVisibility() === true");
    page.wait(selector, &is_visible);
}

/// Replaces the text of the filter.
#[track_caller]
fn filter(page: &Page, text: &str) {
    page.js("document.getElementById('filter').focus();
        document.getElementById('filter').select()");
    page.press("Backspace");
    page.type_text(text);
}

/// Elections in each state, and for each reason to need a look. The candidates end with the value.
fn make_elections(store: &TestStore) -> Vec<Process> {
    let address = json!({ "metadata": { "address": "http://10.0.0.7:8080", "version": "4.2" } });
    let none = json!(null);
    store.acquire("billing/close", "worker-2", json!(3_600_000), &address);
    store.acquire("ops/backup", "cron-a", json!("infinite"), &none);
    store.acquire("ops/cleanup", "worker-5", json!(1_000), &none);
    // Nobody can lead it for a while, although a candidate waits.
    let delay = json!({ "lock_delay_ms": 600_000 });
    store.acquire("billing/invoices", "worker-1", json!(1_000), &delay);
    store.let_wait("billing/invoices", "worker-2", 100);
    let released = store.acquire("ops/report", "worker-6", json!(60_000), &none);
    store.release("ops/report", &released, "resigned");
    for _ in 0..4 {
        let lease_id = store.acquire("search/reindex", "worker-9", json!(60_000), &none);
        store.release("search/reindex", &lease_id, "task_failed");
    }
    store.acquire("search/reindex", "worker-9", json!(600_000), &none);
    store.acquire("mail/send", "worker-4", json!(90_000), &none);
    store.acquire("mail/bounce", "worker-7", json!(600_000), &none);
    store.breaks("mail/bounce", 500_000, "bad release");
    vec![
        store.run("billing/nightly", "worker-1", 100),
        store.run("billing/nightly", "worker-3", 100),
        store.run("billing/nightly", "worker-8", 200),
    ]
}

#[test]
fn each_state_of_the_overview_is_accessible_and_fits() {
    let test = "each_state_of_the_overview_is_accessible_and_fits";
    let Some(page) = Page::start(test) else {
        return;
    };
    let store = TestStore::guarded();
    // The page asks who it is before anybody has signed in.
    page.expect_message("status of 401");
    page.open(&store.origin(), "/");
    wait_until_visible(&page, "#signin[data-reason=none]");
    page.check("signed-out");

    sign_in(&page, &store, "ada");
    wait_for_message(&page, "empty");
    page.check("empty");

    let _candidates = make_elections(&store);
    wait_for_row(&page, "billing/nightly", "[data-kind=led]");
    wait_for_row(&page, "ops/cleanup", "[data-state=expired]");
    wait_for_row(&page, "mail/bounce", "[data-state=breaking]");
    wait_for_row(&page, "search/reindex", "[data-kind=warn]");
    wait_for_row(&page, "billing/invoices", "[data-kind=bad]");
    page.check("overview");
    page.js("document.getElementById('menu-button').click()");
    wait_until_visible(&page, "#menu");
    page.check("menu");
    page.press("Escape");
    page.press("?");
    wait_until_visible(&page, "#help");
    page.check("help");
    page.press("Escape");

    filter(&page, "no-such-name");
    wait_for_message(&page, "nothing-matches");
    page.check("nothing-matches");
    page.js("document.getElementById('clear-filter').click()");
    wait_for_row(&page, "ops/backup", "");

    sign_in(&page, &store, "rita");
    page.wait(
        "no right to change",
        "return document.body.dataset.mayChange === 'false'",
    );
    wait_for_row(&page, "ops/backup", "");
    page.check("may-only-read");
    page.go_to(&format!("{}/#/billing/nightly", store.origin()));
    wait_until_visible(&page, "#election[data-state=ready]");
    let buttons = "return ['hand-over', 'break'].filter(id =>
        document.getElementById(id).checkVisibility())";
    assert_eq!(page.js(buttons), json!([]), "actions of a reader");
    page.check("may-only-read-election");
    page.finish();
}

#[test]
fn each_state_of_an_election_is_accessible_and_fits() {
    let Some(page) = Page::start("each_state_of_an_election_is_accessible_and_fits") else {
        return;
    };
    let store = TestStore::guarded();
    let front = Front::start(store.runtime(), store.address(), Change::default());
    let metadata = json!({ "address": "http://10.0.0.7:8080", "version": "4.2" });
    let more = json!({ "metadata": metadata });
    for (holder, reason) in [
        ("worker-1", "resigned"),
        ("worker-2", "task_failed"),
        ("worker-1", "shut_down"),
    ] {
        let lease_id = store.acquire("billing/nightly", holder, json!(600_000), &more);
        thread::sleep(Duration::from_millis(700));
        store.release("billing/nightly", &lease_id, reason);
        thread::sleep(Duration::from_millis(400));
    }
    store.acquire("billing/nightly", "worker-2", json!(600_000), &more);
    store.let_wait("billing/nightly", "worker-1", 100);
    store.let_wait("billing/nightly", "worker-3", 200);

    sign_in_at(&page, &front.origin(), &store, "ada");
    page.go_to(&format!("{}/#/billing/nightly", front.origin()));
    wait_until_visible(&page, "#election[data-state=ready]");
    wait_until_visible(&page, "#waiters li");
    wait_until_visible(&page, "#timeline svg");
    page.check("election");

    page.press("h");
    wait_until_visible(&page, "#action[data-kind=handover]");
    page.check("hand-over");
    page.press("Escape");
    page.press("b");
    wait_until_visible(&page, "#action[data-kind=break]");
    page.check("break");
    page.js("document.getElementById('less-time').open = true;
        document.getElementById('period').focus()");
    page.type_text("1");
    page.check("break-less-time");

    // The right to break ends while the dialog is open.
    fill_dialog(&page, "bad release", "billing/nightly");
    front.hold("/break");
    page.press("Enter");
    // The page gives a request up after a while, and a busy machine may need longer for all checks.
    let submit = || {
        let is_busy = "const button = document.getElementById('action-submit');
            if (button.ariaBusy === 'true' || button.disabled) return true;
            button.click();";
        page.wait("a busy button", is_busy);
    };
    page.check_after("under-way", submit);
    submit();
    front.hold("");
    wait_until_visible(&page, "#toast");
    page.check("done");
    page.go_to(&format!("{}/#/billing/no-such-election", front.origin()));
    wait_until_visible(&page, "#election[data-state=unknown]");
    page.expect_message("404");
    let are_off = "return document.getElementById('break').disabled
        && document.getElementById('hand-over').disabled";
    assert_eq!(
        page.js(are_off),
        true,
        "actions of an election that does not exist"
    );
    page.check("unknown-election");
    page.finish();
}

/// Types into the fields of the open dialog.
#[track_caller]
pub(crate) fn fill_dialog(page: &Page, reason: &str, name: &str) {
    page.js("document.getElementById('reason').focus()");
    page.type_text(reason);
    page.press("Tab");
    page.type_text(name);
}

#[test]
fn each_state_of_an_open_store_is_accessible_and_fits() {
    let Some(page) = Page::start("each_state_of_an_open_store_is_accessible_and_fits") else {
        return;
    };
    let mut store = TestStore::open();
    let front = Front::start(store.runtime(), store.address(), Change::default());
    store.acquire_many("jobs", 3);

    // The shell is there before the store has answered anything.
    front.hold("/v1/");
    for theme in [Theme::Light, Theme::Dark] {
        for width in [WIDE, NARROW] {
            page.open(&front.origin(), "/");
            wait_until_visible(&page, "#skeleton");
            page.check_as("loading", theme, width);
        }
    }
    wait_for_message(&page, "waiting");
    page.check("loading-for-long");
    front.hold("");
    wait_for_view(&page, "overview");
    wait_for_row(&page, "jobs/job-00002", "[data-kind=led]");
    wait_until_visible(&page, "#banner-open");
    page.check("open-mode");

    store.acquire_many("more", 230);
    page.wait(
        "the first 200 rows",
        "return document.querySelectorAll('#rows tr').length === 200",
    );
    page.wait_for_text("200 of 233");
    page.check("over-200");

    page.open(&store.origin(), "/");
    wait_for_view(&page, "overview");
    page.expect_message("Failed to load resource");
    store.kill();
    page.wait(
        "a lost connection",
        "return document.body.dataset.connection === 'down'",
    );
    page.check("disconnected");
    page.finish();
}

#[test]
fn over_20000_elections_ask_for_a_namespace_first() {
    let Some(page) = Page::start("over_20000_elections_ask_for_a_namespace_first") else {
        return;
    };
    let store = TestStore::in_memory();
    store.acquire_many("jobs", 20_001);
    store.acquire_many("other", 2);
    page.open(&store.origin(), "/");
    wait_for_message(&page, "choose-namespace");
    page.wait_for_text("other");
    page.check("over-20000");
    page.js("document.querySelector('#namespaces a[href*=other]').click()");
    wait_for_row(&page, "other/job-00001", "");
    page.finish();
}
