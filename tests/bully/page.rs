//! The page of a group, which each member serves.

use nix::sys::signal::Signal;
use reqwest::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tenure_tests::process::run;
use tenure_tests::wait_for;

use super::three::Group;

/// Sends a request, and follows no redirect.
fn get(url: &str) -> (StatusCode, HeaderMap, String) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let answer = client.get(url).send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        (status, headers, answer.text().await.unwrap())
    })
}

#[test]
fn each_member_serves_a_page_with_the_reports_of_all_members() {
    let group = Group::start();
    let (epoch, leader) = group.next_leader(0);
    let gone = if leader == 1 { 2 } else { 1 };
    let base = format!("http://{}", group.address(6 - leader - gone));

    let (status, headers, _) = get(&base);
    assert_eq!(status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(headers[LOCATION], "v1/peers/job/");
    let page = |file: &str| get(&format!("{base}/v1/peers/job/{file}"));
    let (_, _, html) = page("");
    for file in ["", "style.css", "page.js", "icon.svg"] {
        assert!(
            html.contains(&format!("\"{file}\"")) || file.is_empty(),
            "{file}"
        );
        let (status, headers, _) = page(file);
        assert_eq!(status, StatusCode::OK, "{file}");
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert_eq!(headers[CACHE_CONTROL], "no-store");
    }
    let (status, ..) = get(&format!("{base}/v1/peers/other/"));
    assert_eq!(status, StatusCode::NOT_FOUND);

    // The page shows the same as the command.
    let members = || -> Value { serde_json::from_str(&page("members").2).unwrap() };
    let shown = wait_for("agreement", || {
        let shown = members();
        let agreed = shown["leader"] == leader && shown["epoch"] == epoch;
        agreed.then_some(shown)
    });
    assert_eq!(shown["cluster"], "job");
    assert_eq!(shown["asked_by"], 6 - leader - gone);
    let flags = ["peers", "--json", "--election", "tests/job", "--peers"];
    let printed = run(&[&flags[..], &[group.peers.as_str()]].concat());
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let [shown, printed] = [shown, printed].map(|group| group["members"].as_array().cloned());
    for (shown, printed) in shown.unwrap().iter().zip(&printed.unwrap()) {
        for field in ["node", "priority", "url"] {
            assert_eq!(shown[field], printed[field]);
        }
        assert_eq!(shown["view"]["role"], printed["view"]["role"]);
    }

    // A member that does not answer has the reason, and does not delay the others.
    group.members[&gone].signal(Signal::SIGSTOP);
    wait_for("the reason", || {
        let shown = members();
        let is_gone = |member: &&Value| member["node"] == gone;
        let frozen = shown["members"].as_array().unwrap().iter().find(is_gone);
        let error = frozen?["error"].as_str()?;
        assert_eq!(error, "can't reach it: no answer within 1s");
        assert_eq!(shown["leader"], leader);
        Some(())
    });
    group.members[&gone].signal(Signal::SIGCONT);
}
