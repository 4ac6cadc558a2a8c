//! The HTTP client of the export. The thread that exports waits for each request.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::redirect::Policy;
use tokio::runtime::Runtime;

use crate::runtime;

/// The largest answer of a collector that is read. An answer has at most a message.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Runtime,
}

impl Client {
    /// `timeout` is the limit of one request.
    pub(super) fn new(timeout: Duration) -> anyhow::Result<Self> {
        // The headers of `OTEL_EXPORTER_OTLP_HEADERS` may be secrets, so no redirect is followed.
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(Policy::none());
        Ok(Self {
            http: http.build()?,
            runtime: runtime::current_thread()?,
        })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.http.execute(request.try_into()?).await?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err("the answer of the collector is too large".into());
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(body.into());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    fn send_bytes<'client, 'future>(&'client self, request: Request<Bytes>) -> Answer<'future>
    where
        'client: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let answer = self.runtime.block_on(self.send(request));
            answer.map_err(|error| innermost_cause(&*error).into())
        })
    }
}

/// Returns the cause that says most; the errors around it contain the address.
fn innermost_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
