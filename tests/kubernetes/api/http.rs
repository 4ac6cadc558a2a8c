//! The HTTP side of the fake.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State as Shares};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::objects::{Patch, Refusal, not_found};
use super::{Asked, Fate, Shared, State};

const BASE: &str = "/apis/coordination.k8s.io/v1/namespaces/";

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const USER_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// How long a watch lasts if the client does not say it.
const WATCH: Duration = Duration::from_secs(30);

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(answer).with_state(shared)
}

async fn answer(
    Shares(shared): Shares<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let token = parts.headers.get(AUTHORIZATION);
    let token = token.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
    let body = axum::body::to_bytes(body, 1 << 20)
        .await
        .unwrap_or_default();
    let object = serde_json::from_slice(&body).unwrap_or_default();
    let user = shared.lock().user(token);
    let asked = Asked {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        user: user.clone().unwrap_or_default(),
        object,
        status: 0,
    };
    let (index, fate) = {
        let mut state = shared.lock();
        let fate = state
            .rule
            .as_mut()
            .map_or(Fate::Passes, |rule| rule(&asked));
        state.asked.push(asked.clone());
        (state.asked.len() - 1, fate)
    };
    if fate == Fate::Held {
        let mut held_pass = shared.held_pass.subscribe();
        let _ = held_pass.wait_for(|passes| *passes).await;
    }
    let path = parts.uri.path();
    let patch = patch(parts.headers.get(CONTENT_TYPE), &query);
    let execute = || {
        let Some(user) = &user else {
            return Err((401, "Unauthorized", "Unauthorized".into(), String::new()));
        };
        let named = named(&query);
        shared.execute(
            &parts.method,
            path,
            user,
            &asked.object,
            patch.as_ref(),
            named,
        )
    };
    let answer = match fate {
        Fate::Lost => std::future::pending().await,
        Fate::Refused(status, reason, seconds) => {
            let text = format!("planted {reason}");
            let mut response = refusal(&(status, reason, text, String::new()));
            if status == 429 {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
        Fate::Says(status, reason, message) => {
            refusal(&(status, reason, message.into(), crate::LEASE.into()))
        }
        Fate::Busy(status, seconds) => {
            let text = "Too many requests, please try again later.\n";
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, plain);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            response
        }
        Fate::Reviewed(status) => {
            let status: Value = serde_json::from_str(status).expect("a status");
            let mut review = asked.object.clone();
            review["status"] = status;
            json_of(201, &review)
        }
        Fate::Ignored => {
            let object = shared.lock().objects.get(crate::NAMESPACE, crate::LEASE);
            json_of(200, &object.unwrap_or_default())
        }
        Fate::Page(status) => {
            let mut response = Response::new(Body::from("<html>a proxy</html>"));
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            response
        }
        Fate::Passes if query.contains_key("watch") => match &user {
            Some(_) => watch(shared.clone(), &query),
            None => refusal(&(401, "Unauthorized", "Unauthorized".into(), String::new())),
        },
        Fate::Passes | Fate::Held | Fate::LosesAnswer | Fate::Repeated => {
            if fate == Fate::Repeated {
                let _ = execute();
            }
            let executed = execute();
            match executed {
                Ok((status, object)) => json_of(status, &object),
                Err(refused) => refusal(&refused),
            }
        }
    };
    if fate == Fate::LosesAnswer {
        std::future::pending::<()>().await;
    }
    shared.lock().asked[index].status = answer.status().as_u16();
    answer
}

impl State {
    /// The name of a token; `None` if it is not valid.
    fn user(&self, token: Option<&str>) -> Option<String> {
        if self.tokens.is_empty() {
            return Some(token.unwrap_or_default().into());
        }
        let known = self
            .tokens
            .iter()
            .find(|(valid, _)| Some(valid.as_str()) == token);
        known.map(|(_, name)| name.clone())
    }

    fn lacks(&self, user: &str, verb: &str) -> bool {
        let mut missing = self.missing_rights.iter();
        missing.any(|(name, missing)| name == user && *missing == verb)
    }

    /// The review of one right, which names the object unless it is to be created.
    fn reviewed(&self, user: &str, review: &Value) -> Value {
        let attributes = &review["spec"]["resourceAttributes"];
        let is_of_lease = attributes["group"] == "coordination.k8s.io"
            && attributes["resource"] == "leases"
            && attributes["namespace"].is_string()
            && (attributes["verb"] == "create") == attributes["name"].is_null();
        let verb = attributes["verb"].as_str().unwrap_or_default();
        let mut review = review.clone();
        review["status"] = json!({ "allowed": is_of_lease && !self.lacks(user, verb) });
        review
    }
}

impl Shared {
    fn execute(
        &self,
        method: &Method,
        path: &str,
        user: &str,
        object: &Value,
        patch: Option<&Patch>,
        named: Option<&str>,
    ) -> Result<(u16, Value), Refusal> {
        let mut state = self.lock();
        let unknown = || -> Refusal { (404, "NotFound", "page not found".into(), String::new()) };
        match (method.as_str(), path) {
            ("POST", ACCESS_REVIEWS) => return Ok((201, state.reviewed(user, object))),
            ("POST", USER_REVIEWS) => {
                let mut review = object.clone();
                review["status"] = json!({ "userInfo": { "username": user } });
                return Ok((201, review));
            }
            _ => {}
        }
        let rest = path.strip_prefix(BASE).ok_or_else(unknown)?;
        let (namespace, rest) = rest.split_once('/').ok_or_else(unknown)?;
        let name = rest.strip_prefix("leases").ok_or_else(unknown)?;
        let name = name.strip_prefix('/');
        let verb = match (method.as_str(), name) {
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            _ => "patch",
        };
        if state.lacks(user, verb) {
            let of = name.unwrap_or_default();
            let quoted = name.map_or_else(String::new, |name| format!(" {name:?}"));
            let text = format!(
                "leases.coordination.k8s.io{quoted} is forbidden: User {user:?} cannot {verb} resource \
                 \"leases\" in API group \"coordination.k8s.io\" in the namespace {namespace:?}"
            );
            return Err((403, "Forbidden", text, of.into()));
        }
        let executed = match (method.as_str(), name) {
            ("GET", Some(name)) => {
                let found = state.objects.get(namespace, name);
                (200, found.ok_or_else(|| not_found(name))?)
            }
            ("GET", None) => {
                let version = state.objects.revision().to_string();
                let mut items = state.objects.list(namespace);
                items.retain(|item| is_named(item, named));
                let list = json!({ "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                    "metadata": { "resourceVersion": version }, "items": items });
                (200, list)
            }
            ("POST", None) if namespace != crate::NAMESPACE => {
                let text = format!("namespaces {namespace:?} not found");
                return Err((404, "NotFound", text, namespace.into()));
            }
            ("POST", None) => (201, state.objects.create(namespace, object)?),
            ("PUT", Some(name)) => {
                let exists = state.objects.get(namespace, name).is_some();
                let status = if exists { 200 } else { 201 };
                (status, state.objects.replace(namespace, name, object)?)
            }
            ("PATCH", Some(name)) => {
                let unknown = || -> Refusal {
                    let text = "the body of the request was in an unknown format";
                    (415, "UnsupportedMediaType", text.into(), String::new())
                };
                let patch = patch.ok_or_else(unknown)?;
                state.objects.patch(namespace, name, object, patch)?
            }
            _ => {
                let text = "the server does not allow this method on the requested resource";
                return Err((405, "MethodNotAllowed", text.into(), String::new()));
            }
        };
        self.publish(&state);
        Ok(executed)
    }
}

/// The form of a patch, by the type of its body; `None` if that is unknown.
fn patch(kind: Option<&HeaderValue>, query: &HashMap<String, String>) -> Option<Patch> {
    match kind?.to_str().ok()? {
        "application/apply-patch+yaml" => Some(Patch::Apply {
            manager: query.get("fieldManager").cloned().unwrap_or_default(),
            force: query.get("force").is_some_and(|force| force == "true"),
        }),
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            Some(Patch::Merge)
        }
        _ => None,
    }
}

/// The name that a list or a watch is limited to.
fn named(query: &HashMap<String, String>) -> Option<&str> {
    query.get("fieldSelector")?.strip_prefix("metadata.name=")
}

fn is_named(object: &Value, name: Option<&str>) -> bool {
    name.is_none_or(|name| object["metadata"]["name"] == name)
}

/// A stream of all changes after a version.
fn watch(shared: Arc<Shared>, query: &HashMap<String, String>) -> Response {
    let number = |name: &str| query.get(name).and_then(|text| text.parse().ok());
    let mut after: u64 = number("resourceVersion").unwrap_or(0);
    let named = named(query).map(str::to_owned);
    let lasts = number("timeoutSeconds").map_or(WATCH, Duration::from_secs);
    let until = tokio::time::Instant::now() + lasts;
    let (sender, receiver) = tokio::sync::mpsc::channel::<String>(16);
    tokio::spawn(async move {
        let mut newest = shared.newest.subscribe();
        loop {
            newest.mark_unchanged();
            let events: Vec<_> = {
                let state = shared.lock();
                let new = state.objects.events().iter();
                new.filter(|event| event.revision > after)
                    .cloned()
                    .collect()
            };
            for event in events {
                after = event.revision;
                if !is_named(&event.object, named.as_deref()) {
                    continue;
                }
                if sender.send(line(event.kind, &event.object)).await.is_err() {
                    return;
                }
            }
            let changed = tokio::time::timeout_at(until, newest.changed()).await;
            if !matches!(changed, Ok(Ok(()))) {
                return;
            }
        }
    });
    let lines = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let line = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Bytes::from(line)), receiver))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn line(kind: &str, object: &Value) -> String {
    json!({ "type": kind, "object": object }).to_string() + "\n"
}

fn refusal(refused: &Refusal) -> Response {
    json_of(refused.0, &status_of(refused))
}

fn status_of((code, reason, message, name): &Refusal) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": { "name": name }, "code": code,
    })
}

fn json_of(status: u16, object: &Value) -> Response {
    let mut response = Response::new(Body::from(object.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
