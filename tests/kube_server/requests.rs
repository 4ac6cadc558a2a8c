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

/// A request in each line: its method, its path below the leases of the namespace or a whole one, the
/// type of its body if it is not JSON, and the user if it is not the administrator. Then the body, and
/// the answer. Where the fake answers otherwise, its answer is followed by that of the real server and
/// the reason for the difference.
///
/// `$META` is the metadata of the object as it is: `$V` its version, and `$U` its uid. `$OLD` is the
/// version before.
const REQUESTS: &str = r#"
GET /tests.job | | 404 NotFound
GET / | | 200 list of 0
POST / | {} | 422 Invalid
POST / | {"metadata": {"name": "UPPER"}} | 422 Invalid
POST / | {"metadata": {"name": "a_b"}} | 422 Invalid
POST / | {"metadata": {"name": "-a"}} | 422 Invalid
POST / | {"metadata": {"name": "a."}} | 422 Invalid
POST / | {"metadata": {"name": "a..b"}} | 422 Invalid
POST / | {"metadata": {"name": "$LONG"}} | 422 Invalid
POST / | {"metadata": {"name": "tests.job", "namespace": "other"}, "spec": {}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job", "resourceVersion": "7"}, "spec": {}} | 500
POST / | {"metadata": {"name": "tests.job"}, "spec": {"leaseDurationSeconds": 0}} | 422 Invalid
POST / | {"metadata": {"name": "tests.job"}, "spec": {"leaseTransitions": -1}} | 422 Invalid
POST / | {"metadata": {"name": "tests.job"}, "spec": {"leaseDurationSeconds": "15"}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job"}, "spec": {"leaseDurationSeconds": 1.5}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job"}, "spec": {"leaseDurationSeconds": 3000000000}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job"}, "spec": {"renewTime": "2026-01-01T00:00:00.123Z"}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job"}, "spec": {"renewTime": "now"}} | 400 BadRequest
POST / | {"metadata": {"name": "tests.job", "annotations": {"a": 1}}, "spec": {}} | 400 BadRequest
POST / | { | 422 Invalid | 400 BadRequest | tenure sends no such object
POST / | {"metadata": {"name": "tests.job"}, "spec": {}} | 201 {}
POST / | {"metadata": {"name": "tests.job"}, "spec": {}} | 409 AlreadyExists
GET /tests.job | | 200 {} same version
PUT /tests.job | {"metadata": {"name": "tests.job"}, "spec": {}} | 422 Invalid
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}} | 200 {"holderIdentity":"a","leaseDurationSeconds":15}
PUT /tests.job | {"metadata": {"name": "tests.job", "uid": "$U", "resourceVersion": "$OLD"}, "spec": {"holderIdentity": "b"}} | 409 Conflict
PUT /tests.job | {"metadata": {"name": "tests.job", "uid": "another", "resourceVersion": "$V"}, "spec": {}} | 409 Conflict
PUT /other | {"metadata": {$META}, "spec": {}} | 400 BadRequest
PUT /tests.job | {"metadata": {"name": "tests.job", "namespace": "other", "resourceVersion": "$V"}, "spec": {}} | 200 {} | 400 BadRequest | tenure sends no such object
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "a"}} | 200 {"holderIdentity":"a"}
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "a"}} | 200 {"holderIdentity":"a"} same version
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "", "leaseTransitions": 0}} | 200 {"holderIdentity":"","leaseTransitions":0}
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": null, "leaseTransitions": 1}} | 200 {"leaseTransitions":1}
PUT /tests.job | {"metadata": {$META}, "spec": {"renewTime": "2026-01-01T02:00:00.000001+02:00"}} | 400 BadRequest | 200 {"renewTime":"2026-01-01T00:00:00.000001Z"} | tenure writes times in UTC
PUT /tests.job | {"metadata": {$META}, "spec": {"renewTime": "9999-12-31T23:59:59.999999Z"}} | 200 {"renewTime":"9999-12-31T23:59:59.999999Z"}
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "a", "colour": "red"}} | 200 {"holderIdentity":"a"}
PUT /tests.job | {"metadata": {$META}, "spec": {"holderIdentity": "b", "strategy": "OldestEmulationVersion"}} | 200 {"holderIdentity":"b"}
PUT /tests.job | {"metadata": {$META, "annotations": {"big": "$BIG"}}, "spec": {}} | 422 Invalid
PUT /tests.job | {"metadata": {$META, "annotations": {"k": "v"}}, "spec": {}} | 200 {} with k
PUT /tests.job | {"metadata": {"name": "tests.job", "resourceVersion": "$V"}, "spec": {}} | 200 {}
PUT /tests.job | {"metadata": {"name": "tests.job", "resourceVersion": "seven"}, "spec": {}} | 500
PUT /tests.job | {"metadata": {"name": "tests.job", "resourceVersion": "0"}, "spec": {}} | 409 Conflict | 422 Invalid | tenure sends back the version that the server gave it
PUT /tests.job | {"metadata": {$META}, "spec": {"leaseDurationSeconds": 0}} | 422 Invalid
PUT /tests.job text/plain | {"metadata": {$META}, "spec": {}} | 200 {} same version | 415 UnsupportedMediaType | tenure sends no such object
PATCH /tests.job application/merge-patch+json | {"spec": {"holderIdentity": "c"}} | 200 {"holderIdentity":"c"}
PATCH /tests.job application/strategic-merge-patch+json | {"spec": {"holderIdentity": "d"}} | 200 {"holderIdentity":"d"}
PATCH /tests.job application/merge-patch+json | {"metadata": {"resourceVersion": "$OLD"}, "spec": {"holderIdentity": "e"}} | 409 Conflict
PATCH /tests.job text/plain | {"spec": {"holderIdentity": "f"}} | 415 UnsupportedMediaType
PATCH /none application/merge-patch+json | {"spec": {"holderIdentity": "f"}} | 404 NotFound
PATCH /tests.job application/apply-patch+yaml | {$LEASE, "metadata": {"name": "tests.job"}, "spec": {"holderIdentity": "g"}} | 400 BadRequest | 422 Invalid | tenure sends no such object
PATCH /tests.job?fieldManager=a application/apply-patch+yaml | {$LEASE, "metadata": {"name": "tests.job"}, "spec": {"holderIdentity": "g"}} | 409 Conflict
PATCH /tests.job?fieldManager=a&force=true application/apply-patch+yaml | {$LEASE, "metadata": {"name": "tests.job"}, "spec": {"holderIdentity": "g"}} | 200 {"holderIdentity":"g"}
PATCH /tests.job?fieldManager=b application/apply-patch+yaml | {$LEASE, "metadata": {"name": "tests.job"}, "spec": {"holderIdentity": "h"}} | 409 Conflict
PATCH /new?fieldManager=a application/apply-patch+yaml | {$LEASE, "metadata": {"name": "new"}, "spec": {"holderIdentity": "i"}} | 201 {"holderIdentity":"i"}
DELETE /tests.job | | 405 MethodNotAllowed | 200 Success | tenure deletes nothing, and the tests delete by a call
GET /tests.job | | 404 NotFound
PUT /tests.job | {"metadata": {$META}, "spec": {}} | 409 Conflict
PUT /tests.job | {"metadata": {"name": "tests.job", "resourceVersion": "$V"}, "spec": {}} | 201 {}
PUT /again | {"metadata": {"name": "again"}} | 201 {}
POST /tests.job | {} | 405 MethodNotAllowed
PUT / | {} | 405 MethodNotAllowed
POST /apis/coordination.k8s.io/v1/namespaces/nowhere/leases | {"metadata": {"name": "tests.job"}, "spec": {}} | 404 NotFound
GET /apis/coordination.k8s.io/v1/namespaces/nowhere/leases/tests.job | | 404 NotFound
GET /apis/coordination.k8s.io/v2/namespaces/apps/leases/tests.job | | 404 NotFound
GET /tests.job as wrong | | 401 Unauthorized
GET /tests.job as powerless | | 403 cannot get resource
PUT /tests.job as powerless | {} | 403 cannot update resource
POST / as powerless | {} | 403 cannot create resource
GET /apis/coordination.k8s.io/v1/namespaces/nowhere/leases/tests.job as powerless | | 403 cannot get resource
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews | $REVIEW get | 201 allowed true
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews | $REVIEW create | 201 allowed true
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews as powerless | $REVIEW get | 201 allowed false
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews as powerless | $REVIEW update | 201 allowed false
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews as powerless | $REVIEW create | 201 allowed false
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews as wrong | $REVIEW get | 401 Unauthorized
POST /apis/authentication.k8s.io/v1/selfsubjectreviews as powerless | {} | 201 a user
POST /apis/authentication.k8s.io/v1/selfsubjectreviews as wrong | {} | 401 Unauthorized
"#;

/// A request, and its answer.
#[derive(Debug)]
struct Row {
    user: &'static str,
    method: &'static str,
    path: &'static str,
    form: &'static str,
    body: String,
    /// The answers of the fake and of the real server.
    answers: [&'static str; 2],
    /// Why they differ.
    why: &'static str,
}

impl Row {
    fn read(line: &'static str) -> Self {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let (head, body, answer) = (parts[0], parts[1], parts[2]);
        let (head, user) = head.split_once(" as ").unwrap_or((head, ADMIN));
        let mut words = head.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, path, form) = (word(), word(), word());
        let body = match body.split_once("$REVIEW ") {
            Some((_, verb)) => review(verb),
            None => body.to_owned(),
        };
        Self {
            user,
            method,
            path: path.trim_end_matches('/'),
            form: if form.is_empty() {
                "application/json"
            } else {
                form
            },
            body,
            answers: [answer, parts.get(3).copied().unwrap_or(answer)],
            why: parts.get(4).copied().unwrap_or_default(),
        }
    }
}

/// The question whether a right is given.
fn review(verb: &str) -> String {
    let attributes = json!({ "group": "coordination.k8s.io", "resource": "leases", "verb": verb,
        "namespace": NAMESPACE, "name": (verb != "create").then_some(LEASE) });
    json!({ "spec": { "resourceAttributes": attributes } }).to_string()
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
        let mut body = row.body.clone();
        for (name, value) in [
            (
                "$META",
                r#""name": "tests.job", "uid": "$U", "resourceVersion": "$V""#,
            ),
            (
                "$LEASE",
                r#""apiVersion": "coordination.k8s.io/v1", "kind": "Lease""#,
            ),
            ("$V", version),
            ("$OLD", old),
            ("$U", uid),
            ("$LONG", &"n".repeat(254)),
            ("$BIG", &"b".repeat(300 << 10)),
        ] {
            body = body.replace(name, value);
        }
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
    let rows: Vec<Row> = REQUESTS.trim().lines().map(Row::read).collect();
    let mut wrong = Vec::new();
    for row in &rows {
        let answers = [fake.ask(row), real.ask(row)];
        if answers.each_ref().map(|it| it.trim_end()) != row.answers {
            wrong.push(format!("{row:.80?}\n  {answers:?}"));
        }
        if row.method == "DELETE" {
            api.delete();
        }
    }
    assert!(wrong.is_empty(), "other answers:\n{}", wrong.join("\n"));
    for row in rows.iter().filter(|row| !row.why.is_empty()) {
        let [fake, real] = row.answers;
        let (method, path, why) = (row.method, row.path, row.why);
        eprintln!("{method} {path:?}: {fake:?} of the fake, {real:?} of the server: {why}");
    }
}
