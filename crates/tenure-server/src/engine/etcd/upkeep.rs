//! Compaction of etcd, and a watch on its size.

use std::time::{Duration, Instant};

use tenure_register::etcd::wire::{
    CompactRequest, Encoded, RangeRequest, StatusRequest, TxnOperation, TxnRequest, end_of_prefix,
};
use tracing::{debug, warn};

use super::gateway::Gateway;
use crate::config::{Compaction, EtcdConfig};
use crate::engine::shared::log::LogError;

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

/// The periodic work of the owner of a log.
#[derive(Debug)]
pub(super) struct Upkeep {
    prefix: String,
    compact: Compaction,
    /// The last revision that an answer contained.
    revision: u64,
    /// The time of the last compaction, and the revision of that time.
    compacted: Option<(Instant, u64)>,
    /// The reason why etcd is not compacted by this server, and the remedy.
    warning: Option<String>,
    watch_at: Instant,
    warn_at: Instant,
    size: Option<Size>,
}

/// The size of the database, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Without the space that later writes can use again.
    pub(super) in_use: u64,
    pub(super) quota: u64,
}

impl Upkeep {
    pub(super) fn new(config: &EtcdConfig, now: Instant) -> Self {
        Self {
            prefix: config.prefix.clone(),
            compact: config.compact,
            revision: 0,
            compacted: None,
            warning: None,
            watch_at: now,
            warn_at: now,
            size: None,
        }
    }

    pub(super) const fn saw_revision(&mut self, revision: u64) {
        if revision > self.revision {
            self.revision = revision;
        }
    }

    pub(super) const fn size(&self) -> Option<Size> {
        self.size
    }

    /// Returns the warning that this server does not compact etcd.
    pub(super) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Does the work that is due. Without the right to it the work is left to etcd's operator.
    pub(super) fn run(&mut self, gateway: &mut Gateway, now: Instant) {
        if now >= self.watch_at {
            gateway.check_version_again();
            self.size = Size::read(gateway);
            let full = self.size.filter(|size| size.used() >= WARN_FROM);
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
        if let Some(revision) = self.revision_to_compact(now) {
            self.compact(gateway, revision);
        }
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

    fn compact(&mut self, gateway: &mut Gateway, revision: u64) {
        let outcome = match self.compact {
            Compaction::Auto => has_other_keys(gateway, &self.prefix),
            Compaction::Every(_) | Compaction::Off => Ok(false),
        };
        let outcome = match outcome {
            Ok(true) => {
                let prefix = &self.prefix;
                self.warn_not_compacted(&format!("it has keys that do not begin with {prefix}"));
                return;
            }
            Ok(false) => gateway.ask(&CompactRequest { revision }).map(drop),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                self.warning = None;
                debug!(revision, "etcd was compacted");
            }
            Err(LogError::Misconfigured(error)) => {
                self.warn_not_compacted(&format!("etcd.user has no right to it ({error})"));
            }
            // Another server may have compacted it.
            Err(error) => debug!(%error, "etcd was not compacted"),
        }
    }

    /// Warns that this server does not compact etcd, for this reason.
    fn warn_not_compacted(&mut self, reason: &str) {
        if self.warning.is_none() {
            let warning = format!(
                "etcd is not compacted by tenure, because {reason}: set etcd's option \
                 --auto-compaction-retention, and etcd.compact = \"off\""
            );
            warn!("{warning}");
            self.warning = Some(warning);
        }
    }
}

/// Returns whether etcd has keys outside of the prefix.
fn has_other_keys(gateway: &mut Gateway, prefix: &str) -> Result<bool, LogError> {
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
    let answer = gateway.ask(&TxnRequest {
        success: vec![count(zero(), zero()), own],
        ..TxnRequest::default()
    })?;
    let counts = answer.responses.into_iter();
    let counts = counts.map(|response| response.response_range.unwrap_or_default().count);
    let counts: Vec<u64> = counts.collect();
    Ok(counts.first() != counts.get(1))
}

impl Size {
    /// Reads the size from the metrics, which need no right and contain the quota in all versions;
    /// otherwise from the status.
    fn read(gateway: &mut Gateway) -> Option<Self> {
        if let Some(size) = gateway.metrics().as_deref().and_then(Self::parse) {
            return Some(size);
        }
        let status = gateway.ask(&StatusRequest {}).ok()?;
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
        let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        format!(
            "etcd has used {:.0} % of its quota ({:.1} of {:.1} GiB): compact and defragment it, \
             or raise --quota-backend-bytes; at 90 % changes are refused",
            self.used() * 100.0,
            gibibytes(self.in_use),
            gibibytes(self.quota),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upkeep(compact: Compaction) -> (Upkeep, Instant) {
        let config = EtcdConfig {
            endpoints: Vec::new(),
            prefix: "tenure/".to_owned(),
            user: None,
            password_file: None,
            ca_file: None,
            certificate: None,
            key: None,
            compact,
        };
        let now = Instant::now();
        (Upkeep::new(&config, now), now)
    }

    #[test]
    fn a_compaction_keeps_the_revisions_of_the_last_interval() {
        let (mut upkeep, start) = upkeep(Compaction::Auto);
        let mut due = |seconds, revision| {
            upkeep.saw_revision(revision);
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
        upkeep.saw_revision(5);
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
            "etcd has used 82 % of its quota (1.6 of 2.0 GiB): compact and defragment it, or raise \
             --quota-backend-bytes; at 90 % changes are refused"
        );
        let without_quota = metrics.replace("2.147483648e+09", "0");
        assert_eq!(Size::parse(&without_quota), None);
        assert_eq!(Size::parse(""), None);
    }
}
