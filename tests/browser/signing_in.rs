//! Signing in and out: by a code in the address, by a pasted token, and each way in which a session
//! ends.

use std::time::Duration;

use serde_json::json;

use crate::page::Page;
use crate::states::{sign_in, wait_for_view, wait_until_visible};
use crate::store::TestStore;

/// Waits until the page asks to sign in again, for this reason.
#[track_caller]
fn wait_for_reason(page: &Page, reason: &str) {
    wait_until_visible(page, &format!("#signin[data-reason={reason}]"));
    let left = "return document.getElementById('total').textContent";
    assert_eq!(page.js(left), "", "what the page shows of the store");
}

/// What the browser keeps for the page.
const KEPT: &str = "return JSON.stringify([localStorage, sessionStorage, document.cookie])";

#[test]
fn a_code_and_a_pasted_token_sign_in_and_neither_is_kept() {
    let test = "a_code_and_a_pasted_token_sign_in_and_neither_is_kept";
    let Some(page) = Page::start(test) else {
        return;
    };
    let store = TestStore::guarded();
    let code = store.code("ada");
    page.open(&store.origin(), &format!("/#code={code}"));
    wait_for_view(&page, "overview");
    let address = page.js("return location.href");
    assert!(
        !address.as_str().expect("a URL").contains("code"),
        "{address}"
    );
    assert!(
        !page.js(KEPT).to_string().contains(&code),
        "the code is kept"
    );
    let history = page.cdp("Page.getNavigationHistory", json!({}));
    for entry in history["entries"].as_array().expect("entries") {
        assert!(!entry["url"].to_string().contains(&code), "{entry}");
    }
    let name = "return document.getElementById('menu-button').textContent";
    assert!(page.js(name).to_string().contains("ada"));

    // A code is good once.
    page.expect_message("status of 401");
    page.js("localStorage.clear()");
    page.open(&store.origin(), &format!("/#code={code}"));
    wait_for_reason(&page, "code");
    page.check("signed-out-code");

    page.js("document.getElementById('token').focus()");
    page.type_text("tnr1_wrong");
    page.press("Enter");
    page.wait(
        "a refusal",
        "return document.getElementById('signin-error').textContent",
    );
    page.check("wrong-token");
    page.js("document.getElementById('token').select()");
    let token = store.token("rita");
    page.type_text(&token);
    page.press("Enter");
    wait_for_view(&page, "overview");
    assert!(
        !page.js(KEPT).to_string().contains(&token),
        "the token is kept"
    );
    assert_eq!(page.js("return document.getElementById('token').value"), "");
    for url in page.requested() {
        assert!(!url.contains(&token) && !url.contains(&code), "{url}");
    }
    // A reload and another tab keep the session.
    page.open(&store.origin(), "/");
    wait_for_view(&page, "overview");
    page.finish();
}

/// Waits until the page shows the elections to this principal.
#[track_caller]
fn wait_for_principal(page: &Page, principal: &str) {
    wait_for_view(page, "overview");
    let name = "return document.getElementById('menu-button').textContent";
    assert!(page.js(name).to_string().contains(principal));
}

#[test]
fn an_address_with_a_code_replaces_no_session_without_a_question() {
    let test = "an_address_with_a_code_replaces_no_session_without_a_question";
    let Some(page) = Page::start(test) else {
        return;
    };
    let store = TestStore::guarded();
    sign_in(&page, &store, "rita");
    let kept = || page.js("return localStorage.getItem('tenure.session')");
    let before = kept();
    let open = |code: &str| page.open(&store.origin(), &format!("/#code={code}"));
    let session_of = |kept: &serde_json::Value| {
        let kept: serde_json::Value =
            serde_json::from_str(kept.as_str().expect("text")).expect("JSON");
        kept["session"].as_str().expect("a session").to_owned()
    };

    // An address of somebody else is refused.
    open(&store.code("ada"));
    wait_until_visible(&page, "#replace");
    let text = page.js("return document.getElementById('replace-text').textContent");
    assert_eq!(
        text,
        "You are signed in as rita. This address signs you in as ada."
    );
    assert_eq!(kept(), before);
    page.check("asks-to-replace");
    page.press("Escape");
    wait_for_principal(&page, "rita");
    assert_eq!(kept(), before);

    // A code that does not work leaves the session as it is.
    page.expect_message("status of 401");
    open("tnc1_wrong");
    page.wait(
        "a message",
        "return !document.getElementById('toast').hidden",
    );
    wait_for_principal(&page, "rita");
    assert_eq!(kept(), before);

    // With the person's consent the other session replaces this one, which ends at the store.
    open(&store.code("ada"));
    wait_until_visible(&page, "#replace");
    page.js("document.getElementById('replace-submit').click()");
    page.wait(
        "the other person",
        "return document.getElementById('menu-button').textContent.includes('ada')",
    );
    wait_for_principal(&page, "ada");
    let last = session_of(&before);
    page.wait(
        "the end of the session",
        &format!(
            "const headers = {{ Authorization: 'Bearer {last}' }};
         return fetch('v1/whoami', {{ headers }}).then(({{ status }}) => status === 401)"
        ),
    );

    // Signing out ends the session at the store.
    let last = session_of(&kept());
    page.js("document.getElementById('sign-out').click()");
    wait_for_reason(&page, "signed-out");
    page.wait(
        "the end of the session",
        &format!(
            "const headers = {{ Authorization: 'Bearer {last}' }};
         return fetch('v1/whoami', {{ headers }}).then(({{ status }}) => status === 401)"
        ),
    );
    page.finish();
}

#[test]
fn the_page_says_why_a_session_has_ended() {
    let Some(page) = Page::start("the_page_says_why_a_session_has_ended") else {
        return;
    };
    let mut store = TestStore::guarded();
    page.expect_message("status of 401");
    page.expect_message("ERR_CONNECTION_REFUSED");
    page.expect_message("ERR_INCOMPLETE_CHUNKED_ENCODING");

    sign_in(&page, &store, "rita");
    page.js("document.getElementById('sign-out').click()");
    wait_for_reason(&page, "signed-out");
    page.check("signed-out-by-hand");
    assert!(
        !page.js(KEPT).to_string().contains("tns1_"),
        "the session is kept"
    );

    store.add_principal("guest", &["--role", "read", "--expires", "6s"]);
    sign_in(&page, &store, "guest");
    wait_for_reason(&page, "expired");
    page.check("expired");

    sign_in(&page, &store, "rita");
    store.kill();
    store.start();
    wait_for_reason(&page, "restarted");
    page.check("restarted");

    sign_in(&page, &store, "rita");
    store.revoke("rita");
    page.wait_within(
        Duration::from_secs(10),
        "the end of the session",
        "return document.getElementById('signin').checkVisibility()",
    );
    let reason = page.js("return document.getElementById('signin').dataset.reason");
    assert_ne!(reason, json!("none"));
    page.check("revoked");
    page.finish();
}
