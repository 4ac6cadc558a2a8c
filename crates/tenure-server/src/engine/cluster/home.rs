//! The home of a cluster's log, and the runtime on which its connections live.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "bucket")]
use tenure_register::bucket::BucketHome;
use tenure_register::etcd::EtcdHome;
use tenure_register::postgres::PostgresHome;
use tenure_register::{Failure, Register, RegisterKey};
use tokio::runtime::{Builder, Runtime};

use crate::config::{ClusterConfig, Home};

/// How often a bucket is probed that does not answer.
#[cfg(feature = "bucket")]
const PROBES: usize = 5;

/// The home of a cluster's log.
#[derive(Clone, Debug)]
pub(crate) struct LogHome {
    pub(in crate::engine) files: Arc<dyn Register>,
    /// The kind of the home, for people, for example `etcd`.
    pub(in crate::engine) kind: &'static str,
    /// The folder of the log in its home.
    pub(in crate::engine) folder: RegisterKey,
    /// The home and the place of the log in it, for people.
    pub(in crate::engine) place: String,
    runtime: Arc<HomeRuntime>,
    #[cfg(feature = "bucket")]
    bucket: Option<Arc<BucketHome>>,
}

/// Threads that follow a log and that append to it block, and the connections go on meanwhile. The home
/// of a simulation has no runtime.
#[derive(Debug)]
struct HomeRuntime(Option<Runtime>);

impl Drop for HomeRuntime {
    fn drop(&mut self) {
        // A look-up of a name that hangs must not delay the end.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl LogHome {
    /// Opens the home of a cluster. A request takes at most the time of an attempt. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`]: a setting, or a file that it names, can't be used.
    pub(in crate::engine) fn open(
        config: &ClusterConfig,
        attempt: Duration,
    ) -> Result<Self, Failure> {
        let runtime = runtime()?;
        // Connections are made within the runtime.
        let entered = runtime.enter();
        let name = &config.name;
        #[cfg(feature = "bucket")]
        let mut opened = None;
        let (kind, place, files): (_, _, Arc<dyn Register>) = match &config.home {
            Home::Etcd(etcd) => {
                let place = format!("etcd, prefix {}, cluster {name}", etcd.prefix);
                let home = EtcdHome::new(etcd.clone(), attempt)?;
                ("etcd", place, Arc::new(home))
            }
            Home::Postgres(postgres) => {
                let place = format!("PostgreSQL, schema {}, cluster {name}", postgres.schema);
                let home = PostgresHome::new(postgres.clone(), attempt)?;
                ("PostgreSQL", place, Arc::new(home))
            }
            #[cfg(feature = "bucket")]
            Home::Bucket(bucket) => {
                let place = format!("bucket {}, cluster {name}", bucket.url);
                let home = Arc::new(BucketHome::new(bucket, attempt)?);
                opened = Some(Arc::clone(&home));
                ("bucket", place, home)
            }
        };
        drop(entered);
        Ok(Self {
            #[cfg(feature = "bucket")]
            bucket: opened,
            ..Self::over(kind, config, place, files, Some(runtime))?
        })
    }

    /// The home with these values. The home of a simulation has no runtime.
    pub(in crate::engine) fn over(
        kind: &'static str,
        config: &ClusterConfig,
        place: String,
        files: Arc<dyn Register>,
        runtime: Option<Runtime>,
    ) -> Result<Self, Failure> {
        let folder = config.name.parse();
        Ok(Self {
            files,
            kind,
            folder: folder
                .map_err(|error| Failure::Misconfigured(format!("cluster.name: {error}")))?,
            place,
            runtime: Arc::new(HomeRuntime(runtime)),
            #[cfg(feature = "bucket")]
            bucket: None,
        })
    }

    /// Checks that a bucket keeps the rules on which a log depends: not every store does. Returns a
    /// warning if objects can't be deleted.
    ///
    /// # Errors
    ///
    /// A rule that the bucket breaks; or it does not answer.
    pub(in crate::engine) fn probe(&self) -> Result<Option<String>, Failure> {
        #[cfg(feature = "bucket")]
        if let Some(bucket) = &self.bucket {
            let mut probed = self.block_on(bucket.probe());
            for _ in 1..PROBES {
                if matches!(probed, Ok(_) | Err(Failure::Misconfigured(_))) {
                    break;
                }
                probed = self.block_on(bucket.probe());
            }
            return probed;
        }
        Ok(None)
    }

    /// Waits for the outcome. A thread of an async runtime must not call this.
    pub(in crate::engine) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.runtime.0.as_ref();
        runtime.expect("it is there until the drop").block_on(work)
    }
}

/// Returns a runtime for the connections of a home.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_name("tenure-home");
    let runtime = runtime.enable_all().build();
    runtime.map_err(|error| Failure::Misconfigured(format!("can't start a thread: {error}")))
}
