//! The time for which a request asked to wait, which does not count as the duration of the request.

use std::cell::Cell;
use std::time::{Duration, Instant};

tokio::task_local! {
    static WAITED: Cell<Duration>;
}

/// The time for which a request waited, as an extension of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waited(pub(crate) Duration);

/// Runs the handler of a request. Returns its result, and the time that it spent in [`waiting`].
pub(crate) async fn measure<T>(handler: impl Future<Output = T>) -> (T, Waited) {
    let measured = async {
        let result = handler.await;
        (result, Waited(WAITED.with(Cell::get)))
    };
    WAITED.scope(Cell::default(), measured).await
}

/// Waits because the request asked to wait.
pub(crate) async fn waiting<T>(wait: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let result = wait.await;
    // A request of another protocol, or a direct call of the store, is not measured.
    let _ = WAITED.try_with(|waited| waited.set(waited.get() + began.elapsed()));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_time_of_waiting_counts_as_waited() {
        let sleep = || tokio::time::sleep(Duration::from_millis(20));
        let handler = async {
            sleep().await;
            waiting(sleep()).await;
            waiting(async { 7 }).await
        };
        let began = Instant::now();
        let (result, Waited(waited)) = measure(handler).await;
        assert_eq!(result, 7);
        assert!(waited >= Duration::from_millis(20));
        assert!(began.elapsed() - waited >= Duration::from_millis(20));
        waiting(async {}).await;
    }
}
