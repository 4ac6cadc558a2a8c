//! Query parameters, which are checked as strictly as bodies.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tenure_core::Name;
use tenure_core::lease::State;
use tenure_core::name::NameError;
use tenure_core::wire::{Code, Number, Problem, check_wait};

use super::path::name;
use super::problem::ProblemResponse;
use crate::store::OverviewFilter;

/// The maximum number of leases on one page of a list: some hundred kilobytes.
const MAX_LIMIT: u64 = 1_000;
const DEFAULT_LIMIT: u64 = 100;

/// The maximum number of rows of an overview: some 60 KB.
const MAX_ROWS: u64 = 200;

/// The query of a route without parameters: it must be empty.
pub(super) struct NoQuery;

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

/// The query of an overview.
pub(super) struct OverviewQuery(pub(super) OverviewFilter);

impl<S: Send + Sync> FromRequestParts<S> for OverviewQuery {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let fields = ["q", "namespace", "state", "look", "limit"];
        let [text, namespace, state, look, limit] = values(&parts.uri, fields)?;
        let namespace = namespace.map(|text| name("namespace", &text));
        let limit = match limit {
            Some(text) => number("limit", &text)?.within("limit", 1, MAX_ROWS)?,
            None => MAX_ROWS,
        };
        Ok(Self(OverviewFilter {
            text: text.unwrap_or_default().to_ascii_lowercase(),
            namespace: namespace.transpose()?,
            state: state.map(|text| lease_state(&text)).transpose()?,
            needs_look: flag("look", look.as_deref())?,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        }))
    }
}

/// Parses the name of a state as in an answer.
fn lease_state(text: &str) -> Result<State, Problem> {
    State::deserialize(StrDeserializer::<ValueError>::new(text)).map_err(|_| {
        malformed(format!(
            "state is {text:?} and must be available, leased, breaking, broken or expired"
        ))
    })
}

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let [] = values(&parts.uri, [])?;
        Ok(Self)
    }
}

impl PollQuery {
    pub(super) fn of(uri: &Uri) -> Result<Self, Problem> {
        let [after, wait_ms] = values(uri, ["after", "wait_ms"])?;
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
        let [prefix, limit, after] = values(uri, ["prefix", "limit", "after"])?;
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

/// Returns the values of these fields, in this order. Other fields are refused.
pub(super) fn values<const N: usize>(
    uri: &Uri,
    fields: [&str; N],
) -> Result<[Option<String>; N], Problem> {
    if uri.query().is_none() {
        return Ok([const { None }; N]);
    }
    let Query(pairs): Query<Vec<(String, String)>> = Query::try_from_uri(uri)
        .map_err(|error| malformed(format!("query: {}", error.body_text())))?;
    let mut values = [const { None }; N];
    for (field, value) in pairs {
        let Some(index) = fields.iter().position(|known| *known == field) else {
            let known = match N {
                0 => "this route has no query".to_owned(),
                _ => format!("known are {}", fields.join(", ")),
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
