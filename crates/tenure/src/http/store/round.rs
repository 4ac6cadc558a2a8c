//! One attempt of a request at all addresses of a store, of which one has the active server.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::client::{NONE, StoreClient};
use super::error::StoreError;

/// The least time that an address has. A healthy store on another continent answers within it.
const MIN_SHARE: Duration = Duration::from_millis(100);

/// The time of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The time of the whole attempt.
    total: Duration,
    /// The part of the total that one address may take.
    share: Duration,
    /// The time that an address needs at least, so that asking it makes sense.
    need: Duration,
}

impl Pace {
    /// The attempt ends within `timeout`. One of several addresses may take a third of it, so that a
    /// server that hangs leaves time for two others. A request that may wait in the store is not
    /// cut while it waits.
    pub(super) fn of_attempt(timeout: Duration, wait: Duration, addresses: usize) -> Self {
        let third = (timeout.saturating_sub(wait) / 3).max(MIN_SHARE);
        Self {
            total: timeout,
            share: if addresses == 1 {
                timeout
            } else {
                wait + third
            },
            need: wait + third / 2,
        }
    }

    /// Each address has this time.
    pub(super) fn of_each(timeout: Duration, addresses: usize) -> Self {
        Self {
            total: timeout * u32::try_from(addresses).unwrap_or(u32::MAX),
            share: timeout,
            need: Duration::ZERO,
        }
    }

    /// Returns the time of the next address; `None` if too little is left.
    fn next(self, passed: Duration) -> Option<Duration> {
        let left = self.total.saturating_sub(passed);
        (left >= self.need && !left.is_zero()).then(|| left.min(self.share))
    }
}

impl StoreClient {
    /// Asks one address after the other, each once, until one answers with more than that another
    /// server may be able to execute the request. The address that has answered last is first.
    /// A standby tells which server is active: that address is next, if it is one of this
    /// client's own. Other addresses never get a request, because it may contain a credential.
    pub(super) async fn round<T, F>(
        &self,
        pace: Pace,
        ask: impl Fn(usize, Duration) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let began = Instant::now();
        let first = self.current.load(Ordering::Relaxed);
        let mut open: Vec<usize> = (1..self.endpoints.len())
            .map(|step| (first + step) % self.endpoints.len())
            .collect();
        let (mut index, mut time) = (first, pace.share.min(pace.total));
        let mut worst: Option<StoreError> = None;
        loop {
            let error = match ask(index, time).await {
                Err(error) if error.is_of_the_endpoint() => error,
                answer => {
                    self.current.store(index, Ordering::Relaxed);
                    return answer;
                }
            };
            self.confirmed.store(NONE, Ordering::Relaxed);
            let goes_on = error.is_of_the_server();
            let hint = error
                .of_standby()
                .and_then(|problem| problem.active.as_deref());
            let hinted = hint.and_then(|url| {
                let is_active = |&index: &usize| self.endpoints[index].is_at(url);
                open.iter().position(is_active)
            });
            if worst
                .as_ref()
                .is_none_or(|worst| error.weight() > worst.weight())
            {
                worst = Some(error);
            }
            let next = (!open.is_empty()).then(|| open.remove(hinted.unwrap_or(0)));
            match (next, pace.next(began.elapsed())) {
                (Some(next), Some(left)) if goes_on => (index, time) = (next, left),
                (next, _) => {
                    // If several requests fail at the same endpoint, only one of them selects the
                    // endpoint that is first from now on.
                    let next = next.unwrap_or((first + 1) % self.endpoints.len());
                    let order = Ordering::Relaxed;
                    let _ = self.current.compare_exchange(first, next, order, order);
                    return Err(worst.expect("an address has failed"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn each_of_several_addresses_has_a_third_of_an_attempt_and_a_single_one_all_of_it() {
        let pace = Pace::of_attempt(ms(1500), ms(0), 3);
        let times = [0, 500, 1005, 1490].map(|passed| pace.next(ms(passed)));
        assert_eq!(times, [Some(ms(500)), Some(ms(500)), Some(ms(495)), None]);
        let alone = Pace::of_attempt(ms(1500), ms(0), 1);
        assert_eq!(alone.next(ms(0)), Some(ms(1500)));
        let short = Pace::of_attempt(ms(120), ms(0), 3);
        assert_eq!(short.next(ms(0)), Some(ms(100)), "time for a distant store");
    }

    #[test]
    fn a_request_that_waits_in_the_store_is_not_cut_while_it_waits() {
        let pace = Pace::of_attempt(ms(20_000), ms(15_000), 3);
        // The first address refuses at once, or there is no machine.
        assert_eq!(
            pace.next(ms(2)),
            Some(Duration::from_micros(16_666_666) + Duration::from_nanos(666))
        );
        assert!(pace.next(ms(3_000)).is_some());
        // The first address hangs, so the next attempt begins with the second one.
        assert_eq!(pace.next(ms(16_667)), None);
    }
}
