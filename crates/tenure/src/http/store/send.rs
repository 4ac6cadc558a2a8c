//! Sending a request to one address of the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tenure_core::wire::{OWNERSHIP_HEADER, STORE_HEADER};

use super::Endpoint;
use super::client::{Call, NONE, StoreClient};
use super::error::StoreError;
use super::round::Pace;
use crate::base::trace;
use crate::http::builder::{REQUEST_TIMEOUT, innermost_cause, read_body};

/// The size of the largest answer that is read. The answer to a thousand renewals contains as many
/// leases, each with metadata of 4 KiB. A byte of metadata can become twelve bytes of JSON. Such an
/// answer is within this limit.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

impl StoreClient {
    /// Asks the store at one address after the other. Each has the whole time of the call.
    pub(super) async fn ask_any<T: DeserializeOwned>(&self, call: &Call) -> Result<T, StoreError> {
        let pace = Pace::of_each(call.timeout, self.endpoints.len());
        self.round(pace, |index, timeout| self.ask(index, call, timeout))
            .await
    }

    /// Asks the store at one address after the other, within the time of the call.
    pub(crate) async fn ask_once<T: DeserializeOwned>(&self, call: &Call) -> Result<T, StoreError> {
        let pace = Pace::of_attempt(call.timeout, call.wait, self.endpoints.len());
        self.round(pace, |index, timeout| self.ask(index, call, timeout))
            .await
    }

    /// Opens a stream of events at the first endpoint that provides it.
    pub(super) async fn open(
        &self,
        path: &str,
        last_id: Option<u64>,
    ) -> Result<(Response, Endpoint), StoreError> {
        let pace = Pace::of_each(REQUEST_TIMEOUT, self.endpoints.len());
        self.round(pace, |index, timeout| {
            self.open_at(index, path, last_id, timeout)
        })
        .await
    }

    async fn open_at(
        &self,
        index: usize,
        path: &str,
        last_id: Option<u64>,
        timeout: Duration,
    ) -> Result<(Response, Endpoint), StoreError> {
        const EVENT_STREAM: &str = "text/event-stream";
        let request = |client: &Client| {
            let request = client.get(self.url(index, path));
            let request = request.header(ACCEPT, EVENT_STREAM);
            match last_id {
                Some(last_id) => request.header("last-event-id", last_id),
                None => request,
            }
        };
        let open = async {
            let unreachable = |error| self.unreachable(index, innermost_cause(&error));
            let response = self.authorized(request).await.map_err(unreachable)?;
            let status = response.status();
            let content_type = response.headers().get(CONTENT_TYPE);
            let media_type = content_type.map_or(&b""[..], |value| value.as_bytes());
            if status.is_success() && media_type.starts_with(EVENT_STREAM.as_bytes()) {
                return Ok((response, self.endpoints[index].clone()));
            }
            let body = read_body(response, MAX_ANSWER_BYTES).await;
            Err(self.refusal(index, status, body.map_err(unreachable)?))
        };
        tokio::time::timeout(timeout, open)
            .await
            .unwrap_or_else(|_| Err(self.unreachable(index, "no answer in time".into())))
    }

    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        index: usize,
        call: &Call,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        if call.is_promise {
            self.confirm(index, timeout).await?;
        }
        let (status, _, bytes) = self.send(index, call, timeout).await?;
        serde_json::from_slice(&bytes).map_err(|_| self.not_a_store(index, status))
    }

    /// Makes sure that the server at this address is of the known store, after each failure again.
    /// This is for a request by which a store promises something: another store must not get it.
    async fn confirm(&self, index: usize, timeout: Duration) -> Result<(), StoreError> {
        match &self.check {
            Some(check) if !check.is_known() || self.confirmed.load(Ordering::Relaxed) != index => {
                // A standby refuses this, also if it has not read the log and knows no id.
                let call = Call::get("active".into());
                self.send(index, &call, timeout).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Sends a request. Returns the status, the headers and the body of a success.
    pub(super) async fn send(
        &self,
        index: usize,
        call: &Call,
        timeout: Duration,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), StoreError> {
        let unreachable = |error| self.unreachable(index, innermost_cause(&error));
        let traceparent = trace::current_traceparent();
        let request = |client: &Client| {
            let request = client.request(call.method.clone(), self.url(index, &call.path));
            // A lease may be named `events`. This header requests the lease and not the events of
            // its namespace.
            let request = request.header(ACCEPT, "application/json");
            let request = request.timeout(timeout);
            let request = match &traceparent {
                Some(traceparent) => request.header("traceparent", traceparent),
                None => request,
            };
            match &call.body {
                Some(body) => request
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone()),
                None => request,
            }
        };
        let mut response = self.authorized(request).await.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let body = read_body(response, MAX_ANSWER_BYTES).await;
        let answer = match body.map_err(unreachable)? {
            Some(body) if status.is_success() => Ok(body),
            body => Err(self.refusal(index, status, body)),
        };
        let ownership = headers
            .get(OWNERSHIP_HEADER)
            .and_then(|ms| ms.to_str().ok()?.parse().ok());
        if let Some(ownership) = ownership {
            self.ownership_ms.store(ownership, Ordering::Relaxed);
        }
        let id = headers.get(STORE_HEADER).and_then(|id| id.to_str().ok());
        // A standby that has not read the log yet does not know the id of the store. It has executed
        // nothing.
        let is_standby = answer.as_ref().is_err_and(|it| it.of_standby().is_some());
        if let Some(check) = self.check.as_ref().filter(|_| id.is_some() || !is_standby) {
            let checked = check.check(id).await;
            let confirmed = if checked.is_ok() { index } else { NONE };
            self.confirmed.store(confirmed, Ordering::Relaxed);
            checked.map_err(|reason| StoreError::AnotherStore {
                endpoint: self.endpoints[index].clone(),
                reason,
            })?;
        }
        answer.map(|body| (status, headers, body))
    }

    async fn authorized(
        &self,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Response, reqwest::Error> {
        self.http.send(&self.credentials, request).await
    }

    fn url(&self, index: usize, path: &str) -> String {
        let endpoint = self.endpoints[index].url().as_str();
        format!("{}/{path}", endpoint.trim_end_matches('/'))
    }

    fn unreachable(&self, index: usize, mut reason: String) -> StoreError {
        let endpoint = self.endpoints[index].clone();
        // A port with TLS closes such a connection.
        if endpoint.url().scheme() == "http" && reason.contains("connection closed before message")
        {
            reason += "; if the server has a certificate, write https";
        }
        StoreError::Unreachable { endpoint, reason }
    }

    /// Returns the error for an answer that is not a success, or whose body is of another kind or
    /// too large.
    fn refusal(&self, index: usize, status: StatusCode, body: Option<Vec<u8>>) -> StoreError {
        let body = body.filter(|_| !status.is_success());
        let problem = body.and_then(|body| serde_json::from_slice(&body).ok());
        problem.map_or_else(|| self.not_a_store(index, status), StoreError::Problem)
    }

    fn not_a_store(&self, index: usize, status: StatusCode) -> StoreError {
        StoreError::NotAStore {
            endpoint: self.endpoints[index].clone(),
            status: status.as_u16(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tenure_core::UnixMillis;
    use tenure_core::lease::{State, WithoutStore};
    use tenure_core::wire::{LeaseView, MAX_METADATA_BYTES, MAX_RENEWALS, WithoutStoreView};

    /// Builds the largest possible answer: as many renewals as fit into a request, for leases that
    /// have all optional values, in characters that need the most bytes in JSON.
    #[test]
    fn the_largest_answer_to_many_renewals_is_within_the_limit() {
        let controls: Vec<char> = (1..32).map(char::from).collect();
        let of_one = controls.iter().map(char::to_string);
        let of_two = controls
            .iter()
            .flat_map(|a| controls.iter().map(move |b| format!("{a}{b}")));
        let mut metadata: BTreeMap<_, _> = of_one
            .chain(of_two)
            .map(|key| (key, String::new()))
            .collect();
        let bytes: usize = metadata.keys().map(String::len).sum();
        let rest = "\u{1}".repeat(MAX_METADATA_BYTES - bytes - 1);
        metadata.insert("k".into(), rest);
        let mut view = LeaseView::new("n".repeat(128), "l".repeat(128), State::Breaking);
        view.holder = Some("\"".repeat(256));
        view.owner = Some("\"".repeat(128));
        view.epoch = Some(u64::MAX);
        view.remaining_ms = Some(u64::MAX);
        view.granted_at = Some("2026-11-21T03:05:09.701Z".into());
        let most = WithoutStore {
            periods: u32::MAX,
            from: UnixMillis::new(u64::MAX),
            to: UnixMillis::new(u64::MAX),
            total: Duration::MAX,
        };
        let time = |_| Some("2026-11-21T03:05:09.701Z".into());
        view.without_store = Some(WithoutStoreView::of(&most, time).into());
        view.metadata = Some(metadata);
        view.waiters = u64::MAX;
        view.revision = u64::MAX;
        let bytes = serde_json::to_vec(&view).unwrap().len();
        assert!(bytes * MAX_RENEWALS < MAX_ANSWER_BYTES, "{bytes}");
    }
}
