//! Requests that a browser sends for pages of another origin.

use super::*;

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let before = api.get("job").await.1;
    let lease = "/v1/namespaces/ns/leases/job";
    let send = async |method: &str, path: &str, body: &str, headers: &[(&str, String)]| {
        let mut request = api.request(method.parse().unwrap(), path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if !body.is_empty() {
            request = request.header("content-type", JSON).body(body.to_owned());
        }
        answer(request.send().await.unwrap()).await
    };
    let verbs = VERBS.map(|(method, verb)| (method, format!("{lease}/{verb}"), good_body(verb)));
    let mut calls = Vec::from(verbs);
    let renewals = json!({"leases": [{"lease": "job", "lease_id": id(1)}]}).to_string();
    calls.push(("POST", "/v1/namespaces/ns/renew".into(), renewals));
    calls.push(("POST", format!("{lease}/break"), String::new()));
    calls.push(("DELETE", lease.into(), String::new()));
    for headers in of_another_origin(&api) {
        for (method, path, body) in &calls {
            let refused = send(method, path, body, &headers).await;
            assert_refused(&refused, 403, "cross_origin");
        }
        // A read is allowed, because no page can read the response.
        assert_ok(&send("GET", lease, "", &headers).await);
    }
    assert_eq!(api.get("job").await.1["revision"], before["revision"]);

    for (number, headers) in (1..).zip(of_no_other_origin(&api)) {
        assert_ok(&api.acquire("job", number).await);
        let renewal = json!({"lease_id": id(number)}).to_string();
        assert_ok(&send("POST", &format!("{lease}/renew"), &renewal, &headers).await);
        assert_ok(&send("POST", &format!("{lease}/break"), "", &headers).await);
        assert_ok(&api.release("job", number).await);
        assert_eq!(send("DELETE", lease, "", &headers).await.0, 204);
    }
}

#[tokio::test]
async fn a_page_of_another_origin_gets_no_stream_of_events() {
    let api = in_memory().api;
    let leases = "/v1/namespaces/ns/leases";
    // The headers of an `EventSource`, and of a client that accepts any type.
    let streams = [
        (format!("{leases}/job/events"), "text/event-stream"),
        (format!("{leases}/job/events"), "*/*"),
        (format!("{leases}/events"), "text/event-stream"),
        (format!("{leases}/events"), "*/*"),
    ];
    for (path, accept) in &streams {
        let open = async |headers: &[(&str, String)]| {
            let mut request = api.request(Method::GET, path).header("accept", *accept);
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            request.send().await.unwrap()
        };
        for headers in of_another_origin(&api) {
            let refused = open(&headers).await;
            // The body is not read, because a stream would have no end.
            assert_eq!(refused.status(), 403, "{path} {headers:?}");
            assert_refused(&answer(refused).await, 403, "cross_origin");
        }
        for headers in of_no_other_origin(&api) {
            let stream = open(&headers).await;
            assert_eq!(stream.headers()["content-type"], "text/event-stream");
        }
    }
    // On the path of the namespace's stream, a lease can be read like any other.
    assert_ok(&api.acquire("events", 1).await);
    for headers in of_another_origin(&api) {
        let mut request = api.request(Method::GET, &format!("{leases}/events"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("accept", "application/json");
        assert_ok(&answer(request.send().await.unwrap()).await);
    }
}

type Headers = Vec<(&'static str, String)>;

/// Returns the headers that a browser sends for a page of another origin.
fn of_another_origin(api: &Api) -> [Headers; 6] {
    let own = &api.origin;
    [
        vec![("origin", "http://evil.example".into())],
        vec![("origin", "null".into())],
        vec![("origin", "http://127.0.0.1:1".into())],
        vec![("origin", format!("{own}.evil.example"))],
        vec![("sec-fetch-site", "cross-site".into())],
        vec![
            ("sec-fetch-site", "same-site".into()),
            ("origin", own.clone()),
        ],
    ]
}

/// Returns the headers that a browser sends for a page of the store's own origin or without a page,
/// and the headers of other clients.
fn of_no_other_origin(api: &Api) -> [Headers; 4] {
    [
        vec![("origin", api.origin.clone())],
        vec![
            ("sec-fetch-site", "same-origin".into()),
            ("origin", "http://a.proxy".into()),
        ],
        vec![("sec-fetch-site", "none".into())],
        vec![],
    ]
}
