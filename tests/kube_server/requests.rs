//! The same requests to the fake and to the real server. Each difference has its reason here.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tenure_tests::Limit;
use tenure_tests::api_server::{Answer, ApiServer, answer_to};
use tokio::runtime::Runtime;

use super::api::Api;
use super::{LEASE, NAMESPACE};

/// A person, and a service account without rights.
const ADMIN: &str = "";
const POWERLESS: &str = "powerless";
const WRONG: &str = "wrong";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request, and its answer.
struct Row {
    user: &'static str,
    method: &'static str,
    /// The path below the leases of the namespace, or a whole one.
    path: &'static str,
    form: &'static str,
    /// The object. `$V` is its last version, `$OLD` the one before, `$U` its uid, `$BIG` a long text.
    body: String,
    answer: Expected,
}

enum Expected {
    Same(&'static str),
    /// The answers of the fake and of the real server, and why the difference stays.
    Differs(&'static str, &'static str, &'static str),
}

use Expected::{Differs, Same};

fn row(method: &'static str, path: &'static str, body: impl Into<String>, answer: Expected) -> Row {
    Row {
        user: ADMIN,
        method,
        path,
        form: JSON,
        body: body.into(),
        answer,
    }
}

impl Row {
    fn of(self, user: &'static str) -> Self {
        Self { user, ..self }
    }

    fn form(self, form: &'static str) -> Self {
        Self { form, ..self }
    }
}

/// An object with these fields of its metadata and its spec.
fn object(metadata: &str, spec: &str) -> String {
    let comma = if metadata.is_empty() { "" } else { ", " };
    format!(r#"{{"metadata": {{"name": "{LEASE}"{comma}{metadata}}}, "spec": {{{spec}}}}}"#)
}

/// A change of the object as it is.
fn change(spec: &str) -> String {
    object(r#""uid": "$U", "resourceVersion": "$V""#, spec)
}

/// A new object with this name.
fn named(name: &str) -> String {
    json!({ "metadata": { "name": name } }).to_string()
}

const STRICT: &str = "tenure sends no such object";
const VERSIONS: &str = "tenure sends back the version that the server gave it";

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const USER_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The question whether a right is given.
fn review(verb: &str) -> String {
    let attributes = json!({ "group": "coordination.k8s.io", "resource": "leases", "verb": verb,
        "namespace": NAMESPACE, "name": (verb != "create").then_some(LEASE) });
    json!({ "spec": { "resourceAttributes": attributes } }).to_string()
}

/// Requests for an object that does not exist, its creation, and its changes.
fn writes() -> Vec<Row> {
    let long = "n".repeat(254);
    let big = r#""uid": "$U", "resourceVersion": "$V", "annotations": {"big": "$BIG"}"#;
    vec![
        row("GET", "/tests.job", "", Same("404 NotFound")),
        row("GET", "", "", Same("200 list of 0")),
        row("POST", "", "{}", Same("422 Invalid")),
        row("POST", "", named("UPPER"), Same("422 Invalid")),
        row("POST", "", named("a_b"), Same("422 Invalid")),
        row("POST", "", named("-a"), Same("422 Invalid")),
        row("POST", "", named("a."), Same("422 Invalid")),
        row("POST", "", named("a..b"), Same("422 Invalid")),
        row("POST", "", named(&long), Same("422 Invalid")),
        row(
            "POST",
            "",
            object(r#""namespace": "other""#, ""),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object(r#""resourceVersion": "7""#, ""),
            Same("500 "),
        ),
        row(
            "POST",
            "",
            object("", r#""leaseDurationSeconds": 0"#),
            Same("422 Invalid"),
        ),
        row(
            "POST",
            "",
            object("", r#""leaseTransitions": -1"#),
            Same("422 Invalid"),
        ),
        row(
            "POST",
            "",
            object("", r#""leaseDurationSeconds": "15""#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object("", r#""leaseDurationSeconds": 1.5"#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object("", r#""leaseDurationSeconds": 3000000000"#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object("", r#""renewTime": "2026-01-01T00:00:00Z""#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object("", r#""renewTime": "2026-01-01T00:00:00.123Z""#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object("", r#""renewTime": "now""#),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            object(r#""annotations": {"a": 1}"#, ""),
            Same("400 BadRequest"),
        ),
        row(
            "POST",
            "",
            "{",
            Differs("422 Invalid", "400 BadRequest", STRICT),
        ),
        row("POST", "", object("", ""), Same("201 {}")),
        row("POST", "", object("", ""), Same("409 AlreadyExists")),
        row("GET", "/tests.job", "", Same("200 {} same version")),
        row("PUT", "/tests.job", object("", ""), Same("422 Invalid")),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "a", "leaseDurationSeconds": 15"#),
            Same(r#"200 {"holderIdentity":"a","leaseDurationSeconds":15}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            object(
                r#""uid": "$U", "resourceVersion": "$OLD""#,
                r#""holderIdentity": "b""#,
            ),
            Same("409 Conflict"),
        ),
        row(
            "PUT",
            "/tests.job",
            object(r#""uid": "another", "resourceVersion": "$V""#, ""),
            Same("409 Conflict"),
        ),
        row("PUT", "/other", change(""), Same("400 BadRequest")),
        row(
            "PUT",
            "/tests.job",
            object(r#""namespace": "other", "resourceVersion": "$V""#, ""),
            Differs("200 {}", "400 BadRequest", STRICT),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "a""#),
            Same(r#"200 {"holderIdentity":"a"}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "a""#),
            Same(r#"200 {"holderIdentity":"a"} same version"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "", "leaseTransitions": 0"#),
            Same(r#"200 {"holderIdentity":"","leaseTransitions":0}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": null, "leaseTransitions": 1"#),
            Same(r#"200 {"leaseTransitions":1}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""renewTime": "2026-01-01T02:00:00.000001+02:00""#),
            Differs(
                "400 BadRequest",
                r#"200 {"renewTime":"2026-01-01T00:00:00.000001Z"}"#,
                "tenure writes times in UTC",
            ),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""renewTime": "9999-12-31T23:59:59.999999Z""#),
            Same(r#"200 {"renewTime":"9999-12-31T23:59:59.999999Z"}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "a", "colour": "red""#),
            Same(r#"200 {"holderIdentity":"a"}"#),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""holderIdentity": "b", "strategy": "OldestEmulationVersion""#),
            Same(r#"200 {"holderIdentity":"b"}"#),
        ),
        row("PUT", "/tests.job", object(big, ""), Same("422 Invalid")),
        row(
            "PUT",
            "/tests.job",
            object(
                r#""uid": "$U", "resourceVersion": "$V", "annotations": {"k": "v"}"#,
                "",
            ),
            Same("200 {} with k"),
        ),
        row(
            "PUT",
            "/tests.job",
            object(r#""resourceVersion": "$V""#, ""),
            Same("200 {}"),
        ),
        row(
            "PUT",
            "/tests.job",
            object(r#""resourceVersion": "seven""#, ""),
            Same("500 "),
        ),
        row(
            "PUT",
            "/tests.job",
            object(r#""resourceVersion": "0""#, ""),
            Differs("409 Conflict", "422 Invalid", VERSIONS),
        ),
        row(
            "PUT",
            "/tests.job",
            change(r#""leaseDurationSeconds": 0"#),
            Same("422 Invalid"),
        ),
        row(
            "PUT",
            "/tests.job",
            change(""),
            Differs("200 {} same version", "415 UnsupportedMediaType", STRICT),
        )
        .form("text/plain"),
    ]
}

/// Patches, requests after a deletion, and requests of others.
fn others() -> Vec<Row> {
    let apply = |holder: &str| {
        let kind = r#""apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "#;
        object("", &format!(r#""holderIdentity": "{holder}""#)).replacen(
            '{',
            &format!("{{{kind}"),
            1,
        )
    };
    let spec = |holder: &str| format!(r#"{{"spec": {{"holderIdentity": "{holder}"}}}}"#);
    let versioned = r#"{"metadata": {"resourceVersion": "$OLD"}, "spec": {"holderIdentity": "e"}}"#;
    let (of_a, of_b) = ("/tests.job?fieldManager=a", "/tests.job?fieldManager=b");
    vec![
        row(
            "PATCH",
            "/tests.job",
            spec("c"),
            Same(r#"200 {"holderIdentity":"c"}"#),
        )
        .form(MERGE),
        row(
            "PATCH",
            "/tests.job",
            spec("d"),
            Same(r#"200 {"holderIdentity":"d"}"#),
        )
        .form(STRATEGIC),
        row("PATCH", "/tests.job", versioned, Same("409 Conflict")).form(MERGE),
        row(
            "PATCH",
            "/tests.job",
            spec("f"),
            Same("415 UnsupportedMediaType"),
        )
        .form("text/plain"),
        row("PATCH", "/none", spec("f"), Same("404 NotFound")).form(MERGE),
        row(
            "PATCH",
            "/tests.job",
            apply("g"),
            Differs("400 BadRequest", "422 Invalid", STRICT),
        )
        .form(APPLY),
        row("PATCH", of_a, apply("g"), Same("409 Conflict")).form(APPLY),
        row(
            "PATCH",
            "/tests.job?fieldManager=a&force=true",
            apply("g"),
            Same(r#"200 {"holderIdentity":"g"}"#),
        )
        .form(APPLY),
        row("PATCH", of_b, apply("h"), Same("409 Conflict")).form(APPLY),
        row(
            "PATCH",
            "/new?fieldManager=a",
            apply("i").replace(LEASE, "new"),
            Same(r#"201 {"holderIdentity":"i"}"#),
        )
        .form(APPLY),
        row(
            "DELETE",
            "/tests.job",
            "",
            Differs(
                "405 MethodNotAllowed",
                "200 Success",
                "tenure deletes nothing, and the tests delete by a call",
            ),
        ),
        row("GET", "/tests.job", "", Same("404 NotFound")),
        row("PUT", "/tests.job", change(""), Same("409 Conflict")),
        row(
            "PUT",
            "/tests.job",
            object(r#""resourceVersion": "$V""#, ""),
            Same("201 {}"),
        ),
        row("PUT", "/again", named("again"), Same("201 {}")),
        row("POST", "/tests.job", "{}", Same("405 MethodNotAllowed")),
        row("PUT", "", "{}", Same("405 MethodNotAllowed")),
        row(
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases",
            object("", ""),
            Same("404 NotFound"),
        ),
        row(
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases?dryRun=All",
            object("", ""),
            Same("404 NotFound"),
        ),
        row(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/tests.job",
            "",
            Same("404 NotFound"),
        ),
        row(
            "GET",
            "/apis/coordination.k8s.io/v2/namespaces/apps/leases/tests.job",
            "",
            Same("404 NotFound"),
        ),
        row("GET", "/tests.job", "", Same("401 Unauthorized")).of(WRONG),
        row("GET", "/tests.job", "", Same("403 cannot get resource")).of(POWERLESS),
        row(
            "PUT",
            "/tests.job",
            "{}",
            Same("403 cannot update resource"),
        )
        .of(POWERLESS),
        row("POST", "", "{}", Same("403 cannot create resource")).of(POWERLESS),
        row(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/tests.job",
            "",
            Same("403 cannot get resource"),
        )
        .of(POWERLESS),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("get"),
            Same("201 allowed true"),
        ),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("create"),
            Same("201 allowed true"),
        ),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("get"),
            Same("201 allowed false"),
        )
        .of(POWERLESS),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("update"),
            Same("201 allowed false"),
        )
        .of(POWERLESS),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("create"),
            Same("201 allowed false"),
        )
        .of(POWERLESS),
        row(
            "POST",
            ACCESS_REVIEWS,
            review("get"),
            Same("401 Unauthorized"),
        )
        .of(WRONG),
        row("POST", USER_REVIEWS, "{}", Same("201 a user")).of(POWERLESS),
        row("POST", USER_REVIEWS, "{}", Same("401 Unauthorized")).of(WRONG),
    ]
}

/// A server of the comparison.
struct Side<'a> {
    runtime: &'a Runtime,
    http: reqwest::Client,
    url: String,
    tokens: BTreeMap<&'static str, String>,
    /// The last version of the object, the one before, and its uid.
    known: [String; 3],
}

impl Side<'_> {
    fn ask(&mut self, row: &Row) -> String {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/apps/leases";
        let path = match row.path.starts_with("/apis") {
            true => row.path.to_owned(),
            false => format!("{leases}{}", row.path),
        };
        let [version, old, uid] = &self.known;
        let body = row.body.replace("$V", version).replace("$OLD", old);
        let body = body
            .replace("$U", uid)
            .replace("$BIG", &"b".repeat(300 << 10));
        let method = Method::from_bytes(row.method.as_bytes()).unwrap();
        let request = self.http.request(method, format!("{}{path}", self.url));
        let mut request = request.bearer_auth(&self.tokens[row.user]);
        if !body.is_empty() {
            request = request.header("content-type", row.form).body(body);
        }
        let answer = self.runtime.block_on(answer_to(request));
        self.describe(&answer.expect("an answer"))
    }

    /// The answer without what is different in each run.
    fn describe(&mut self, (status, answer): &Answer) -> String {
        let is_list = answer["items"].is_array();
        let text = match answer["kind"].as_str() {
            _ if answer.is_string() => "text".into(),
            _ if is_list => format!("list of {}", answer["items"].as_array().unwrap().len()),
            Some("Status") if *status == 403 => {
                let message = answer["message"].as_str().unwrap_or_default();
                let verb = message.split_once("cannot ").map_or(message, |it| it.1);
                let verb = verb.split_once(" resource").map_or(verb, |it| it.0);
                format!("cannot {verb} resource")
            }
            Some("Status") => {
                let reason = answer["reason"]
                    .as_str()
                    .or_else(|| answer["status"].as_str());
                let reason = reason.unwrap_or_default();
                if *status == 500 {
                    String::new()
                } else {
                    reason.into()
                }
            }
            _ if answer["status"]["userInfo"]["username"].is_string() => "a user".into(),
            _ if answer["status"]["allowed"].is_boolean() => {
                format!("allowed {}", answer["status"]["allowed"])
            }
            _ => {
                let spec = &answer["spec"];
                let annotations = answer["metadata"]["annotations"].as_object();
                let annotations = annotations.into_iter().flat_map(|it| it.keys());
                let annotations: String = annotations.map(|it| format!(" with {it}")).collect();
                format!("{spec}{annotations}{}", self.note(&answer["metadata"]))
            }
        };
        format!("{status} {text}")
    }

    /// Keeps the version of the object, and says whether it is the same as before.
    fn note(&mut self, metadata: &Value) -> &'static str {
        if metadata["name"] != LEASE {
            return "";
        }
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let version = text("resourceVersion");
        let is_same = self.known[0] == version;
        if !is_same {
            self.known[1] = std::mem::replace(&mut self.known[0], version);
        }
        self.known[2] = text("uid");
        if is_same { " same version" } else { "" }
    }
}

#[test]
fn the_fake_answers_as_the_real_server_does_except_where_a_reason_is_written() {
    let test = "the_fake_answers_as_the_real_server_does_except_where_a_reason_is_written";
    let Some(server) = ApiServer::shared(test) else {
        return;
    };
    let _limit = Limit::start();
    server.create_namespace(NAMESPACE);
    server.create_account(NAMESPACE, POWERLESS);
    let tokens = |admin: &str, powerless: String| {
        BTreeMap::from([
            (ADMIN, admin.to_owned()),
            (POWERLESS, powerless),
            (WRONG, WRONG.to_owned()),
        ])
    };
    let mut real = Side {
        runtime: server.runtime(),
        http: server.client(),
        url: format!("https://{}", server.address()),
        tokens: tokens(ApiServer::ADMIN, server.token(NAMESPACE, POWERLESS)),
        known: Default::default(),
    };
    let api = server.runtime().block_on(Api::start());
    api.set_tokens(&[("admin", "admin"), (POWERLESS, POWERLESS)]);
    api.set_rights(POWERLESS, false);
    let mut fake = Side {
        http: tenure_tests::client::plain_http().build().unwrap(),
        url: api.url(),
        tokens: tokens("admin", POWERLESS.to_owned()),
        known: Default::default(),
        runtime: server.runtime(),
    };
    let rows: Vec<Row> = writes().into_iter().chain(others()).collect();
    assert!(rows.len() >= 50, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let answers = (fake.ask(row), real.ask(row));
        let expected = match row.answer {
            Same(answer) => (answer.to_owned(), answer.to_owned()),
            Differs(fake, real, _) => (fake.to_owned(), real.to_owned()),
        };
        if answers != expected {
            let Row {
                user,
                method,
                path,
                body,
                ..
            } = row;
            wrong.push(format!(
                "{user} {method} {path:?} {body:.80}\n  {answers:?}\n  {expected:?}"
            ));
        }
        if row.method == "DELETE" {
            api.delete();
        }
    }
    assert!(
        wrong.is_empty(),
        "answers, and the expected ones:\n{}",
        wrong.join("\n")
    );
    for Row {
        method,
        path,
        answer,
        ..
    } in &rows
    {
        if let Differs(fake, real, why) = answer {
            eprintln!("{method} {path:?}: {fake:?} of the fake, {real:?} of the server: {why}");
        }
    }
}
