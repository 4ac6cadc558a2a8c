//! Compaction of etcd, and a watch on its size.

use std::time::{Duration, Instant};

use tracing::{debug, warn};

use super::wire::{
    CompactRequest, Encoded, RangeRequest, StatusRequest, TxnOperation, TxnRequest, end_of_prefix,
};
use super::{Compaction, EtcdHome, Gateway};
use crate::{Failure, note_warning};

/// The interval of automatic compactions, and the age of the revisions that they keep.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// The interval at which the size is read.
const WATCH_EVERY: Duration = Duration::from_secs(60);

/// The same while etcd is nearly full: changes are accepted again soon after there is space.
const WATCH_FULL_EVERY: Duration = Duration::from_secs(5);

/// The interval at which the operator is warned.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The used share from which the operator is warned.
const WARN_FROM: f64 = 0.8;

/// The periodic work of the owner of a log, and its results.
#[derive(Debug)]
pub(super) struct Upkeep {
    compact: Compaction,
    /// The last revision that an answer contained.
    pub(super) revision: u64,
    /// The time of the last compaction, and the revision of that time.
    compacted: Option<(Instant, u64)>,
    /// The reason why etcd is not compacted by this program, and the remedy.
    pub(super) warning: Option<String>,
    watch_at: Instant,
    warn_at: Instant,
    pub(super) size: Option<Size>,
}

/// The size of the database, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Without the space that later writes can use again.
    pub(super) in_use: u64,
    pub(super) quota: u64,
}

impl EtcdHome {
    /// Does the work that is due. Without the right to it the work is left to etcd's operator.
    pub(super) async fn maintain_at(&self, now: Instant) {
        let (watches, revision) = {
            let mut upkeep = self.upkeep();
            (now >= upkeep.watch_at, upkeep.revision_to_compact(now))
        };
        if !watches && revision.is_none() {
            return;
        }
        let Ok(mut connection) = self.take() else {
            return;
        };
        let gateway = &mut connection.gateway;
        if watches {
            gateway.check_version_again();
            let size = Size::read(gateway).await;
            self.upkeep().note_size(size, now);
        }
        if let Some(revision) = revision {
            match self.compact(gateway, revision).await {
                Ok(warning) => note_warning(&mut self.upkeep().warning, warning),
                // Another program may have compacted it.
                Err(error) => debug!(%error, "etcd was not compacted"),
            }
        }
        self.put_back(connection);
    }

    /// Compacts etcd. Returns a warning if that has to be left to its operator.
    async fn compact(
        &self,
        gateway: &mut Gateway,
        revision: u64,
    ) -> Result<Option<String>, Failure> {
        let prefix = &self.config.prefix;
        let is_auto = self.config.compact == Compaction::Auto;
        let outcome = match is_auto && has_other_keys(gateway, prefix).await? {
            true => Err(format!("it has keys that do not begin with {prefix}")),
            false => match gateway.ask(&CompactRequest { revision }).await {
                Err(Failure::Misconfigured(error)) => {
                    Err(format!("the user has no right to it ({error})"))
                }
                answer => Ok(answer.map(drop)?),
            },
        };
        Ok(outcome.err().map(|reason| {
            format!(
                "etcd is not compacted by tenure, because {reason}: set etcd's option \
                 --auto-compaction-retention, and write compact=off into home"
            )
        }))
    }
}

impl Upkeep {
    pub(super) const fn new(compact: Compaction, now: Instant) -> Self {
        Self {
            compact,
            revision: 0,
            compacted: None,
            warning: None,
            watch_at: now,
            warn_at: now,
            size: None,
        }
    }

    fn note_size(&mut self, size: Option<Size>, now: Instant) {
        self.size = size;
        let full = size.filter(|size| size.used() >= WARN_FROM);
        if let Some(size) = full.filter(|_| now >= self.warn_at) {
            self.warn_at = now + WARN_EVERY;
            warn!("{}", size.warning());
        }
        self.watch_at = now
            + match full {
                Some(_) => WATCH_FULL_EVERY,
                None => WATCH_EVERY,
            };
    }

    /// Returns the revision of the last time, if a compaction is due.
    fn revision_to_compact(&mut self, now: Instant) -> Option<u64> {
        let every = match self.compact {
            Compaction::Auto => COMPACT_EVERY,
            Compaction::Every(every) => every,
            Compaction::Off => return None,
        };
        let due = match self.compacted {
            Some((at, revision)) if now.saturating_duration_since(at) >= every => Some(revision),
            Some(_) => return None,
            None => None,
        };
        self.compacted = Some((now, self.revision));
        due.filter(|revision| *revision > 0)
    }
}

/// Returns whether etcd has keys outside of the prefix.
async fn has_other_keys(gateway: &mut Gateway, prefix: &str) -> Result<bool, Failure> {
    let count = |key, range_end| {
        TxnOperation::Range(RangeRequest {
            key,
            range_end: Some(range_end),
            count_only: true,
            ..RangeRequest::default()
        })
    };
    let zero = || Encoded::copy(b"\0");
    let own = match prefix {
        "" => count(zero(), zero()),
        _ => count(Encoded::copy(prefix.as_bytes()), end_of_prefix(prefix)),
    };
    let counts = TxnRequest::of(vec![count(zero(), zero()), own]);
    let answer = gateway.ask(&counts).await?;
    let counts = answer.responses.into_iter();
    let counts = counts.map(|response| response.response_range.unwrap_or_default().count);
    let counts: Vec<u64> = counts.collect();
    Ok(counts.first() != counts.get(1))
}

impl Size {
    /// Reads the size from the metrics, which need no right and contain the quota in all versions;
    /// otherwise from the status.
    async fn read(gateway: &mut Gateway) -> Option<Self> {
        if let Some(size) = gateway.metrics().await.as_deref().and_then(Self::parse) {
            return Some(size);
        }
        let status = gateway.ask(&StatusRequest {}).await.ok()?;
        (status.quota > 0).then_some(Self {
            in_use: status.size_in_use,
            quota: status.quota,
        })
    }

    fn parse(metrics: &str) -> Option<Self> {
        let value = |name| {
            let value = metrics.lines().find_map(|line| {
                let (found, value) = line.split_once(' ')?;
                (found == name).then(|| value.parse::<f64>().ok())?
            });
            value.filter(|value| *value > 0.0)
        };
        Some(Self {
            in_use: value("etcd_mvcc_db_total_size_in_use_in_bytes")? as u64,
            // It is 0 if the quota is turned off.
            quota: value("etcd_server_quota_backend_bytes")? as u64,
        })
    }

    fn used(self) -> f64 {
        self.in_use as f64 / self.quota as f64
    }

    fn warning(self) -> String {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        format!(
            "etcd has used {:.0} % of its quota ({:.1} of {:.1} MiB): compact and defragment it, \
             or raise --quota-backend-bytes; at 90 % changes are refused",
            self.used() * 100.0,
            mebibytes(self.in_use),
            mebibytes(self.quota),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upkeep(compact: Compaction) -> (Upkeep, Instant) {
        let now = Instant::now();
        (Upkeep::new(compact, now), now)
    }

    #[test]
    fn a_compaction_keeps_the_revisions_of_the_last_interval() {
        let (mut upkeep, start) = upkeep(Compaction::Auto);
        let mut due = |seconds, revision| {
            upkeep.revision = upkeep.revision.max(revision);
            upkeep.revision_to_compact(start + Duration::from_secs(seconds))
        };
        assert_eq!(due(0, 1_000), None);
        assert_eq!(due(299, 1_600), None);
        assert_eq!(due(300, 1_601), Some(1_000));
        assert_eq!(due(301, 1_603), None);
        assert_eq!(due(599, 2_200), None);
        // An answer of a member that is behind contains an older revision.
        assert_eq!(due(605, 2_000), Some(1_601));
        assert_eq!(due(905, 2_900), Some(2_200));
    }

    #[test]
    fn the_interval_can_be_set_and_compaction_turned_off() {
        let (mut upkeep, start) = upkeep(Compaction::Every(Duration::from_secs(7)));
        upkeep.revision = 5;
        assert_eq!(upkeep.revision_to_compact(start), None);
        let later = start + Duration::from_secs(7);
        assert_eq!(upkeep.revision_to_compact(later), Some(5));
        upkeep.compact = Compaction::Off;
        let later = later + Duration::from_secs(1_000);
        assert_eq!(upkeep.revision_to_compact(later), None);
    }

    #[test]
    fn the_size_comes_from_the_metrics_of_etcd() {
        let metrics = "# HELP etcd_mvcc_db_total_size_in_bytes Total size\n\
                       etcd_mvcc_db_total_size_in_bytes 1.9e+09\n\
                       etcd_mvcc_db_total_size_in_use_in_bytes 1.76e+09\n\
                       etcd_server_quota_backend_bytes 2.147483648e+09\n";
        let size = Size::parse(metrics).unwrap();
        assert_eq!(
            size.warning(),
            "etcd has used 82 % of its quota (1678.5 of 2048.0 MiB): compact and defragment it, or \
             raise --quota-backend-bytes; at 90 % changes are refused"
        );
        let small = Size {
            in_use: 1_700_000,
            quota: 2_000_000,
        };
        assert!(small.warning().contains("(1.6 of 1.9 MiB)"));
        let without_quota = metrics.replace("2.147483648e+09", "0");
        assert_eq!(Size::parse(&without_quota), None);
        assert_eq!(Size::parse(""), None);
    }
}
