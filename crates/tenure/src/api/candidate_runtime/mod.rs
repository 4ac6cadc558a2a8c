//! The thread that several candidates of a process share.

#[cfg(feature = "peers")]
mod member;

use std::io;
use std::sync::Arc;

use crate::api::candidate::Candidate;
use crate::api::observe::Source;
use crate::base::clock::Clock;
use crate::config::{Config, Strategy};
use crate::election::metrics::Recorder;
use crate::election::{Driver, StrategyIo};
use crate::http::client::HttpClients;
use crate::http::store::CheckStore;
use crate::service::{self, SharedBackend, StartError};

/// A thread for several candidates of one process, each in its own election. The candidates share
/// HTTP clients and connections, and send renewals to the same store in one request.
///
/// [`Candidate::start`] starts a thread for a single candidate. The thread ends when this handle
/// and all of its candidates are dropped. Clones refer to the same thread.
///
/// # Examples
///
/// ```no_run
/// use tenure::{CandidateRuntime, Config};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = CandidateRuntime::start()?;
/// let nightly = runtime.start_candidate(Config::new("billing/nightly".parse()?)).await?;
/// let reports = runtime.start_candidate(Config::new("billing/reports".parse()?)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CandidateRuntime {
    pub(crate) driver: Driver,
    /// The connections of these clients belong to the thread, so tasks of the application can't
    /// block them.
    candidates: HttpClients,
    /// The connections of these clients belong to the caller's runtime.
    observers: HttpClients,
}

impl Candidate {
    /// Starts a candidate on a thread of its own. [`CandidateRuntime`] starts several on one
    /// thread.
    ///
    /// It contacts the store only when it campaigns, so a worker can start while the store is down.
    /// Among peers it listens and votes from now on until it is dropped, even if it does not
    /// campaign.
    ///
    /// # Errors
    ///
    /// [`StartError`] if this machine can't run the candidate.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        CandidateRuntime::start()?.start_candidate(config).await
    }
}

/// The lease service that a candidate uses, and the one that its observers use.
pub(crate) type Backends = (SharedBackend, SharedBackend);

impl CandidateRuntime {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`StartError`] if this machine can't run candidates.
    pub fn start() -> Result<Self, StartError> {
        let clock = Clock::system().map_err(StartError::Clock)?;
        getrandom::u64()
            .map_err(|error| StartError::Random(io::Error::other(error.to_string())))?;
        Self::start_with(clock)
    }

    pub(crate) fn start_with(clock: Clock) -> Result<Self, StartError> {
        Ok(Self {
            driver: Driver::start(clock).map_err(StartError::Thread)?,
            candidates: HttpClients::default(),
            observers: HttpClients::default(),
        })
    }

    /// Starts a candidate on this thread. The candidate contacts a store only when it campaigns.
    /// Among peers, it listens and votes from now on.
    ///
    /// This reads files and sets up the HTTP client on a thread for blocking work, so it does not
    /// delay other tasks.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the settings allow no election, the HTTP client can't be set up, or, among
    /// peers, the member can't listen or can't store its state.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn start_candidate(&self, config: Config) -> Result<Candidate, StartError> {
        let runtime = self.clone();
        let started = tokio::task::spawn_blocking(move || runtime.start_candidate_blocking(config));
        // This task is never aborted, so it can't be cancelled.
        started
            .await
            .unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(StartError::Thread(io::Error::other(error))),
            })
    }

    fn start_candidate_blocking(&self, config: Config) -> Result<Candidate, StartError> {
        #[cfg(feature = "azure")]
        if let Strategy::AzureBlob(blob) = &config.strategy {
            tracing::info!(election = %config.election, blob = %blob.url(), "the lease of a blob");
            if let Some(warning) = blob.warning() {
                tracing::warn!(election = %config.election, "{warning}");
            }
        }
        #[cfg(feature = "kubernetes")]
        if let Strategy::Kubernetes(lease) = &config.strategy {
            tracing::info!(election = %config.election, object = %lease, "a Kubernetes Lease");
        }
        #[cfg(feature = "peers")]
        if let (Some(plan), Some(members)) = (config.election_plan()?, config.members().cloned()) {
            let (config, parts) = self.start_member(config, &members, &plan)?;
            let check = parts.transport.endpoint().and_then(|it| it.group_store());
            let check = check.map(|store| store as Arc<dyn CheckStore>);
            let backends = self.backends(&config, check)?;
            return Ok(self.peer_candidate(config, parts, backends));
        }
        let backends = self.backends(&config, None)?;
        let backends = backends.unwrap_or_else(|| unreachable!("this strategy elects by a lease"));
        Ok(self.lease_candidate(config, backends))
    }

    /// Opens the lease service of a candidate, if its strategy needs one.
    fn backends(
        &self,
        config: &Config,
        check: Option<Arc<dyn CheckStore>>,
    ) -> Result<Option<Backends>, StartError> {
        let open = |clients| service::open(config, clients, &self.driver.clock);
        let own = service::open_checked(config, &self.candidates, &self.driver.clock, check)?;
        let Some(own) = own else {
            return Ok(None);
        };
        // A store in memory has no connections, and belongs to one candidate.
        let observed = match config.strategy {
            Strategy::Static => None,
            _ => open(&self.observers)?,
        };
        let observed = observed.unwrap_or_else(|| own.clone());
        Ok(Some((own, observed)))
    }

    pub(crate) fn lease_candidate(
        &self,
        config: Config,
        (backend, observed): Backends,
    ) -> Candidate {
        tracing::info!(election = %config.election, candidate = %config.candidate,
            strategy = config.strategy.name(), timings = %config.timings,
            on_overrun = config.on_overrun.name(), "candidate");
        let config = Arc::new(config);
        let metrics = Arc::new(Recorder::new(config.clone(), self.driver.clock.clone()));
        let io = StrategyIo::lease(config.clone(), backend, metrics.clone());
        let source = Source {
            lease: Some(observed),
            peers: None,
        };
        Candidate::new(
            self.driver.join(config, metrics.clone(), io),
            metrics,
            source,
        )
    }
}
