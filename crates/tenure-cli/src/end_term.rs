//! The time that a holder gets to stop when an operator ends its term.

use std::time::Duration;

use humantime::format_duration;
use tenure::store::{DurationMs, LeaseView};
use tracing::warn;

use crate::exit;
use crate::lease_view::finite;

/// The time for which a lease without a holder is reserved for the target of a hand-over.
const WITHOUT_HOLDER: Duration = Duration::from_secs(10);

/// Returns the time that the holder of this lease gets to stop, if the operator sets one, or if a
/// request needs one; `None` for the rest of the holder's lease.
///
/// With the rest of its lease the holder stops before its end, as it stops before its lease expires.
/// That holds whether or not the holder learns of the end of its term, and for all timings. Usually
/// it learns of that with its next renewal and releases the lease as soon as its task has stopped, so
/// waiters do not wait for the whole time. With a shorter time that renewal may come too late, or
/// never.
pub(crate) fn period(
    view: &LeaseView,
    asked: Option<Duration>,
    flag: &str,
) -> anyhow::Result<Option<Duration>> {
    let lease = &view.lease;
    let election = format!("{}/{lease}", view.namespace);
    if view.duration_ms == Some(DurationMs::Infinite) {
        if asked.is_none() {
            return Err(exit::bad_configuration(format!(
                "the lease {lease} is infinite: its holder need not renew it and may not notice the end of its \
                 term for any time; set that time with {flag}"
            )));
        }
        warn!(%election, "this lease is infinite: its holder need not renew it, and if it does not notice the \
            end of its term in time, it still acts when another candidate leads");
        return Ok(asked);
    }
    let Some(safe) = finite(view.duration_ms) else {
        return Ok(asked.or(Some(WITHOUT_HOLDER)));
    };
    if let Some(period) = asked.filter(|period| *period < safe) {
        let (period, safe) = (format_duration(period), format_duration(safe));
        warn!(%election, "after {period} another candidate may lead while the holder still acts: the holder \
            notices with its next renewal, and not at all while it can't reach the store; from {flag} \
            {safe} on, the duration of the lease, and without {flag}, the holder has certainly stopped");
    }
    Ok(asked)
}
