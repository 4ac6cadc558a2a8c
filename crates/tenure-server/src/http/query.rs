//! Query parameters, which are checked as strictly as bodies.

use std::time::Duration;

use axum::extract::Query;
use axum::http::Uri;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tenure_core::lease::State;
use tenure_core::name::{MAX_NAME_LEN, NameError};
use tenure_core::time::millis;
use tenure_core::wire::{Code, MAX_WAIT, Number, Problem, check_wait};
use tenure_core::{Epoch, Name};

use super::call::name;
use super::routes::description::Parameter;
use crate::store::OverviewFilter;

/// The maximum number of leases on one page of a list. A page also has a maximum size.
const MAX_LIMIT: u64 = 1_000;
const DEFAULT_LIMIT: u64 = 100;

/// The maximum number of rows of an overview: some 60 KB.
const MAX_ROWS: u64 = 200;
/// The parameters of a list.
pub(super) const LIST: [Parameter; 3] = [
    Parameter {
        name: "prefix",
        description: "The beginning of the names of the leases.",
        schema: || {
            let pattern = "^[A-Za-z0-9._-]*$";
            json_schema!({"type": "string", "pattern": pattern, "maxLength": MAX_NAME_LEN})
        },
    },
    Parameter {
        name: "limit",
        description: "The maximum number of leases in the answer.",
        schema: || whole_number(1, MAX_LIMIT, Some(DEFAULT_LIMIT)),
    },
    Parameter {
        name: "after",
        description: "The name after which the list begins: `next` of the previous answer.",
        schema: || Name::json_schema(&mut SchemaGenerator::default()),
    },
];

/// The parameter of a history.
pub(super) const HISTORY: [Parameter; 1] = [Parameter {
    name: "before",
    description: "The epoch before which the terms begin: `next` of the previous answer.",
    schema: || whole_number(1, u64::MAX, None),
}];

/// The parameter of the list of namespaces.
pub(super) const NAMESPACES: [Parameter; 1] = [Parameter {
    name: "after",
    description: "The name after which the list begins: `next` of the previous answer.",
    schema: || Name::json_schema(&mut SchemaGenerator::default()),
}];

/// The parameters of a long poll.
pub(super) const POLL: [Parameter; 2] = [
    Parameter {
        name: "after",
        description: "The request waits until the revision of the lease is greater than this one.",
        schema: || whole_number(0, u64::MAX, None),
    },
    Parameter {
        name: "wait_ms",
        description: "The longest time to wait.",
        schema: || whole_number(0, millis(MAX_WAIT), Some(0)),
    },
];

/// The parameters of an overview.
pub(super) const OVERVIEW: [Parameter; 5] = [
    Parameter {
        name: "q",
        description: "A part of the name of the lease (`namespace/lease`) or of its holder, in \
                      capitals or not.",
        schema: || json_schema!({"type": "string"}),
    },
    Parameter {
        name: "namespace",
        description: "The namespace of the leases.",
        schema: || Name::json_schema(&mut SchemaGenerator::default()),
    },
    Parameter {
        name: "state",
        description: "The state of the leases.",
        schema: || json_schema!({"type": "string", "enum": STATES}),
    },
    Parameter {
        name: "look",
        description: "Whether to return only leases that need a look.",
        schema: || json_schema!({"type": "boolean", "default": false}),
    },
    Parameter {
        name: "limit",
        description: "The maximum number of rows.",
        schema: || whole_number(1, MAX_ROWS, Some(MAX_ROWS)),
    },
];

/// The names of the states of a lease.
const STATES: [&str; 5] = ["available", "leased", "breaking", "broken", "expired"];

/// The parameters of a stream.
pub(super) const STREAM: [Parameter; 1] = [Parameter {
    name: "renewed",
    description: "Whether the stream contains renewals.",
    schema: || json_schema!({"type": "boolean", "default": false}),
}];

fn whole_number(least: u64, most: u64, default: Option<u64>) -> Schema {
    let mut schema = json_schema!({"type": "integer", "minimum": least, "maximum": most});
    if let Some(default) = default {
        schema.insert("default".into(), default.into());
    }
    schema
}

/// The query of a long poll; without `after` and `wait_ms` the request is a plain read.
pub(super) struct PollQuery {
    pub(super) after: Option<u64>,
    pub(super) wait: Duration,
}

/// The query of a list.
pub(super) struct ListQuery {
    pub(super) prefix: String,
    pub(super) limit: usize,
    pub(super) after: Option<Name>,
}

/// Returns the filter of an overview.
pub(super) fn overview(uri: &Uri) -> Result<OverviewFilter, Problem> {
    let [text, namespace, state, look, limit] = values(uri, &OVERVIEW)?;
    let namespace = namespace.map(|text| name("namespace", &text));
    let limit = match limit {
        Some(text) => number("limit", &text)?.within("limit", 1, MAX_ROWS)?,
        None => MAX_ROWS,
    };
    Ok(OverviewFilter {
        text: text.unwrap_or_default().to_ascii_lowercase(),
        namespace: namespace.transpose()?,
        state: state.map(|text| lease_state(&text)).transpose()?,
        needs_look: flag("look", look.as_deref())?,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    })
}

/// Parses the name of a state as in an answer.
fn lease_state(text: &str) -> Result<State, Problem> {
    State::deserialize(StrDeserializer::<ValueError>::new(text)).map_err(|_| {
        let states = STATES.join(", ");
        malformed(format!("state is {text:?} and must be one of {states}"))
    })
}

impl PollQuery {
    pub(super) fn of(uri: &Uri) -> Result<Self, Problem> {
        let [after, wait_ms] = values(uri, &POLL)?;
        let after = after.map(|text| number("after", &text)?.within("after", 0, u64::MAX));
        let wait_ms = wait_ms.map(|text| number("wait_ms", &text));
        Ok(Self {
            after: after.transpose()?,
            wait: check_wait(wait_ms.transpose()?)?,
        })
    }
}

impl ListQuery {
    pub(super) fn of(uri: &Uri) -> Result<Self, Problem> {
        let [prefix, limit, after] = values(uri, &LIST)?;
        let limit = match limit {
            Some(text) => number("limit", &text)?.within("limit", 1, MAX_LIMIT)?,
            None => DEFAULT_LIMIT,
        };
        let prefix = prefix.unwrap_or_default();
        match prefix.parse::<Name>() {
            // A prefix may also be empty or consist of dots, because valid names may start with it.
            Ok(_) | Err(NameError::Empty | NameError::Dots { .. }) => {}
            Err(_) => drop(name("prefix", &prefix)?),
        }
        Ok(Self {
            prefix,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            after: after.map(|text| name("after", &text)).transpose()?,
        })
    }
}

/// Returns the epoch before which the terms of a history begin, if there is one.
pub(super) fn before(uri: &Uri) -> Result<Option<Epoch>, Problem> {
    let [before] = values(uri, &HISTORY)?;
    let before = before.map(|text| number("before", &text)?.within("before", 1, u64::MAX));
    Ok(before.transpose()?.and_then(Epoch::new))
}

/// Returns the name after which the list of namespaces begins, if there is one.
pub(super) fn after_namespace(uri: &Uri) -> Result<Option<Name>, Problem> {
    let [after] = values(uri, &NAMESPACES)?;
    after.map(|text| name("after", &text)).transpose()
}

/// Returns the values of these parameters, in this order. Other parameters are refused.
pub(super) fn values<const N: usize>(
    uri: &Uri,
    parameters: &[Parameter; N],
) -> Result<[Option<String>; N], Problem> {
    if uri.query().is_none() {
        return Ok([const { None }; N]);
    }
    let Query(pairs): Query<Vec<(String, String)>> = Query::try_from_uri(uri)
        .map_err(|error| malformed(format!("query: {}", error.body_text())))?;
    let mut values = [const { None }; N];
    for (field, value) in pairs {
        let Some(index) = parameters.iter().position(|known| known.name == field) else {
            let known = match N {
                0 => "this route has no query".to_owned(),
                _ => format!(
                    "known are {}",
                    parameters.each_ref().map(|it| it.name).join(", ")
                ),
            };
            let detail = format!("unknown query parameter {field:?}: {known}");
            return Err(Problem::new(Code::UnknownField, detail));
        };
        if values[index].replace(value).is_some() {
            return Err(malformed(format!(
                "query parameter {field:?} is given more than once"
            )));
        }
    }
    Ok(values)
}

/// Parses `true` or `false`; an absent value means `false`.
pub(super) fn flag(field: &str, text: Option<&str>) -> Result<bool, Problem> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => {
            let detail = format!("{field} is {text:?} and must be true or false");
            Err(malformed(detail))
        }
    }
}

/// Parses a whole number as in a body, so that both accept the same texts.
pub(super) fn number(field: &str, text: &str) -> Result<Number, Problem> {
    serde_json::from_str(text)
        .map_err(|_| malformed(format!("{field} is {text:?} and must be a whole number")))
}

pub(super) fn malformed(detail: String) -> Problem {
    Problem::new(Code::Malformed, detail)
}
