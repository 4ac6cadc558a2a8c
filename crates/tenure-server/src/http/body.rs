//! Bodies: JSON, declared as such, small, and with known fields only.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use tenure_core::wire::{BreakRequest, Code, Problem};

use super::problem::Failure;

/// Most bytes of a body: four times the largest metadata.
pub(super) const MAX_BODY_BYTES: usize = 16 * 1024;

/// How long a body may take: it is small, and who needs longer would lose the lease meanwhile.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A body of this shape.
pub(super) struct Json<T>(pub(super) T);

/// The body of `break`, that may be left out.
pub(super) struct BreakBody(pub(super) BreakRequest);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        check_content_type(request.headers())?;
        parse(&read(request, state).await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for BreakBody {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let declared = check_content_type(request.headers());
        let body = read(request, state).await?;
        if body.is_empty() {
            return Ok(Self(BreakRequest::default()));
        }
        declared?;
        parse(&body).map(Self)
    }
}

/// `application/json`, with or without parameters. A form of another site can't declare this
/// without asking first, so no page can make a browser acquire a lease.
fn check_content_type(headers: &HeaderMap) -> Result<(), Failure> {
    let declared = headers.get(CONTENT_TYPE).map(|value| value.to_str());
    let media_type = match declared {
        Some(Ok(text)) => text.split(';').next().unwrap_or("").trim(),
        Some(Err(_)) => "not readable",
        None => "missing",
    };
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Failure(Problem::new(
        Code::NotJson,
        format!("the content type must be application/json and is {media_type:.100}"),
    )))
}

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Failure> {
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)))) => {
            Err(Failure(Problem::new(
                Code::TooLarge,
                format!("the body has more than {MAX_BODY_BYTES} bytes"),
            )))
        }
        Ok(Err(error)) => Err(Failure(Problem::new(Code::Malformed, error.body_text()))),
        Err(_) => Err(Failure(Problem::new(
            Code::RequestTimeout,
            format!("the body took longer than {} s", BODY_TIMEOUT.as_secs()),
        ))),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let parsed = serde_json::from_slice(body).map_err(|error| {
        let detail = error.to_string();
        // The parser has no code for it, but its words are fixed by serde's trait for errors.
        let code = if detail.starts_with("unknown field") {
            Code::UnknownField
        } else {
            Code::Malformed
        };
        Failure(Problem::new(code, detail))
    })?;
    // Serde also takes an array for a struct, field by field: nobody means that.
    if body.trim_ascii_start().first() == Some(&b'{') {
        Ok(parsed)
    } else {
        let detail = "the body must be a JSON object";
        Err(Failure(Problem::new(Code::Malformed, detail)))
    }
}
