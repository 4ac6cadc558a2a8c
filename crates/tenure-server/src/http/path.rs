//! Names in the path.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use tenure_core::Name;
use tenure_core::wire::{Code, Problem};

use super::problem::Failure;
use crate::table::Key;

/// The namespace that the path names.
pub(super) struct Namespace(pub(super) Name);

/// The lease that the path names.
pub(super) struct Lease(pub(super) Key);

impl<S: Send + Sync> FromRequestParts<S> for Namespace {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(namespace) = path.map_err(|error| not_text(parts, &error))?;
        Ok(Self(name("namespace", &namespace)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Lease {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((namespace, lease)) = path.map_err(|error| not_text(parts, &error))?;
        let namespace = name("namespace", &namespace)?;
        Ok(Self(Key::new(&namespace, &name("lease", &lease)?)))
    }
}

pub(super) fn name(what: &str, text: &str) -> Result<Name, Failure> {
    text.parse().map_err(|error| {
        let shown: String = text.chars().take(200).collect();
        Failure(Problem::new(
            Code::InvalidName,
            format!("{what} {shown:?}: {error}"),
        ))
    })
}

fn not_text(parts: &Parts, error: &PathRejection) -> Failure {
    Failure(Problem::new(
        Code::InvalidName,
        format!("{}: {}", parts.uri.path(), error.body_text()),
    ))
}
