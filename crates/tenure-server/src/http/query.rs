//! Values of queries, as strict as bodies.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use tenure_core::Name;
use tenure_core::name::NameError;
use tenure_core::wire::{Code, Number, Problem, check_wait};

use super::path::name;
use super::problem::ProblemResponse;

/// Most leases on one page of a list: some hundred kilobytes.
const MAX_LIMIT: u64 = 1_000;
const DEFAULT_LIMIT: u64 = 100;

/// No query: this route has none.
pub(super) struct NoQuery;

/// The query of a long poll; without `after` and `wait_ms` the request is a plain read.
pub(super) struct PollQuery {
    pub(super) after: Option<u64>,
    pub(super) wait: std::time::Duration,
}

/// The query of a list.
pub(super) struct ListQuery {
    pub(super) prefix: String,
    pub(super) limit: usize,
    pub(super) after: Option<Name>,
}

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let [] = values(parts, [])?;
        Ok(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PollQuery {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let [after, wait_ms] = values(parts, ["after", "wait_ms"])?;
        let after = after.map(|text| number("after", &text)).transpose()?;
        let wait_ms = wait_ms.map(|text| number("wait_ms", &text)).transpose()?;
        Ok(Self {
            after: after
                .map(|after| after.within("after", 0, u64::MAX))
                .transpose()?,
            wait: check_wait(wait_ms)?,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let [prefix, limit, after] = values(parts, ["prefix", "limit", "after"])?;
        let limit = match limit {
            Some(text) => number("limit", &text)?.within("limit", 1, MAX_LIMIT)?,
            None => DEFAULT_LIMIT,
        };
        let prefix = prefix.unwrap_or_default();
        match prefix.parse::<Name>() {
            // Names may start with these prefixes.
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

/// The values of these fields, in this order. Other fields are refused.
pub(super) fn values<const N: usize>(
    parts: &Parts,
    fields: [&str; N],
) -> Result<[Option<String>; N], ProblemResponse> {
    if parts.uri.query().is_none() {
        return Ok([const { None }; N]);
    }
    let Query(pairs): Query<Vec<(String, String)>> = Query::try_from_uri(&parts.uri)
        .map_err(|error| malformed(format!("query: {}", error.body_text())))?;
    let mut values = [const { None }; N];
    for (field, value) in pairs {
        let Some(index) = fields.iter().position(|known| *known == field) else {
            let known = match N {
                0 => "this route has no query".to_owned(),
                _ => format!("known are {}", fields.join(", ")),
            };
            let detail = format!("unknown query parameter {field:?}: {known}");
            return Err(ProblemResponse(Problem::new(Code::UnknownField, detail)));
        };
        if values[index].replace(value).is_some() {
            return Err(malformed(format!("query parameter {field:?} is duplicate")));
        }
    }
    Ok(values)
}

/// A whole number, read as in a body, so that both accept the same texts.
pub(super) fn number(field: &str, text: &str) -> Result<Number, ProblemResponse> {
    serde_json::from_str(text)
        .map_err(|_| malformed(format!("{field} is {text:?} and must be a whole number")))
}

fn malformed(detail: String) -> ProblemResponse {
    ProblemResponse(Problem::new(Code::Malformed, detail))
}
