//! Compaction of etcd, and a watch on its size.

use std::time::{Duration, Instant};

use serde_json::json;
use tracing::{debug, warn};

use super::{Compaction, EtcdHome, range_of_prefix};
use crate::{Failure, HomeFacts, lock, note_warning};

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

/// The periodic work of the owner of a log, and its results. A time that is `None` has come.
#[derive(Default)]
pub(super) struct Upkeep {
    /// The time of the last compaction, and the revision of that time.
    compacted: Option<(Instant, u64)>,
    /// The reason why etcd is not compacted by this program, and the remedy.
    pub(super) warning: Option<String>,
    watch_at: Option<Instant>,
    warn_at: Option<Instant>,
    /// The size of the database and its quota.
    pub(super) size: HomeFacts,
}

impl EtcdHome {
    /// Does the work that is due. Without the right to it the work is left to etcd's operator.
    pub(super) async fn maintain_at(&self, now: Instant) {
        let (watches, due) = {
            let mut state = lock(&self.state);
            let (compact, revision) = (self.access.compact, state.revision);
            let due = state.upkeep.revision_to_compact(compact, revision, now);
            (Some(now) >= state.upkeep.watch_at, due)
        };
        if watches {
            lock(&self.state).check_version_again();
            let size = self.metrics().await.as_deref().and_then(size_of);
            let size = size.unwrap_or_default();
            lock(&self.state).upkeep.note_size(size, now);
        }
        if let Some(revision) = due {
            match self.compact(revision).await {
                Ok(warning) => note_warning(&mut lock(&self.state).upkeep.warning, warning),
                // Another program may have compacted it.
                Err(error) => debug!(%error, "etcd was not compacted"),
            }
        }
    }

    /// Compacts etcd. Returns a warning if that has to be left to its operator.
    async fn compact(&self, revision: u64) -> Result<Option<String>, Failure> {
        let prefix = &self.access.prefix;
        let is_auto = self.access.compact == Compaction::Auto;
        let reason = if is_auto && self.has_other_keys().await? {
            format!("it has keys that do not begin with {prefix}")
        } else {
            let request = json!({"revision": revision});
            match self.ask("/v3/kv/compaction", &request).await {
                Err(Failure::Misconfigured(error)) => {
                    format!("the user has no right to it ({error})")
                }
                answer => return answer.map(|_| None),
            }
        };
        Ok(Some(format!(
            "etcd is not compacted by tenure, because {reason}: set etcd's option \
             --auto-compaction-retention, and write compact=off into home"
        )))
    }

    /// Returns whether etcd has keys outside of the prefix.
    async fn has_other_keys(&self) -> Result<bool, Failure> {
        let count = |prefix| {
            let mut range = range_of_prefix(prefix);
            range["count_only"] = true.into();
            json!({"request_range": range})
        };
        let counts = ["", &self.access.prefix].map(count);
        let counts = self.execute(counts.into()).await?;
        let count = |at: usize| counts[at].body["response_range"]["count"].as_str();
        Ok(count(0) != count(1))
    }
}

impl Upkeep {
    fn note_size(&mut self, size: HomeFacts, now: Instant) {
        let warning = warning(&size);
        self.size = size;
        let every = warning.as_ref().map_or(WATCH_EVERY, |_| WATCH_FULL_EVERY);
        self.watch_at = Some(now + every);
        if let Some(warning) = warning.filter(|_| Some(now) >= self.warn_at) {
            self.warn_at = Some(now + WARN_EVERY);
            warn!("{warning}");
        }
    }

    /// Returns the revision of the last time, if a compaction is due. `revision` is the present one.
    fn revision_to_compact(
        &mut self,
        compact: Compaction,
        revision: u64,
        now: Instant,
    ) -> Option<u64> {
        let every = match compact {
            Compaction::Auto => COMPACT_EVERY,
            Compaction::Every(every) => every,
            Compaction::Off => return None,
        };
        let due = match self.compacted {
            Some((at, _)) if now.saturating_duration_since(at) < every => return None,
            last => last.map(|(_, revision)| revision),
        };
        self.compacted = Some((now, revision));
        due.filter(|revision| *revision > 0)
    }
}

/// Returns the size and the quota in etcd's metrics, which need no right and contain the quota in all
/// versions.
fn size_of(metrics: &str) -> Option<HomeFacts> {
    let value = |name| {
        let mut lines = metrics.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(found, _)| *found == name)?;
        let value = value.parse::<f64>().ok()?;
        // The quota is 0 if it is turned off.
        (value > 0.0).then_some(value as u64)
    };
    Some(HomeFacts {
        bytes: Some(value("etcd_mvcc_db_total_size_in_use_in_bytes")?),
        quota_bytes: Some(value("etcd_server_quota_backend_bytes")?),
        ..HomeFacts::default()
    })
}

/// Returns a warning if etcd is nearly full.
fn warning(size: &HomeFacts) -> Option<String> {
    let used = size.used_space().filter(|used| *used >= WARN_FROM)?;
    let mebibytes = |bytes: Option<u64>| bytes.unwrap_or_default() as f64 / f64::from(1 << 20);
    Some(format!(
        "etcd has used {:.0} % of its quota ({:.1} of {:.1} MiB): compact and defragment it, \
         or raise --quota-backend-bytes; at 90 % changes are refused",
        used * 100.0,
        mebibytes(size.bytes),
        mebibytes(size.quota_bytes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_keeps_the_revisions_of_the_last_interval() {
        let start = Instant::now();
        let mut upkeep = Upkeep::default();
        let mut due = |seconds, revision| {
            let now = start + Duration::from_secs(seconds);
            upkeep.revision_to_compact(Compaction::Auto, revision, now)
        };
        assert_eq!(due(0, 1_000), None);
        assert_eq!(due(299, 1_600), None);
        assert_eq!(due(300, 1_601), Some(1_000));
        assert_eq!(due(301, 1_603), None);
        assert_eq!(due(599, 2_200), None);
        assert_eq!(due(605, 2_200), Some(1_601));
        assert_eq!(due(905, 2_900), Some(2_200));
    }

    #[test]
    fn the_interval_can_be_set_and_compaction_turned_off() {
        let start = Instant::now();
        let mut upkeep = Upkeep::default();
        let mut due = |compact, seconds| {
            let now = start + Duration::from_secs(seconds);
            upkeep.revision_to_compact(compact, 5, now)
        };
        let every = Compaction::Every(Duration::from_secs(7));
        assert_eq!(due(every, 0), None);
        assert_eq!(due(every, 7), Some(5));
        assert_eq!(due(Compaction::Off, 1_007), None);
    }

    #[test]
    fn the_size_comes_from_the_metrics_of_etcd() {
        let metrics = "# HELP etcd_mvcc_db_total_size_in_bytes Total size\n\
                       etcd_mvcc_db_total_size_in_bytes 1.9e+09\n\
                       etcd_mvcc_db_total_size_in_use_in_bytes 1.76e+09\n\
                       etcd_server_quota_backend_bytes 2.147483648e+09\n";
        let warned = |metrics: &str| warning(&size_of(metrics).unwrap());
        assert_eq!(
            warned(metrics).unwrap(),
            "etcd has used 82 % of its quota (1678.5 of 2048.0 MiB): compact and defragment it, or \
             raise --quota-backend-bytes; at 90 % changes are refused"
        );
        let small = metrics.replace("1.76e+09", "1.7e+06");
        assert_eq!(warned(&small), None);
        let small = small.replace("2.147483648e+09", "2e+06");
        assert!(warned(&small).unwrap().contains("(1.6 of 1.9 MiB)"));
        let without_quota = metrics.replace("2.147483648e+09", "0");
        assert_eq!(size_of(&without_quota), None);
        assert_eq!(size_of(""), None);
    }
}
