//! Health checks of a leader's task.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::base::task::with_causes;

/// The least interval and timeout. Without an interval the checks would keep a processor busy, and
/// without a timeout no check could succeed.
const LEAST: Duration = Duration::from_millis(100);

type Answer = BoxFuture<'static, Result<(), String>>;

/// A check that runs periodically while its candidate leads. An error, or no result within the
/// timeout, ends the term as [unhealthy](crate::EndReason::Unhealthy).
///
/// The check runs on the application's runtime, so it can't detect that this runtime is blocked.
/// The progress deadline of the [`TimingsOptions`](crate::TimingsOptions) detects that.
#[derive(Clone)]
pub struct HealthCheck {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) ask: Arc<dyn Fn() -> Answer + Send + Sync>,
}

impl HealthCheck {
    /// Creates a health check that runs every 5 s, with a timeout of 5 s. The log shows the error
    /// with its causes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tenure::HealthCheck;
    ///
    /// let check = HealthCheck::new(|| async {
    ///     if std::path::Path::new("/tmp/broken").exists() { Err("broken") } else { Ok(()) }
    /// })
    /// .with_interval(Duration::from_secs(1));
    /// ```
    pub fn new<F, Fut, E>(ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = move || -> Answer {
            let answer = ask();
            Box::pin(async move { answer.await.map_err(|error| with_causes(&*error.into())) })
        };
        let default = Duration::from_secs(5);
        Self {
            interval: default,
            timeout: default,
            ask: Arc::new(ask),
        }
    }

    /// Sets the time between two checks; default 5 s, at least 100 ms.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Self {
        let interval = interval.max(LEAST);
        Self { interval, ..self }
    }

    /// Sets the timeout of a check; default 5 s, at least 100 ms.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let timeout = timeout.max(LEAST);
        Self { timeout, ..self }
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("interval", &self.interval)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_and_timeout_have_a_minimum() {
        let check = HealthCheck::new(async || Ok::<(), String>(()))
            .with_interval(Duration::ZERO)
            .with_timeout(Duration::ZERO);
        assert_eq!((check.interval, check.timeout), (LEAST, LEAST));
    }
}
