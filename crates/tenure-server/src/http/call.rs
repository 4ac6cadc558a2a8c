//! A request as its handler gets it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tenure_core::Name;
use tenure_core::wire::{Code, Problem};

use super::body::{check_content_type, parse};
use super::metrics::Scrape;
use super::request_id::LazyRequestId;
use super::routes::Found;
use crate::Store;
use crate::access::{Access, Caller};
use crate::audit::Audit;
use crate::table::LeaseKey;

/// A request whose caller has the right of the route, and whose body is in memory.
pub(super) struct Call<'a> {
    pub(super) store: &'a Store,
    pub(super) access: &'a Access,
    pub(super) audit: &'a Audit,
    pub(super) scrape: &'a Arc<Scrape>,
    pub(super) head: &'a Parts,
    pub(super) names: &'a Names<'a>,
    pub(super) caller: Caller,
    /// The address of the client, if it is known.
    pub(super) client: Option<IpAddr>,
    pub(super) id: &'a LazyRequestId,
    /// Empty if the route has no body.
    pub(super) body: Bytes,
}

/// The names in the path of a request, which may be wrong; empty if the path does not have them.
pub(super) struct Names<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) lease: Cow<'a, str>,
    pub(super) file: Cow<'a, str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(found: &Found<'a>) -> Self {
        let [namespace, lease, file] = ["namespace", "lease", "file"].map(|name| found.name(name));
        Self {
            namespace,
            lease,
            file,
        }
    }
}

impl Call<'_> {
    /// Returns the namespace in the path.
    pub(super) fn namespace(&self) -> Result<Name, Problem> {
        name("namespace", &self.names.namespace)
    }

    /// Returns the lease in the path.
    pub(super) fn lease(&self) -> Result<LeaseKey, Problem> {
        let Names {
            namespace, lease, ..
        } = self.names;
        match LeaseKey::of_path(namespace, lease) {
            Some(key) => Ok(key),
            None => Ok(LeaseKey::new(&self.namespace()?, &name("lease", lease)?)),
        }
    }

    /// Returns the body. The table of routes must require it: then it is declared as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse(&self.body)
    }

    /// Returns a body that may be absent.
    pub(super) fn optional_json<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        check_content_type(&self.head.headers)?;
        parse(&self.body)
    }
}

pub(super) fn name(what: &str, text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error| {
        let shown: String = text.chars().take(200).collect();
        Problem::new(Code::InvalidName, format!("{what} {shown:?}: {error}"))
    })
}
