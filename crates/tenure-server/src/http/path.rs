//! Names in paths.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use tenure_core::Name;
use tenure_core::wire::{Code, Problem};

use super::problem::ProblemResponse;
use crate::table::LeaseKey;

/// The namespace in the path.
pub(super) struct Namespace(pub(super) Name);

/// The lease in the path.
pub(super) struct Lease(pub(super) LeaseKey);

impl<S: Send + Sync> FromRequestParts<S> for Namespace {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(namespace) = path.map_err(|error| not_text(parts, &error))?;
        Ok(Self(name("namespace", &namespace)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Lease {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((namespace, lease)) = path.map_err(|error| not_text(parts, &error))?;
        let namespace = name("namespace", &namespace)?;
        Ok(Self(LeaseKey::new(&namespace, &name("lease", &lease)?)))
    }
}

pub(super) fn name(what: &str, text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error| {
        let shown: String = text.chars().take(200).collect();
        Problem::new(Code::InvalidName, format!("{what} {shown:?}: {error}"))
    })
}

fn not_text(parts: &Parts, error: &PathRejection) -> Problem {
    Problem::new(
        Code::InvalidName,
        format!("{}: {}", parts.uri.path(), error.body_text()),
    )
}
