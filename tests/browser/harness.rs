//! Tests of these tests: each check finds a page that violates it, and only that.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Html;
use axum::routing::get;
use serde_json::json;
use tenure_tests::Limit;
use tokio::net::TcpListener;

use crate::page::{NARROW, Page, Theme, WIDE, pictures};

const ICON: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>"#;

/// A page without a fault, up to the end of its body.
const RIGHT: &str = r#"<!doctype html><html lang="en"><head><title>A page</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="icon" href="/icon.svg">
    <style>
      body { background: #fff; color: #000; }
      @media (prefers-color-scheme: dark) { body { background: #000; color: #fff; } }
    </style></head><body><main><h1>A page</h1><p>Text.</p>"#;

/// A fault, the policy of the page, and a part of the message about it.
const WRONG: &[(&str, &str, &str)] = &[
    (r#"<img src="/icon.svg">"#, "", "image-alt"),
    (
        r#"<p style="background: #fff; color: #bbb">pale</p>"#,
        "",
        "color-contrast",
    ),
    (r#"<p style="width: 400px">wide</p>"#, "", "p to 408"),
    (
        "<script>console.error('said')</script>",
        "",
        "the console has",
    ),
    ("<script>missing()</script>", "", "missing is not defined"),
    (
        "<script>Promise.reject(new Error('later'))</script>",
        "",
        "not handled: Error: later",
    ),
    (
        "<script>tests.ran.push('run')</script>",
        "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'",
        "script-src-elem: inline",
    ),
    (
        r#"<p>Text.<img src="http://localhost:1/a.svg" alt="a"></p>"#,
        "",
        "a request to http://localhost:1/a.svg",
    ),
    (
        "<script>document.cookie = 'a=b'</script>",
        "",
        "has the cookie \"a=b\"",
    ),
    (
        r#"<style>@keyframes a { from { margin-left: 0 } to { margin-left: 9px } }
            p { animation: a 5s infinite }</style>"#,
        "",
        "moves although",
    ),
];

/// Serves the right page, and one for each fault. They end with the runtime.
async fn serve() -> String {
    let icon = || async { ([(CONTENT_TYPE, "image/svg+xml")], ICON) };
    let page = |Path(index): Path<usize>| async move {
        let (fault, policy, _) = WRONG.get(index).copied().unwrap_or_default();
        let html = format!("{RIGHT}{fault}</main></body></html>");
        ([(CONTENT_SECURITY_POLICY, policy)], Html(html))
    };
    let router = Router::new()
        .route("/icon.svg", get(icon))
        .route("/{index}", get(page));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[test]
fn each_check_of_a_page_finds_its_fault() {
    let Some(page) = Page::start("each_check_of_a_page_finds_its_fault") else {
        return;
    };
    let _limit = Limit::start();
    let origin = page.block_on(serve());
    page.open(&origin, &format!("/{}", WRONG.len()));
    page.check("harness-right");
    assert_eq!(page.take_wrong(), [""; 0], "a page without a fault");
    for (index, (fault, _, message)) in WRONG.iter().enumerate() {
        page.open(&origin, &format!("/{index}"));
        page.check("harness-wrong");
        let found = page.take_wrong();
        let is_it = |found: &String| found.contains(message);
        assert!(found.iter().any(is_it), "{fault}: {found:#?}");
        // Cookies of a host are shared by its ports, and would be found in the pages after this.
        page.js("document.cookie = 'a=; max-age=0'");
    }
    page.open(&origin, &format!("/{}", WRONG.len()));
    let state = "return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]";
    page.show_as(Theme::Dark, NARROW);
    assert_eq!(page.js(state), json!([NARROW, true]));
    page.show_as(Theme::Light, WIDE);
    assert_eq!(page.js(state), json!([WIDE, false]));
    assert!(pictures().join("harness-right-dark-360.png").is_file());
    page.finish();
}

#[test]
fn keys_reach_the_element_that_has_the_focus() {
    let Some(page) = Page::start("keys_reach_the_element_that_has_the_focus") else {
        return;
    };
    let _limit = Limit::start();
    let origin = page.block_on(serve());
    page.open(&origin, "/99");
    page.js(
        "document.querySelector('main').insertAdjacentHTML('beforeend',
        '<input id=\"one\" aria-label=\"one\"><input id=\"two\" aria-label=\"two\">')",
    );
    page.press("Tab");
    page.type_text("a/b é");
    page.press("Tab");
    page.type_text("last");
    page.press_with_shift("Tab");
    page.press("Backspace");
    let state = "return [one.value, two.value, document.activeElement.id]";
    // Shift and Tab select the whole text of the field.
    assert_eq!(page.js(state), json!(["", "last", "one"]));
    page.finish();
}
