//! A candidate's configuration in code.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "peers")]
use tenure_core::bully::GroupGuarantee;
use tenure_core::lease::candidate::{Timings, TimingsError, TimingsOptions};
use tenure_core::wire::DEFAULT_PRIORITY;
use tenure_core::{CandidateId, ElectionName, Epoch};

use super::strategy::Strategy;
#[cfg(feature = "peers")]
use super::{Bully, BullyError, ElectionPlan, Fallback};
use crate::base::guarantee::Guarantee;
use crate::base::health::HealthCheck;
use crate::base::term::TermSummary;
use crate::http::credentials::Credentials;
use crate::http::root_certificates::RootCertificates;
use crate::http::store::Endpoint;

/// The default address: a store on this machine, at the store's default port.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// A candidate's configuration: in code, from a TOML file ([`load`](Self::load)), from the
/// environment ([`from_env`](Self::from_env)), or all of them together.
///
/// Its errors contain readable messages. To show them, return `anyhow::Error` from `main`, or print
/// them with `{}`: `Box<dyn Error>` prints the `Debug` form.
#[derive(Clone, Debug)]
pub struct Config {
    /// The election.
    pub election: ElectionName,
    /// The candidate's id.
    pub candidate: CandidateId,
    pub(crate) servers: Vec<Endpoint>,
    /// The root certificates of stores at https addresses.
    pub roots: RootCertificates,
    pub(crate) credentials: Credentials,
    /// The rank among waiting candidates; the lowest rank is first.
    pub priority: u32,
    /// The metadata of this candidate while it leads.
    pub metadata: BTreeMap<String, String>,
    /// The time for which the lease stays free after this candidate's term has expired or been
    /// broken.
    pub lock_delay: Duration,
    pub(crate) timings: Timings,
    /// The options from which the timings are derived. An adjustment derives the others again.
    pub(crate) timings_options: TimingsOptions,
    pub(crate) on_overrun: OnOverrun,
    pub(crate) health_check: Option<HealthCheck>,
    pub(crate) term_hook: Option<TermHook>,
    /// The strategy by which the candidate is elected.
    pub strategy: Strategy,
    #[cfg(feature = "peers")]
    pub(crate) fallback: Option<Fallback>,
}

/// The action at an overrun: a part of a leader's task still runs although it was aborted, and the
/// lease is not renewed any more. Another candidate may lead soon.
///
/// Parts of the task are the task itself, [holds](crate::Leadership::hold), and what
/// [`Leadership::spawn`](crate::Leadership::spawn) and
/// [`Leadership::spawn_blocking`](crate::Leadership::spawn_blocking) have started. An abort stops a
/// future at its next `.await`. It does not reach code that blocks its thread, holds, closures, and
/// what the task has started by other means.
///
/// The action is taken after a loss of the lease, an operator's break or hand-over, and the end of
/// an unhealthy task: a quarter of the margin after the hard stop, so before another candidate may
/// lead ([`Timings`](crate::Timings)). If the operator's period ends sooner than the lease, it is
/// taken three quarters of the margin before the end of the period. After a suspension of the process
/// past that time it is taken at once. At a resignation, a hand-over by the leader
/// ([`Leadership::hand_over`](crate::Leadership::hand_over)) and a shutdown it is not taken: the
/// lease is renewed until all parts have ended, and the log names the parts.
///
/// # Recipes
///
/// **A process of its own.** If the process does nothing but the leader's work, keep
/// [`Exit`](Self::Exit), and let a supervisor (systemd, Kubernetes) start the process again:
///
/// ```no_run
/// # async fn lead(leadership: tenure::Leadership) {}
/// # async fn example(config: tenure::Config) -> Result<(), Box<dyn std::error::Error>> {
/// let candidate = tenure::Candidate::start(config).await?;
/// candidate.run_while_leader(tenure::shutdown_signal()?, lead).await?;
/// # Ok(())
/// # }
/// ```
///
/// **A service that does more, or leads several elections.** Use [`Call`](Self::Call) with a
/// shutdown of its own, which closes listeners and ends what must not be lost, and then ends the
/// process. The function only wakes the shutdown. The shutdown has the rest of the margin: three
/// quarters of a second with the default timings. Beyond it, the work overlaps with the next
/// leader's.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use tenure::{Config, OnOverrun};
/// # async fn close_listeners() {}
/// # fn example(config: Config) -> Config {
/// let overrun = Arc::new(tokio::sync::Notify::new());
/// let policy = OnOverrun::Call(Arc::new({
///     let overrun = overrun.clone();
///     move |_epoch| overrun.notify_one()
/// }));
/// // A thread of its own: the blocked task may occupy the runtime.
/// std::thread::spawn(move || {
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
///     runtime.expect("a runtime").block_on(async {
///         overrun.notified().await;
///         let _ = tokio::time::timeout(Duration::from_millis(500), close_listeners()).await;
///         std::process::exit(OnOverrun::EXIT_CODE);
///     });
/// });
/// config.with_on_overrun(policy)
/// # }
/// ```
///
/// **Work that only writes behind a fence.** If each effect of the task carries its
/// [epoch](crate::Leadership::epoch), and each receiver refuses smaller ones, the old task does no
/// harm beside the next leader. [`Report`](Self::Report) lets it run to its end:
///
/// ```no_run
/// # use tenure::{Config, Leadership, OnOverrun};
/// # use tenure::fence::Fenced as _;
/// # fn example(config: Config) -> Config {
/// config.with_on_overrun(OnOverrun::Report)
/// # }
/// # async fn write(http: reqwest::Client, leadership: Leadership) -> Result<(), Box<dyn std::error::Error>> {
/// // In the task: the receiver answers 409 to a stale epoch.
/// http.post("http://ledger.example/entries").fenced(&leadership)?.send().await?.error_for_status()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum OnOverrun {
    /// Log an error and count it, and let the work run on. Another candidate may lead meanwhile;
    /// only a [fence](crate::fence) that checks epochs rejects the writes of the old task.
    Report,
    /// End the process with [`OnOverrun::EXIT_CODE`], without destructors and exit handlers, which
    /// may wait for the work that does not stop. Nothing else can stop a blocked thread. The last
    /// log line names the task's parts; the end waits for it for at most 100 ms.
    #[default]
    Exit,
    /// Call this with the term's epoch, on the candidate's thread. It must not block, because the
    /// thread can't renew during the call.
    Call(Arc<dyn Fn(Epoch) + Send + Sync>),
}

impl OnOverrun {
    /// The exit code of a process that ends itself because its task overran (`EX_SOFTWARE` in
    /// `sysexits.h`).
    pub const EXIT_CODE: i32 = 70;

    /// Returns the name in configurations and logs: `report`, `exit` or `call`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Exit => "exit",
            Self::Call(_) => "call",
        }
    }
}

/// The function of [`Config::with_term_hook`].
#[derive(Clone)]
pub(crate) struct TermHook(pub(crate) Arc<dyn Fn(&TermSummary) + Send + Sync>);

impl fmt::Debug for TermHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TermHook")
    }
}

impl fmt::Debug for OnOverrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Config {
    /// Creates the default configuration of this election: a store at `http://127.0.0.1:7400`, a
    /// candidate id from the host name, the process id and a random number, and the default
    /// [`Timings`].
    #[must_use]
    pub fn new(election: ElectionName) -> Self {
        Self {
            election,
            candidate: fresh_candidate_id(),
            servers: vec![default_server()],
            roots: RootCertificates::system(),
            credentials: Credentials::none(),
            priority: DEFAULT_PRIORITY,
            metadata: BTreeMap::new(),
            lock_delay: Duration::ZERO,
            timings: Timings::default(),
            timings_options: TimingsOptions::default(),
            on_overrun: OnOverrun::default(),
            health_check: None,
            term_hook: None,
            strategy: Strategy::Lease,
            #[cfg(feature = "peers")]
            fallback: None,
        }
    }

    /// Returns the store's addresses.
    #[must_use]
    pub fn servers(&self) -> &[Endpoint] {
        &self.servers
    }

    /// Returns the action if the task still runs after it was aborted.
    #[must_use]
    pub const fn on_overrun(&self) -> &OnOverrun {
        &self.on_overrun
    }

    /// Returns the guarantee of the strategy.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        #[cfg(feature = "peers")]
        if self.fallback.is_some() {
            return Guarantee::StoreOrMembers;
        }
        match &self.strategy {
            Strategy::Lease => Guarantee::FencedLease,
            #[cfg(feature = "azure")]
            Strategy::AzureBlob(_) => Guarantee::FencedLease,
            #[cfg(feature = "kubernetes")]
            Strategy::Kubernetes(_) => Guarantee::FencedLease,
            // The peers alone may elect another candidate at the same time, unless they have a
            // quorum.
            #[cfg(feature = "peers")]
            Strategy::Bully(bully) | Strategy::Both(bully)
                if bully.guarantee() == GroupGuarantee::BestEffort =>
            {
                Guarantee::BestEffort
            }
            #[cfg(feature = "peers")]
            Strategy::Bully(_) => Guarantee::Quorum,
            #[cfg(feature = "peers")]
            Strategy::Both(_) => Guarantee::FencedLease,
            Strategy::Static => Guarantee::BestEffort,
        }
    }

    /// Returns the timings of a term.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Sets the strategy; default [`Strategy::Lease`].
    #[must_use]
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Lets these members elect a leader among themselves while the store is away. The strategy must
    /// be [`Strategy::Lease`] or [`Strategy::AzureBlob`], and the lock delay 0. The member's
    /// priority in the list replaces [`priority`](Self::priority).
    #[cfg(feature = "peers")]
    #[must_use]
    pub fn with_fallback(self, fallback: Fallback) -> Self {
        let fallback = Some(fallback);
        Self { fallback, ..self }
    }

    /// Returns the settings of the fallback, if there is one.
    #[cfg(feature = "peers")]
    #[must_use]
    pub const fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Returns the settings of the members, if candidates are elected among peers, either always or
    /// while the store is away.
    #[cfg(feature = "peers")]
    #[must_use]
    pub fn members(&self) -> Option<&Bully> {
        let of_fallback = self.fallback.as_ref().map(|fallback| &fallback.members);
        self.strategy.bully().or(of_fallback)
    }

    /// Computes the plan of the election among peers, if there is one.
    ///
    /// # Errors
    ///
    /// [`BullyError`] if the settings allow no election.
    #[cfg(feature = "peers")]
    pub fn election_plan(&self) -> Result<Option<ElectionPlan>, BullyError> {
        let Some(fallback) = &self.fallback else {
            let bully = self.strategy.bully();
            return bully.map(|bully| bully.plan(&self.timings)).transpose();
        };
        if !self.strategy.is_lease() {
            return Err(BullyError::FallbackStrategy(self.strategy.name()));
        }
        if !self.lock_delay.is_zero() {
            return Err(BullyError::FallbackLockDelay(self.lock_delay));
        }
        fallback.plan(&self.timings).map(Some)
    }

    /// Returns whether there is a fallback.
    pub(crate) const fn has_fallback(&self) -> bool {
        #[cfg(feature = "peers")]
        let has_fallback = self.fallback.is_some();
        #[cfg(not(feature = "peers"))]
        let has_fallback = false;
        has_fallback
    }

    /// Returns the name of the strategy, or `fallback`, for people.
    #[cfg(feature = "peers")]
    pub(crate) const fn strategy_name(&self) -> &'static str {
        match &self.fallback {
            Some(_) => "fallback",
            None => self.strategy.name(),
        }
    }

    /// Sets the candidate's id, which must be unique for each start of a process. A member of an
    /// election among peers ignores this id, because its node id identifies it.
    #[must_use]
    pub fn with_candidate(self, candidate: CandidateId) -> Self {
        Self { candidate, ..self }
    }

    /// Sets the store's addresses. If one address fails, the candidate tries the next. An empty
    /// list keeps the default.
    ///
    /// ```
    /// # use tenure::Config;
    /// let config = Config::new("billing/nightly".parse()?)
    ///     .with_servers(["http://10.0.0.1:7400".parse()?, "http://10.0.0.2:7400".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_servers(mut self, servers: impl IntoIterator<Item = Endpoint>) -> Self {
        let servers: Vec<Endpoint> = servers.into_iter().collect();
        if !servers.is_empty() {
            self.servers = servers;
        }
        self
    }

    /// Sets the root certificates of stores at https addresses; default: those of the operating
    /// system.
    #[must_use]
    pub fn with_root_certificates(self, roots: RootCertificates) -> Self {
        Self { roots, ..self }
    }

    /// Sets the credential for the store.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self {
            credentials,
            ..self
        }
    }

    /// Returns the credential for the store.
    #[must_use]
    pub const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Sets the rank among waiting candidates; default 100. The lowest rank is first.
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Self {
        Self { priority, ..self }
    }

    /// Replaces the metadata that observers see while this candidate leads, up to 4 KiB. To add
    /// metadata to those of a file, start with the value of [`metadata`](Self::metadata).
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, String>) -> Self {
        Self { metadata, ..self }
    }

    /// Keeps the lease free for this time after this candidate's term has *expired or been broken*,
    /// so that work in progress can end; default none.
    #[must_use]
    pub fn with_lock_delay(self, lock_delay: Duration) -> Self {
        Self { lock_delay, ..self }
    }

    /// Replaces all timings, including those of a file. Use
    /// [`with_adjusted_timings`](Self::with_adjusted_timings) to change only some of them.
    #[must_use]
    pub fn with_timings(mut self, timings: Timings) -> Self {
        (self.timings, self.timings_options) = (timings, timings.options());
        self
    }

    /// Changes some timings, and keeps the others as the file or the code has set them. Timings
    /// that were never set follow from the lease duration.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tenure::Config;
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::load("tenure.toml")?
    ///     .with_adjusted_timings(|timings| timings.progress_deadline = Some(Duration::from_secs(5)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`TimingsError`] if the timings contradict each other.
    pub fn with_adjusted_timings(
        mut self,
        adjust: impl FnOnce(&mut TimingsOptions),
    ) -> Result<Self, TimingsError> {
        adjust(&mut self.timings_options);
        self.timings = Timings::new(&self.timings_options)?;
        Ok(self)
    }

    /// Calls `hook` after each term of [`run_while_leader`](crate::Candidate::run_while_leader) and
    /// [`run_one_term`](crate::Candidate::run_one_term), on the caller's runtime. The hook receives
    /// the epoch, the reason and the error of the task. It must not block.
    ///
    /// ```
    /// # use tenure::Config;
    /// let (ended, mut terms) = tokio::sync::mpsc::unbounded_channel();
    /// let config = Config::new("billing/nightly".parse()?).with_term_hook(move |term| {
    ///     let _ = ended.send(term.clone());
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_term_hook(mut self, hook: impl Fn(&TermSummary) + Send + Sync + 'static) -> Self {
        self.term_hook = Some(TermHook(Arc::new(hook)));
        self
    }

    /// Sets the health check of a running task; default none.
    #[must_use]
    pub fn with_health_check(mut self, health_check: HealthCheck) -> Self {
        self.health_check = Some(health_check);
        self
    }

    /// Sets the action if the task still runs after it was aborted; default [`OnOverrun::Exit`].
    #[must_use]
    pub fn with_on_overrun(self, on_overrun: OnOverrun) -> Self {
        Self { on_overrun, ..self }
    }
}

pub(super) fn default_server() -> Endpoint {
    let server = DEFAULT_SERVER.parse();
    server.expect("the default address is valid")
}

/// Returns an id from the host name, the process id and a random number. The id is unique for each
/// start of a process, and people can find the process by it.
fn fresh_candidate_id() -> CandidateId {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host: String = host.chars().filter(is_allowed).take(64).collect();
    let random = getrandom::u32().unwrap_or_default();
    let id = format!("{host}-{}-{random:08x}", std::process::id());
    let id = id.trim_start_matches('-');
    id.parse()
        .expect("letters, digits, dots and hyphens make a candidate id")
}
