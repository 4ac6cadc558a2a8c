//! The error of the set-up of an HTTP client.

/// The HTTP client can't be set up. With https addresses the usual cause is a system without CA
/// certificates: install them, or name those of the store
/// ([`Config::with_root_certificates`](crate::Config::with_root_certificates), `ca_file`). Plain
/// http needs no certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't set up the HTTP client: {0}")]
pub struct HttpClientError(pub(crate) String);
