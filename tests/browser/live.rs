//! A store that is killed and starts again under an open page.

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::Limit;

use crate::page::Page;
use crate::states::{sign_in, wait_for_row, wait_for_view, wait_until_visible};
use crate::store::TestStore;

/// What the page shows of each election, sorted by name.
const SHOWN: &str = r"
    return [...document.querySelectorAll('#rows tr')].map(row => [row.dataset.election,
        row.dataset.state, row.querySelector('.holder').textContent,
        row.querySelector('.waiting .count').textContent]).sort()
";

/// What the page shows of time that passes.
const BARS: &str = r"
    return [...document.querySelectorAll('#rows tr')].map(row => [
        row.querySelector('.left-text').textContent,
        row.querySelector('.fill').getBoundingClientRect().width,
        row.querySelector('[role=meter]').getAttribute('aria-valuenow'),
        row.querySelector('time').textContent])
";

/// Keeps the names of the rows that are marked as changed from now on.
const MARKS: &str = r"
    window.marked = new Set();
    window.marks?.disconnect();
    // The marks of an earlier outage stay until the next one ends.
    for (const row of document.querySelectorAll('#rows tr[data-changed]'))
        row.removeAttribute('data-changed');
    window.marks = new MutationObserver(() => {
        for (const row of document.querySelectorAll('#rows tr[data-changed]'))
            window.marked.add(row.dataset.election);
    });
    window.marks.observe(document.getElementById('rows'),
        {subtree: true, childList: true, attributes: true});
";

/// The same as `SHOWN`, as the API has it.
fn listed(store: &TestStore) -> Value {
    let overview = store.get("/v1/overview?limit=200");
    let rows = overview["elections"].as_array().expect("rows");
    let mut rows: Vec<[String; 4]> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            [
                format!("{}/{}", text("namespace"), text("lease")),
                text("state"),
                row["holder"].as_str().unwrap_or("nobody").to_owned(),
                row["waiters"].to_string(),
            ]
        })
        .collect();
    rows.sort();
    json!(rows)
}

/// Waits until the page shows what the API has.
#[track_caller]
fn wait_until_same(page: &Page, store: &TestStore) {
    let start = Instant::now();
    loop {
        let (shown, listed) = (page.js(SHOWN), listed(store));
        if shown == listed {
            return;
        }
        let is_late = start.elapsed() > Duration::from_secs(20);
        assert!(!is_late, "the page has {shown:#}, the store has {listed:#}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the page says that the connection is lost, and returns the time that it took.
#[track_caller]
fn wait_for_banner(page: &Page) -> Duration {
    let start = Instant::now();
    page.wait_within(
        Duration::from_secs(10),
        "the banner",
        "return document.body.dataset.connection === 'down'
            && document.getElementById('banner-down').checkVisibility()",
    );
    start.elapsed()
}

#[test]
fn a_page_shows_a_killed_store_and_catches_up_after_its_start() {
    let test = "a_page_shows_a_killed_store_and_catches_up_after_its_start";
    let Some(page) = Page::start(test) else {
        return;
    };
    let _limit = Limit::start();
    let mut store = TestStore::open();
    page.expect_message("ERR_CONNECTION_REFUSED");
    page.expect_message("ERR_INCOMPLETE_CHUNKED_ENCODING");
    page.expect_message("ERR_CONNECTION_RESET");
    page.expect_message("ERR_EMPTY_RESPONSE");
    let none = json!(null);
    let first = store.acquire("jobs/first", "worker-1", json!(600_000), &none);
    store.acquire("jobs/second", "worker-2", json!(60_000), &none);
    let third = store.acquire("jobs/third", "worker-3", json!(3_000), &none);
    page.open(&store.origin(), "/");
    wait_for_view(&page, "overview");
    wait_until_same(&page, &store);
    for round in 0..2 {
        store.kill();
        let after = wait_for_banner(&page);
        println!("round {round}: the banner came after {after:?}");

        // No bar and no time counts on while nothing is known.
        let bars = page.js(BARS);
        thread::sleep(Duration::from_millis(1_500));
        assert_eq!(page.js(BARS), bars, "times that count on");
        let seconds = "return document.getElementById('down-text').textContent";
        let before = page.js(seconds);
        page.wait(
            "the seconds of the banner",
            &format!("{seconds} !== {before}"),
        );

        // No event tells the page of these changes.
        let more = format!("jobs/more-{round}");
        store.change_unseen(|store| {
            store.acquire(&more, "worker-4", json!(600_000), &none);
            if round == 0 {
                // By the page's clock this lease ends during the outage. It must not end while a
                // slow page comes back, which would be one more change. If it has ended before the
                // outage, the store refuses this, and nothing changes.
                store.renew("jobs/third", &third, 600_000);
                store.release("jobs/first", &first, "resigned");
            }
        });
        page.js(MARKS);
        store.start();
        let start = Instant::now();
        page.wait_within(
            Duration::from_secs(20),
            "the connection",
            "return document.body.dataset.connection === 'live'
                && !document.getElementById('banner-down').checkVisibility()",
        );
        println!(
            "round {round}: the page was back after {:?}",
            start.elapsed()
        );
        wait_until_same(&page, &store);
        // What changed meanwhile is marked, and nothing else.
        let expected = match round {
            0 => json!(["jobs/first", more]),
            _ => json!([more]),
        };
        assert_eq!(page.js("return [...window.marked].sort()"), expected);
    }
    // The stream works again: a change arrives without a reload.
    store.acquire("jobs/last", "worker-5", json!(600_000), &none);
    wait_for_row(&page, "jobs/last", "[data-kind=led]");
    page.finish();
}

#[test]
fn a_store_that_hangs_is_shown_and_its_page_catches_up() {
    let Some(page) = Page::start("a_store_that_hangs_is_shown_and_its_page_catches_up") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::guarded();
    store.acquire("jobs/first", "worker-1", json!(600_000), &json!(null));
    sign_in(&page, &store, "ada");
    wait_for_row(&page, "jobs/first", "[data-kind=led]");
    page.expect_message("ERR_");
    store.process().signal(Signal::SIGSTOP);
    page.wait(
        "the banner",
        "return document.body.dataset.connection === 'down'",
    );
    store.process().signal(Signal::SIGCONT);
    wait_for_view(&page, "overview");
    store.acquire("jobs/second", "worker-1", json!(600_000), &json!(null));
    wait_until_same(&page, &store);
    page.finish();
}

#[test]
fn a_browser_without_a_network_says_so_and_comes_back() {
    let Some(page) = Page::start("a_browser_without_a_network_says_so_and_comes_back") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::open();
    store.acquire("jobs/first", "worker-1", json!(600_000), &json!(null));
    page.open(&store.origin(), "/");
    wait_for_row(&page, "jobs/first", "[data-kind=led]");
    page.expect_message("ERR_INTERNET_DISCONNECTED");
    let network = |is_offline: bool| {
        let conditions = json!({
            "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        page.cdp("Network.emulateNetworkConditions", conditions);
    };
    network(true);
    wait_for_banner(&page);
    // Actions need the store.
    page.js("location.hash = '#/jobs/first'");
    network(false);
    wait_until_visible(&page, "#election[data-state=ready]");
    page.finish();
}
