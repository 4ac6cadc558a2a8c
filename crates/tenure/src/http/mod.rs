//! HTTP clients with their credentials, and the client of the lease store.

pub(crate) mod client_certificate;
pub(crate) mod credentials;
pub(crate) mod endpoint;
pub(crate) mod file_value;
pub(crate) mod root_certificates;

pub(crate) mod builder;
pub(crate) mod client;
pub(crate) mod last_addresses;
pub mod store;

#[cfg(any(feature = "peers", feature = "router"))]
pub(crate) mod browser_guard;
