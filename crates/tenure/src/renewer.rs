//! Several candidates on one renewal thread.

use std::sync::{Arc, Mutex};

use tenure_core::Incarnation;
use tenure_core::bully::{HardState, PeerCandidate, PeerEffect, PeerInput};
use tenure_core::election::joint::Joint;
use tenure_core::election::{ElectionMachine as _, Output};
use tenure_core::lease::candidate::LeaseCandidate;

use crate::azure::BlobTransport;
use crate::candidate::Candidate;
use crate::clock::Clock;
use crate::config::{AzureBlob, AzureBlobError, Bully, BullyError, Config, Strategy};
use crate::observe::Source;
use crate::peer_transport::{
    Fingerprint, LeaderMetadata, Mac, Opened, PeerServer, PeerTransport, Setup, StartError,
    StateError, StateFile,
};
use crate::random::OsRandom;
use crate::runtime::Driver;
use crate::runtime::peers::{Parts, Peers};
use crate::store::{AzureBlobClient, Link, StoreClient, Transport, Watcher};

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
    /// There can't be such an election among peers.
    #[error("impossible election among peers")]
    Bully(#[from] BullyError),
    /// There can't be such an election by the lease of a blob.
    #[error("impossible election by the lease of a blob")]
    AzureBlob(#[from] AzureBlobError),
    /// What it would say about itself is too much.
    #[error("{0}")]
    Metadata(String),
    /// This member's state can't be used. It must not take part without it.
    #[error("can't use the state of this member")]
    State(#[from] StateError),
    /// This member can't listen, or its HTTP client can't be set up.
    #[error(transparent)]
    Carrier(#[from] StartError),
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

    /// A candidate on this thread. It does not ask the store anything yet; among peers it listens from
    /// now on.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the configuration can't be, or the HTTP client can't be set up, or, among
    /// peers, this machine does not let it listen or keep its state.
    pub fn candidate(&self, config: Config) -> Result<Candidate, ConnectError> {
        match config.strategy.clone() {
            Strategy::Lease => self.candidate_of_store(config),
            Strategy::AzureBlob(blob) => self.candidate_of_blob(config, &blob),
            Strategy::Bully(bully) => {
                let (config, parts) = self.member(config, &bully)?;
                Ok(self.candidate_of(config, parts))
            }
            Strategy::Both(bully) => self.candidate_of_both(config, &bully),
            Strategy::Static => self.candidate_alone(config),
        }
    }

    fn candidate_of_store(&self, config: Config) -> Result<Candidate, ConnectError> {
        let (link, watcher) = ways_to_store(&config)?;
        Ok(self.candidate_by(config, link, watcher))
    }

    fn candidate_of_blob(
        &self,
        config: Config,
        blob: &AzureBlob,
    ) -> Result<Candidate, ConnectError> {
        blob.check(&config.timings, config.lock_delay)?;
        tracing::info!(election = %config.election, blob = %blob.url(), "the lease of a blob");
        if let Some(warning) = blob.warning() {
            tracing::warn!(election = %config.election, "{warning}");
        }
        // A client for each, as for a store.
        let transport = BlobTransport::new(blob, &config).map_err(ConnectError::Http)?;
        let watcher = AzureBlobClient::trusting(blob, &config.roots).map_err(ConnectError::Http)?;
        let (link, watcher) = (Link::Azure(transport.into()), Watcher::Azure(watcher));
        Ok(self.candidate_by(config, link, watcher))
    }

    fn candidate_of_both(&self, config: Config, bully: &Bully) -> Result<Candidate, ConnectError> {
        let (config, parts) = self.member(config, bully)?;
        let (link, watcher) = ways_to_store(&config)?;
        Ok(self.candidate_in_both(config, parts, link, watcher))
    }

    pub(crate) fn candidate_in_both(
        &self,
        config: Config,
        parts: Parts,
        link: Link,
        watcher: Watcher,
    ) -> Candidate {
        let keeper = LeaseCandidate::new(config.timings);
        let parts = Parts {
            machine: Joint::new(keeper, parts.machine),
            detector: parts.detector,
            transport: parts.transport,
            disk: parts.disk,
        };
        let (peers, seen) = Peers::new(&config, parts);
        let driver = self.driver.join_both(config, peers, link);
        Candidate::new(driver, Source::Both(watcher, seen))
    }

    pub(crate) fn candidate_by(&self, config: Config, link: Link, watcher: Watcher) -> Candidate {
        tracing::info!(election = %config.election, candidate = %config.candidate,
            timings = %config.timings, "candidate");
        Candidate::new(self.driver.join(config, link), Source::Store(watcher))
    }

    /// What a member of an election among peers is made of, and its configuration: from here on it
    /// listens.
    fn member(&self, config: Config, bully: &Bully) -> Result<(Config, Parts), ConnectError> {
        let config = config.with_candidate(bully.node.into());
        LeaderMetadata::check(&config.metadata).map_err(ConnectError::Metadata)?;
        let outlook = bully.outlook(&config.timings)?;
        let (rules, detection) = (&outlook.rules, &outlook.detection);
        let (me, timings) = (bully.node, rules.timings());
        tracing::info!(election = %config.election, candidate = %config.candidate, %outlook, "member");
        for warning in &outlook.warnings {
            tracing::warn!(election = %config.election, "{warning}");
        }
        let cluster = bully.cluster.as_ref();
        let cluster = cluster.unwrap_or_else(|| config.election.name());
        let fingerprint = Fingerprint::of(rules, detection);
        let Opened {
            mut file,
            record,
            config_changed,
        } = StateFile::open(&bully.state_dir, cluster, me, &fingerprint)?;
        if config_changed {
            tracing::warn!(election = %config.election, %fingerprint,
                "the members were set up in another way before; all must be set up alike");
        }
        let clock = self.driver.clock();
        let started = clock.started();
        let mut node = PeerCandidate::new(rules.clone(), record, started);
        // The new start is on disk before anything of it leaves. Nothing is under way yet.
        let Some(Output::Effect(PeerEffect::Persist(record))) = node.poll_output() else {
            unreachable!("a node's first output is its record")
        };
        file.write(&record)?;
        let folder = std::path::absolute(&bully.state_dir);
        let folder = folder.unwrap_or_else(|_| bully.state_dir.clone());
        if record.incarnation == 1 {
            tracing::info!(election = %config.election, folder = %folder.display(),
                "nothing is remembered in the state folder: this is the member's first start");
        } else {
            tracing::info!(election = %config.election, folder = %folder.display(),
                start = record.incarnation, "the state folder is read");
        }
        node.handle_message(started.at, PeerInput::Persisted, &mut OsRandom);
        let incarnation = Incarnation(record.incarnation);
        let mac = bully.key.as_ref().map_or_else(Mac::insecure, Mac::keyed);
        let setup = Setup {
            cluster: cluster.clone(),
            me,
            incarnation,
            fingerprint,
            peers: bully.others(),
            message_lifetime: timings.message_lifetime(),
            mac: mac.into(),
            listen: bully.listening_address(),
            clock: clock.clone(),
        };
        let (server, inbox) = self.driver.enter(|| PeerServer::start(setup))?;
        if let Some(address) = server.listening_on() {
            tracing::info!(election = %config.election, %address, "listening for the other members");
        }
        let parts = Parts {
            machine: node,
            detector: detection.detector(&rules.group(incarnation)),
            transport: PeerTransport::Http(server.into(), inbox),
            disk: Some(Arc::new(Mutex::new(file))),
        };
        Ok((config, parts))
    }

    /// An election among one: it wins whenever it competes, by the rules of all others. It remembers
    /// nothing, so its epochs grow from one start to the next as the wall clock does.
    fn candidate_alone(&self, config: Config) -> Result<Candidate, ConnectError> {
        let rules = Bully::alone().rules(&config.timings)?;
        tracing::info!(election = %config.election, candidate = %config.candidate,
            timings = %config.timings, "candidate, the only one: it leads whenever it competes");
        let detection = Bully::alone().detection(&rules).map_err(BullyError::from)?;
        let started = self.driver.clock().started();
        let detector = detection.detector(&rules.group(Incarnation(0)));
        let node = PeerCandidate::new(rules, HardState::default(), started);
        Ok(self.candidate_of(
            config,
            Parts {
                machine: node,
                detector,
                transport: PeerTransport::Silent,
                disk: None,
            },
        ))
    }

    pub(crate) fn candidate_of(&self, config: Config, parts: Parts) -> Candidate {
        let (peers, seen) = Peers::new(&config, parts);
        Candidate::new(self.driver.join_peers(config, peers), Source::Peers(seen))
    }
}

/// A candidate's way to the store, and that of those who watch it.
fn ways_to_store(config: &Config) -> Result<(Link, Watcher), ConnectError> {
    let store =
        StoreClient::trusting(&config.servers, &config.roots).map_err(ConnectError::Http)?;
    // A client of its own: the connections of a client live on the runtime that opened them, and
    // those that renew must not live on the caller's, which a task may block.
    let own = StoreClient::trusting(&config.servers, &config.roots).map_err(ConnectError::Http)?;
    let link = Link::Http(Transport::new(own, config).into());
    Ok((link, Watcher::Http(store)))
}
