//! The content security policy of the page: what an attacker adds to it runs nothing and sends
//! nothing, and the browser reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::Html;
use serde_json::{Value, json};
use tenure_tests::Limit;
use tokio::net::TcpListener;

use crate::front::{Change, Front};
use crate::page::Page;
use crate::states::{wait_for_row, wait_for_view};
use crate::store::TestStore;

/// What an attacker could add to the page.
const ADDED: &str = r#"
    <script>alert('an inline script')</script>
    <script src="data:text/javascript,alert('a data script')"></script>
    <script src="ELSEWHERE/a.js"></script>
    <img src="ui/missing.svg" alt="" onerror="alert('a handler')">
    <img src="ELSEWHERE/a.svg" alt="">
    <style>body { background: url(ELSEWHERE/b.svg) }</style>
    <p style="background: url(ELSEWHERE/c.svg)">styled</p>
    <iframe src="ELSEWHERE/frame" title="a frame"></iframe>
    <object data="ELSEWHERE/object"></object>
    <base href="ELSEWHERE/">
"#;

/// What a script of the page itself must not be able to do, and the beginning of the report.
const TRIED: &[(&str, &str)] = &[
    (
        "document.body.innerHTML = '<img src=x onerror=alert(1)>'",
        "require-trusted-types-for",
    ),
    ("eval('alert(2)')", "require-trusted-types-for"),
    ("new Function('alert(3)')()", "require-trusted-types-for"),
    ("setTimeout('alert(4)')", "require-trusted-types-for"),
    (
        "const made = document.createElement('script'); made.textContent = 'alert(5)';
            document.body.append(made)",
        "require-trusted-types-for",
    ),
    (
        "document.body.setAttribute('onclick', 'alert(6)'); document.body.click()",
        "require-trusted-types-for",
    ),
    ("trustedTypes.createPolicy('default', {})", "trusted-types"),
    ("fetch('ELSEWHERE/').catch(() => 0)", "connect-src"),
    ("navigator.sendBeacon('ELSEWHERE/', 'x')", "connect-src"),
    (
        "new WebSocket('WEBSOCKET/').onerror = () => 0",
        "connect-src",
    ),
    ("new Image().src = 'ELSEWHERE/d.svg'", "img-src"),
    (
        "new Worker('data:text/javascript,0').onerror = event => event.preventDefault()",
        "require-trusted-types-for",
    ),
    (
        "const form = document.createElement('form'); form.action = 'ELSEWHERE/';
            document.body.append(form); form.submit()",
        "form-action",
    ),
    (
        "const base = document.createElement('base'); base.href = 'ELSEWHERE/';
            document.head.append(base)",
        "base-uri",
    ),
];

#[test]
fn injected_scripts_run_nothing_and_are_reported() {
    let Some(page) = Page::start("injected_scripts_run_nothing_and_are_reported") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::open();
    store.acquire("jobs/first", "worker-1", json!(600_000), &json!(null));
    let (elsewhere, hits) = serve_elsewhere(&page);
    let change = Change {
        added: ADDED.replace("ELSEWHERE", &elsewhere),
        ..Change::default()
    };
    let front = Front::start(store.runtime(), store.address(), change);
    // All of this is reported on the console too.
    page.expect_message("");
    page.open(&front.origin(), "/");
    wait_for_view(&page, "overview");
    // The page itself works nevertheless.
    wait_for_row(&page, "jobs/first", "[data-kind=led]");
    let here = |text: &str| text.replace("ELSEWHERE", &elsewhere);
    for directive in [
        "script-src-elem: inline",
        "script-src-attr: inline",
        "script-src-elem: data",
        "script-src-elem: ELSEWHERE/a.js",
        "img-src: ELSEWHERE/a.svg",
        "style-src-elem: inline",
        "style-src-attr: inline",
        "frame-src: ELSEWHERE",
        "object-src: ELSEWHERE",
        "base-uri: ELSEWHERE/",
    ] {
        wait_for_violation(&page, &here(directive));
    }
    for (script, directive) in TRIED {
        page.js("window.tests.violations = []");
        let script = here(script).replace("WEBSOCKET", &elsewhere.replace("http", "ws"));
        // A task of the page: the policy does not hold for what the driver itself evaluates.
        let script = format!("setTimeout(() => {{ try {{ {script} }} catch {{}} }})");
        page.try_js(&script);
        wait_for_violation(&page, directive);
    }
    assert_eq!(page.js("return window.tests.ran"), json!([]), "what ran");
    wait_for_row(&page, "jobs/first", "[data-kind=led]");
    assert_eq!(hits.load(Ordering::SeqCst), 0, "requests elsewhere");
    // The server elsewhere does count: a page without the policy reaches it.
    page.go_to(&elsewhere);
    assert!(hits.load(Ordering::SeqCst) > 0);
    page.take_wrong();
}

/// A server of another origin, and the number of its requests so far.
fn serve_elsewhere(page: &Page) -> (String, Arc<AtomicUsize>) {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = hits.clone();
    let router = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Html("<!doctype html><title>Elsewhere</title><body>") }
    });
    let listener = page.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    page.runtime()
        .spawn(async move { axum::serve(listener, router).await });
    (origin, hits)
}

#[track_caller]
fn wait_for_violation(page: &Page, directive: &str) {
    let is_reported = format!(
        "return window.tests.violations.some(text => text.startsWith({}))",
        Value::from(directive)
    );
    if page.poll(&is_reported).is_none() {
        let reported = page.js("return window.tests.violations");
        panic!("{directive} is not reported, but {reported:#}");
    }
}

#[test]
fn the_page_of_another_port_gets_nothing() {
    let Some(page) = Page::start("the_page_of_another_port_gets_nothing") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::guarded();
    store.acquire("jobs/first", "worker-1", json!(600_000), &json!(null));
    crate::states::sign_in(&page, &store, "ada");
    let (other, _) = serve_elsewhere(&page);
    // The browser and the store refuse what this page tries, and the console has it.
    page.expect_message("");
    page.open(&other, "/");
    let origin = store.origin();
    assert_eq!(
        page.js("return [localStorage.length, document.cookie]"),
        json!([0, ""])
    );
    let tried = page.call_back(
        "const [origin, done] = arguments;
        const paths = ['/', '/v1/overview', '/v1/whoami', '/v1/session', '/ui/app.js'];
        const ask = path => fetch(origin + path, {credentials: 'include'})
            .then(answer => answer.text(), () => 'refused');
        const frame = document.createElement('iframe');
        const framed = new Promise(done => frame.onload = () => {
            try { done(frame.contentDocument ? 'read' : 'refused'); }
            catch { done('refused'); }
        });
        frame.src = origin + '/';
        document.body.append(frame);
        Promise.all([...paths.map(ask), framed]).then(done)",
        json!([origin]),
    );
    let tried = tried.as_array().expect("answers");
    assert!(tried.iter().all(|answer| answer == "refused"), "{tried:?}");
    let posted = page.call_back(
        "const [origin, done] = arguments;
        fetch(`${origin}/v1/namespaces/jobs/leases/first/break`, {method: 'POST', mode: 'no-cors'})
            .then(() => done('sent'), () => done('refused'))",
        json!([origin]),
    );
    assert!(posted == "sent" || posted == "refused", "{posted}");
    assert_eq!(
        store.get("/v1/namespaces/jobs/leases/first")["state"],
        "leased"
    );
    page.take_wrong();
}

#[test]
fn the_page_works_under_a_path_prefix() {
    let Some(page) = Page::start("the_page_works_under_a_path_prefix") else {
        return;
    };
    let _limit = Limit::start();
    let store = TestStore::open();
    store.acquire("jobs/first", "worker-1", json!(600_000), &json!(null));
    let change = Change {
        prefix: "/tenure",
        ..Change::default()
    };
    let front = Front::start(store.runtime(), store.address(), change);
    page.open(&front.origin(), "/tenure/");
    wait_for_view(&page, "overview");
    wait_for_row(&page, "jobs/first", "[data-kind=led]");
    page.js("document.querySelector('#rows a').click()");
    crate::states::wait_until_visible(&page, "#election[data-state=ready]");
    page.finish();
}
