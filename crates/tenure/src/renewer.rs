//! Several candidates on one renewal thread.

use crate::candidate::Candidate;
use crate::clock::Clock;
use crate::config::Config;
use crate::driver::Driver;
use crate::store::{Link, StoreClient, Transport, Watcher};

/// A thread that renews for several candidates of one process, which compete in elections of their
/// own. Renewals to the same store go in one request.
///
/// [`Candidate::connect`] starts one for a single candidate. The thread ends when this and all of
/// its candidates are gone.
///
/// # Examples
///
/// ```no_run
/// use tenure::{Config, Renewer};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let renewer = Renewer::start()?;
/// let nightly = renewer.candidate(Config::new("billing/nightly".parse()?))?;
/// let reports = renewer.candidate(Config::new("billing/reports".parse()?))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Renewer {
    driver: Driver,
}

/// Why a candidate can't start. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The machine has no clock that goes on while it is suspended.
    #[error("can't read the clock that leadership is counted on")]
    Clock(#[source] nix::Error),
    /// The operating system gives no random bits for lease ids.
    #[error("can't get random bits: {0}")]
    Random(getrandom::Error),
    /// The HTTP client can't be set up (TLS roots, for instance).
    #[error("can't set up the HTTP client")]
    Http(#[source] reqwest::Error),
    /// The driver's thread can't be started.
    #[error("can't start the driver thread")]
    Thread(#[source] std::io::Error),
}

impl Renewer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: this machine can't run candidates.
    pub fn start() -> Result<Self, ConnectError> {
        let clock = Clock::system().map_err(ConnectError::Clock)?;
        getrandom::u64().map_err(ConnectError::Random)?;
        Self::start_with(clock)
    }

    pub(crate) fn start_with(clock: Clock) -> Result<Self, ConnectError> {
        Ok(Self {
            driver: Driver::start(clock).map_err(ConnectError::Thread)?,
        })
    }

    /// A candidate on this thread. It does not ask the store anything yet.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Http`]: the HTTP client can't be set up.
    pub fn candidate(&self, config: Config) -> Result<Candidate, ConnectError> {
        let store = StoreClient::new(&config.servers).map_err(ConnectError::Http)?;
        // A client of its own: the connections of a client live on the runtime that opened them, and
        // those that renew must not live on the caller's, which a task may block.
        let own = StoreClient::new(&config.servers).map_err(ConnectError::Http)?;
        let link = Link::Http(Transport::new(own, &config).into());
        Ok(self.candidate_by(config, link, Watcher::Http(store)))
    }

    pub(crate) fn candidate_by(&self, config: Config, link: Link, watcher: Watcher) -> Candidate {
        tracing::info!(election = %config.election, candidate = %config.candidate,
            timings = %config.timings, "candidate");
        Candidate::new(self.driver.join(config, link), watcher)
    }
}
