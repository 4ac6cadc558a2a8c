//! The description of the API as OpenAPI 3.1. It comes from the table of the routes and from the
//! types of the bodies, so it changes with them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tenure_core::Name;
use tenure_core::wire::{Code, EventKind, LeaseEvent, Problem, Reset};

use super::authorize::TargetOf;
use super::call::Call;
use super::events::{EVENT_STREAM, LAST_EVENT_ID};
use super::problem::MEDIA_TYPE;
use super::request_id::{ANSWER_HEADER, MAX_LEN};
use super::routes::description::{Answer, Content, Kind, Tag};
use super::routes::{NAMESPACE_EVENTS, ROUTES, Route};
use crate::access::Right;
use crate::ui;

const DESCRIPTION: &str = "\
Leader election by leases. A candidate acquires a lease, renews it while it leads, and stops its \
work before the lease ends, counted from the time at which it sent the last request that \
succeeded.

A store without access control needs no credential. A request may have the header `X-Request-Id`, \
which then is the id of the request in the answer and in the logs. Refusals are problem details \
(RFC 9457) with a stable `code`; a newer store may have further codes.";

/// The path of the operation whose answer has the lease id that other operations need.
const ACQUIRE: &str = "/v1/namespaces/{namespace}/leases/{lease}/acquire";

const JSON: &str = "application/json";

/// The description as JSON. The table does not change while the store runs.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// Answers with the description.
pub(super) async fn serve(
    _: Call<'_>,
) -> Result<([(HeaderName, &'static str); 1], Bytes), Problem> {
    Ok(([(CONTENT_TYPE, JSON)], DOCUMENT.clone()))
}

fn document() -> Value {
    let mut parts = Parts::new();
    let mut paths = Map::new();
    for route in ROUTES.iter().chain([&NAMESPACE_EVENTS]) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = parts.operation(route);
    }
    let tags = Tag::ALL.map(|tag| json!({"name": tag.name(), "description": tag.description()}));
    let acquired = &mut paths[ACQUIRE]["post"]["responses"]["200"];
    acquired["links"] = parts.links();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tenure lease store",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {
                "name": env!("CARGO_PKG_LICENSE"),
                "identifier": env!("CARGO_PKG_LICENSE"),
            },
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": parts.components(),
    })
}

/// The parts of the document to which the operations refer.
struct Parts {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    /// The refusals, which many operations share.
    refusals: Map<String, Value>,
}

impl Parts {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let settings = settings.with_transform(RecursiveTransform(join_constants));
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
            refusals: Map::new(),
        }
    }

    fn operation(&mut self, route: &Route) -> Value {
        let mut responses = Map::new();
        for answer in route.answers {
            responses.insert(answer.status.to_string(), self.answer(route, *answer));
        }
        for (status, codes) in codes(route) {
            responses.insert(status.to_string(), self.refusal(status, &codes));
        }
        let needs = match route.right {
            Right::Open => "Needs no credential.".into(),
            Right::Credential
            | Right::OwnCredential
            | Right::Session
            | Right::CodeOrOwnCredential => format!("Needs {}.", route.needs()),
            Right::Role(_) | Right::Either(..) => format!("Needs the role {}.", route.needs()),
        };
        let security = match route.right {
            Right::Open => json!([]),
            Right::CodeOrOwnCredential => json!([{}, {"bearer": []}, {"mutualTLS": []}]),
            Right::Session => json!([{"bearer": []}]),
            _ => json!([{"bearer": []}, {"mutualTLS": []}]),
        };
        let mut operation = json!({
            "operationId": route.label,
            "tags": [route.tag.name()],
            "summary": capitalized(route.description),
            "description": needs,
            "security": security,
            "parameters": parameters(route),
            "responses": responses,
        });
        if let Some(body) = route.body {
            let schema = (body.schema)(&mut self.requests);
            operation["requestBody"] = json!({
                "required": body.is_required,
                "content": {JSON: {"schema": schema}},
            });
        }
        if route.kind == Kind::LongPoll {
            operation["x-waits"] = true.into();
        }
        operation
    }

    fn answer(&mut self, route: &Route, answer: Answer) -> Value {
        let (description, content) = match answer.content {
            Content::Json(schema) => {
                let schema = schema(&mut self.answers);
                ("The result.", json!({JSON: {"schema": schema}}))
            }
            Content::Text => (
                "Yes.",
                json!({"text/plain": {"schema": {"type": "string"}}}),
            ),
            Content::EventStream => {
                let stream = json!({"schema": {"type": "string"}, "x-events": self.events()});
                ("A stream of events.", json!({EVENT_STREAM: stream}))
            }
            Content::File(media_types) => {
                let text = |media_type: &&str| {
                    let schema = json!({"schema": {"type": "string"}});
                    ((*media_type).to_owned(), schema)
                };
                let content: Map<_, _> = media_types.iter().map(text).collect();
                ("The file.", content.into())
            }
            Content::Nothing if answer.status == 304 => ("The file did not change.", Value::Null),
            Content::Nothing => ("Done.", Value::Null),
        };
        let mut response = json!({"description": description});
        if !content.is_null() {
            response["content"] = content;
        }
        if route.is_change() {
            response["headers"] = headers(&[ANSWER_HEADER]);
        }
        response
    }

    /// Returns the events of a stream by their names, with the schemas of their data.
    fn events(&mut self) -> Value {
        let kinds = EventKind::json_schema(&mut self.answers).to_value();
        let event = self.answers.subschema_for::<LeaseEvent>().to_value();
        let reset = self.answers.subschema_for::<Reset>().to_value();
        let kinds = kinds["oneOf"].as_array().into_iter().flatten();
        let events = kinds.filter_map(|kind| {
            let name = kind["const"].as_str()?;
            let data = if name == "reset" { &reset } else { &event };
            let event = json!({"description": kind["description"], "data": data});
            Some((name.to_owned(), event))
        });
        events.collect::<Map<_, _>>().into()
    }

    /// Returns a reference to the refusal with this status and one of these codes.
    fn refusal(&mut self, status: u16, codes: &[Code]) -> Value {
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let name = format!("{status}-{}", names.join("."));
        let mut always = vec![ANSWER_HEADER];
        match status {
            401 => always.push(WWW_AUTHENTICATE.as_str()),
            429 | 503 | 507 => always.push(RETRY_AFTER.as_str()),
            _ => {}
        }
        let mut schema = self.answers.subschema_for::<Problem>().to_value();
        schema["properties"] = json!({"status": {"const": status}, "code": {"enum": names}});
        let titles = codes.iter().map(|code| {
            let title = Problem::new(*code, "").title;
            format!("`{}`: {title}.", code.as_str())
        });
        let refusal = json!({
            "description": titles.collect::<Vec<_>>().join(" "),
            "headers": headers(&always),
            "content": {MEDIA_TYPE: {"schema": schema}},
        });
        let reference = json!({"$ref": format!("#/components/responses/{name}")});
        self.refusals.insert(name, refusal);
        reference
    }

    /// Returns the operations that follow an acquire of a lease.
    fn links(&mut self) -> Value {
        let of_lease = ROUTES.iter().filter(|route| route.path.contains("{lease}"));
        let links = of_lease.map(|route| {
            let mut link = json!({
                "operationId": route.label,
                "parameters": {
                    "namespace": "$request.path.namespace",
                    "lease": "$request.path.lease",
                },
            });
            let body = route.body.map(|body| (body.schema)(&mut self.requests));
            let name = body.as_ref().and_then(|body| body.get("$ref")?.as_str());
            let name = name
                .and_then(|name| name.rsplit('/').next())
                .unwrap_or_default();
            let body = self.requests.definitions().get(name);
            if body.is_some_and(|body| body["properties"].get("lease_id").is_some()) {
                link["requestBody"] = json!({"lease_id": "$response.body#/lease_id"});
            }
            (route.label.to_owned(), link)
        });
        links.collect::<Map<_, _>>().into()
    }

    fn components(mut self) -> Value {
        let mut schemas = self.requests.take_definitions(true);
        for (name, schema) in self.answers.take_definitions(true) {
            if let Some(of_requests) = schemas.insert(name.clone(), schema.clone()) {
                // One name would stand for two schemas. A test makes the document.
                assert_eq!(of_requests, schema, "two schemas are named {name}");
            }
        }
        let name = Name::json_schema(&mut self.requests).to_value();
        let file = json!({"enum": ui::file_names().collect::<Vec<_>>()});
        let in_path = |parameter: &str, schema: &Value| json!({"name": parameter, "in": "path", "required": true, "schema": schema});
        let text = json!({"type": "string"});
        json!({
            "schemas": schemas,
            "responses": self.refusals,
            "parameters": {
                "namespace": in_path("namespace", &name),
                "lease": in_path("lease", &name),
                "file": in_path("file", &file),
            },
            "headers": {
                ANSWER_HEADER: {
                    "description": "The id of the request, by which the logs name it.",
                    "required": true,
                    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_LEN},
                },
                RETRY_AFTER.as_str(): {
                    "description": "The number of seconds after which to send the request again.",
                    "required": true,
                    "schema": {"type": "integer", "minimum": 0},
                },
                WWW_AUTHENTICATE.as_str(): {
                    "description": "The scheme of the credential.",
                    "required": true,
                    "schema": text,
                },
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the access file, a JSON web token, or a session.",
                },
                "mutualTLS": {"type": "mutualTLS", "description": "A client certificate."},
            },
        })
    }
}

fn headers(names: &[&str]) -> Value {
    let reference = |name: &&str| {
        let reference = json!({"$ref": format!("#/components/headers/{name}")});
        ((*name).to_owned(), reference)
    };
    names.iter().map(reference).collect::<Map<_, _>>().into()
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = ["namespace", "lease", "file"].into_iter();
    let in_path = in_path.filter(|name| route.path.contains(&format!("{{{name}}}")));
    let in_path = in_path.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    let in_query = route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.description,
            "schema": (parameter.schema)(),
        })
    });
    let resume = (route.kind == Kind::Stream).then(|| {
        json!({
            "name": LAST_EVENT_ID,
            "in": "header",
            "description": "The id of the last event that the client has. The stream then begins \
                            after this event, if the store still has all later ones.",
            "schema": {"type": "string", "pattern": "^[0-9]*$"},
        })
    });
    in_path.chain(in_query).chain(resume).collect()
}

/// Returns the codes of the refusals of a route by status: those of its row, and those that follow
/// from its other columns.
fn codes(route: &Route) -> BTreeMap<u16, Vec<Code>> {
    let mut codes = vec![Code::Malformed, Code::Internal];
    // The page reads its own query, in the browser.
    if route.tag != Tag::Page {
        codes.push(Code::UnknownField);
    }
    match route.right {
        Right::Open => {}
        Right::Credential => {
            codes.extend([Code::Unauthenticated, Code::CrossOrigin, Code::OverLimit]);
        }
        Right::Role(_)
        | Right::Either(..)
        | Right::OwnCredential
        | Right::Session
        | Right::CodeOrOwnCredential => codes.extend([
            Code::Unauthenticated,
            Code::Forbidden,
            Code::CrossOrigin,
            Code::OverLimit,
        ]),
    }
    if route.target != TargetOf::Store {
        codes.extend([
            Code::InvalidName,
            // An empty name is another path.
            Code::UnknownRoute,
            Code::RequestTimeout,
            Code::Stopping,
            Code::HomeUnavailable,
        ]);
    }
    if route.body.is_some() {
        codes.extend([Code::TooLarge, Code::NotJson, Code::RequestTimeout]);
    }
    codes.extend(route.codes);
    let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
    // The status of a request line or of headers that are too large.
    by_status.insert(431, vec![Code::TooLarge]);
    for code in codes {
        let same = by_status.entry(code.status()).or_default();
        if !same.contains(&code) {
            same.push(code);
        }
    }
    by_status
}

/// Replaces the choice of constants, by which an enum is described, by one `enum`: generators of
/// clients understand it better.
fn join_constants(schema: &mut Schema) {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    let constants = choices.into_iter().flatten().map(|choice| {
        let (name, meaning) = (choice["const"].as_str()?, choice["description"].as_str()?);
        Some((name.to_owned(), format!("- `{name}`: {meaning}")))
    });
    let constants: Option<(Vec<_>, Vec<_>)> = constants.collect();
    if let Some((names, meanings)) = constants.filter(|(names, _)| !names.is_empty()) {
        let description = schema.get("description").and_then(Value::as_str);
        let description = format!(
            "{}\n\n{}",
            description.unwrap_or_default(),
            meanings.join("\n")
        );
        schema.remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), names.into());
        schema.insert("description".into(), description.into());
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
