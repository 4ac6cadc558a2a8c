//! Whether a leader's task is well.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The least interval and the least timeout: asking all the time would keep a processor busy, and nothing
/// could be well in no time.
const LEAST: Duration = Duration::from_millis(100);

type Answer = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A question asked from time to time while this candidate leads. An error, or no answer in time, ends
/// the term as [unhealthy](crate::EndReason::Unhealthy).
///
/// It is asked on the application's runtime. A runtime that is blocked asks nothing; against that
/// there is the progress deadline of the [`TimingsOptions`](crate::TimingsOptions).
#[derive(Clone)]
pub struct HealthCheck {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    ask: Arc<dyn Fn() -> Answer + Send + Sync>,
}

impl HealthCheck {
    /// Asks this every 5 s, and waits 5 s for an answer. The error is told in the log.
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
        E: fmt::Display,
    {
        let ask = move || -> Answer {
            let answer = ask();
            Box::pin(async move { answer.await.map_err(|error| error.to_string()) })
        };
        let default = Duration::from_secs(5);
        Self {
            interval: default,
            timeout: default,
            ask: Arc::new(ask),
        }
    }

    /// Asks so long after the last answer; default 5 s. Less than 100 ms counts as 100 ms.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Self {
        let interval = interval.max(LEAST);
        Self { interval, ..self }
    }

    /// Waits so long for an answer; default 5 s. Less than 100 ms counts as 100 ms.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let timeout = timeout.max(LEAST);
        Self { timeout, ..self }
    }

    pub(crate) fn ask(&self) -> Answer {
        (self.ask)()
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
    fn nobody_is_asked_all_the_time_nor_given_no_time() {
        let check = HealthCheck::new(async || Ok::<(), String>(()))
            .with_interval(Duration::ZERO)
            .with_timeout(Duration::ZERO);
        assert_eq!((check.interval, check.timeout), (LEAST, LEAST));
    }
}
