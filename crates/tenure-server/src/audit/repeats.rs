//! Lines that a client can cause as often as it likes, counted by client: a flood of them must not
//! fill the disk.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::AuditEntry;
use crate::shares::Tenant;

/// The interval at which a client gets another line beyond its burst.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of known clients. All further clients share one line.
const MAX_CLIENTS: usize = 4096;

/// The acts of one kind.
#[derive(Debug)]
pub(super) struct Repeats {
    /// The number of lines that a client may have in an interval.
    burst: u32,
    by_client: Mutex<HashMap<Tenant, Repeated>>,
}

/// The acts of one client.
#[derive(Debug)]
struct Repeated {
    /// The beginning of the interval.
    began: Instant,
    /// The number of lines in the interval.
    lines: u32,
    /// The number of acts without a line, and the first of them.
    count: u64,
    first: Option<AuditEntry>,
}

impl Repeats {
    pub(super) fn with_burst(burst: u32) -> Self {
        let by_client = Mutex::default();
        Self { burst, by_client }
    }

    /// Counts one act of this client. Returns its line, with the number of acts since the last line,
    /// if a line is due.
    pub(super) fn line(
        &self,
        client: &Tenant,
        now: Instant,
        entry: impl FnOnce() -> AuditEntry,
    ) -> Option<AuditEntry> {
        let mut by_client = self.lock();
        let is_full = by_client.len() >= MAX_CLIENTS && !by_client.contains_key(client);
        let client = if is_full { &Tenant::Unknown } else { client };
        let repeated = by_client.entry(client.clone()).or_insert(Repeated {
            began: now,
            lines: 0,
            count: 0,
            first: None,
        });
        if now >= repeated.began + INTERVAL {
            (repeated.began, repeated.lines) = (now, 0);
        }
        repeated.count += 1;
        if repeated.lines >= self.burst {
            repeated.first.get_or_insert_with(entry);
            return None;
        }
        repeated.lines += 1;
        repeated.first = None;
        Some(counted(entry(), std::mem::take(&mut repeated.count)))
    }

    /// Returns the lines of acts without one whose interval is over at `now`, or all of them.
    pub(super) fn due(&self, now: Option<Instant>) -> Vec<AuditEntry> {
        let is_over = |repeated: &Repeated| now.is_none_or(|now| now >= repeated.began + INTERVAL);
        let mut lines = Vec::new();
        self.lock().retain(|_, repeated| {
            if !is_over(repeated) {
                return true;
            }
            let count = repeated.count;
            lines.extend(repeated.first.take().map(|first| counted(first, count)));
            false
        });
        lines
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Repeated>> {
        self.by_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn counted(entry: AuditEntry, count: u64) -> AuditEntry {
    match count {
        1 => entry,
        count => entry.with_count(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditKind;
    use std::net::IpAddr;

    fn counts(lines: impl IntoIterator<Item = AuditEntry>) -> Vec<u64> {
        let counts = lines.into_iter().map(|line| line.count.unwrap_or(1));
        counts.collect()
    }

    fn entry() -> AuditEntry {
        AuditEntry::new(AuditKind::SignIn, "done")
    }

    fn client(number: u32) -> Tenant {
        Tenant::of(
            None,
            Some(IpAddr::V4(std::net::Ipv4Addr::from_bits(number))),
        )
    }

    #[test]
    fn a_client_gets_its_burst_and_then_one_line_a_minute_with_the_number() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let lines = |repeats: &Repeats, seconds, times: u64| {
            let acts = (0..times).filter_map(|_| repeats.line(&client(1), at(seconds), entry));
            counts(acts)
        };
        let refusals = Repeats::with_burst(1);
        assert_eq!(lines(&refusals, 0, 10_000), [1]);
        assert!(lines(&refusals, 59, 10).is_empty());
        assert_eq!(lines(&refusals, 60, 1), [10_010]);
        assert_eq!(lines(&refusals, 120, 1), [1]);
        let sign_ins = Repeats::with_burst(3);
        assert_eq!(lines(&sign_ins, 0, 10), [1, 1, 1]);
        assert!(counts(sign_ins.due(Some(at(59)))).is_empty());
        // The client stops, and the rest is written all the same.
        assert_eq!(counts(sign_ins.due(Some(at(60)))), [7]);
        assert!(sign_ins.due(None).is_empty());
        assert_eq!(lines(&sign_ins, 61, 5), [1, 1, 1]);
        assert_eq!(counts(sign_ins.due(None)), [2], "the log is closed");
    }

    #[test]
    fn memory_is_bounded() {
        let (repeats, now) = (Repeats::with_burst(1), Instant::now());
        for number in 0..2 * MAX_CLIENTS as u32 {
            repeats.line(&client(number), now, entry);
        }
        assert!(repeats.lock().len() <= MAX_CLIENTS + 1);
        repeats.due(Some(now + INTERVAL));
        assert!(repeats.lock().is_empty());
    }
}
