//! The start of a member of an election among peers.

use std::sync::{Arc, Mutex};

use tenure_core::Incarnation;
use tenure_core::bully::{PeerCandidate, PeerEffect, PeerInput};
use tenure_core::election::{ElectionMachine as _, Output};

use crate::api::candidate::Candidate;
use crate::api::candidate_runtime::{Backends, CandidateRuntime};
use crate::api::observe::Source;
use crate::base::member_error::{ListenError, StateError};
use crate::base::random::OsRandom;
use crate::config::{self, Bully, BullyError, Config, ElectionPlan};
use crate::election::metrics::Recorder;
use crate::election::peers::{Parts, Peers};
use crate::election::{LeaseChannel, StrategyIo};
use crate::peers::client::PeersClient;
use crate::peers::group_store::GroupStore;
use crate::peers::state::StateFile;
use crate::peers::transport::{PeerServer, PeerTransport, Setup};
use crate::peers::wire::{Fingerprint, LeaderMetadata, Mac};
use crate::service::StartError;

impl CandidateRuntime {
    /// Creates a candidate that is elected among peers. With a lease service, it also competes for
    /// the lease.
    pub(crate) fn peer_candidate(
        &self,
        config: Config,
        parts: Parts,
        backends: Option<Backends>,
    ) -> Candidate {
        let config = Arc::new(config);
        let (own, observed) = backends.unzip();
        let clock = self.driver.clock.clone();
        let metrics = Recorder::new(config.clone(), clock.clone());
        let metrics = Arc::new(metrics.with_member(parts.transport.endpoint()));
        let lease = own.map(|backend| LeaseChannel::new(config.clone(), backend, metrics.clone()));
        let (peers, observed_peers) = Peers::new(&config, clock, parts, lease, metrics.clone());
        let source = Source {
            lease: observed,
            peers: Some(observed_peers),
        };
        let io = StrategyIo::Peers(Box::new(peers));
        Candidate::new(
            self.driver.join(config, metrics.clone(), io),
            metrics,
            source,
        )
    }

    /// Creates the parts of a member, and its configuration. The member starts to listen.
    pub(crate) fn start_member(
        &self,
        config: Config,
        bully: &Bully,
        plan: &ElectionPlan,
    ) -> Result<(Config, Parts), StartError> {
        let me = bully.node.ok_or(BullyError::NoNode)?;
        let mut config = config.with_candidate(me.into());
        if config.fallback.is_some()
            && let Some(own) = bully.peers.iter().find(|peer| peer.node == me)
        {
            // The waiters of the store are in the order in which the members elect.
            config.priority = own.priority;
        }
        LeaderMetadata::check(&config.metadata).map_err(StartError::Metadata)?;
        let (rules, detection) = (&plan.settings, &plan.detection);
        let timings = rules.timings();
        tracing::info!(election = %config.election, candidate = %config.candidate, %plan,
            on_overrun = config.on_overrun.name(), "member");
        for warning in &plan.warnings {
            tracing::warn!(election = %config.election, "{warning}");
        }
        let cluster = bully.cluster.as_ref();
        let cluster = cluster.unwrap_or(&config.election.name);
        let fingerprint = Fingerprint::of(&config.election, rules);
        let group = format!("{}/{cluster}", config.election.namespace);
        let mut file = StateFile::open(&bully.state_dir, &group, me, &fingerprint)?;
        if let Some(fallback) = &config.fallback {
            self.check_changes(&config, fallback, &mut file, &fingerprint)?;
        } else if file.config_changed {
            tracing::warn!(election = %config.election, fingerprint = %fingerprint.text,
                "the settings of the group have changed since the last start; all members must have the same");
        }
        let clock = &self.driver.clock;
        let started = clock.started();
        let mut node = PeerCandidate::new(rules.clone(), file.record(), started);
        // The incarnation of the new start is on disk before the member sends anything.
        let Some(Output::Effect(PeerEffect::Persist(record))) = node.poll_output() else {
            unreachable!("the first output of a peer candidate is its record")
        };
        file.write(&record)?;
        let folder = std::path::absolute(&bully.state_dir);
        let folder = folder.unwrap_or_else(|_| bully.state_dir.clone());
        if record.incarnation == 1 {
            tracing::info!(election = %config.election, folder = %folder.display(),
                "the state directory is empty: this is the first start of the member");
        } else {
            tracing::info!(election = %config.election, folder = %folder.display(),
                start = record.incarnation, "read the state directory");
        }
        node.handle_message(started.at, PeerInput::Persisted, &mut OsRandom);
        let incarnation = Incarnation(record.incarnation);
        let disk = Arc::new(Mutex::new(file));
        let mut store = None;
        if config.fallback.is_some() {
            let members = PeersClient::new(cluster.clone(), bully.peers.clone());
            let members = members.map_err(ListenError::from)?;
            store = Some(GroupStore::new(me, &fingerprint, disk.clone(), members));
        }
        let setup = Setup {
            store,
            cluster: cluster.clone(),
            me,
            incarnation,
            fingerprint,
            peers: bully.others(),
            relay: bully.relay,
            message_lifetime: timings.message_lifetime(),
            mac: Mac::new(bully.key.as_ref()).into(),
            listen: bully.listening_address(),
            hosts: bully.host_names(),
            clock: clock.clone(),
        };
        // The tasks of the peer server run on the thread of the candidates.
        let runtime = self.driver.runtime.enter();
        let (server, inbox) = PeerServer::start(setup)?;
        drop(runtime);
        if let Some(address) = server.listening_on {
            tracing::info!(election = %config.election, %address, "listening for the other members");
        }
        let parts = Parts {
            machine: node,
            detector: detection.detector(&rules.group(incarnation)),
            transport: PeerTransport::Http(server.into(), inbox),
            disk: Some(disk),
        };
        Ok((config, parts))
    }

    /// Refuses a member whose group had other settings or another store when it last ran, unless
    /// the operator accepts the changes. Then the member waits for a lease duration, so that the
    /// promises under the former settings are over.
    fn check_changes(
        &self,
        config: &Config,
        fallback: &config::Fallback,
        file: &mut StateFile,
        fingerprint: &Fingerprint,
    ) -> Result<(), StartError> {
        let path = &fallback.members.state_dir;
        let former = file.former_settings.take();
        // The address of a blob is its identity, and the configuration has it.
        let store = config.strategy.blob_url().map(str::to_owned);
        let other = file.store().zip(store.as_deref());
        let other = other.filter(|(former, current)| former != current);
        if fallback.accept_changes {
            if file.record().incarnation > 0 {
                let wait = config.timings.lease_duration();
                tracing::warn!(election = %config.election, ?wait, settings = %fingerprint.text,
                    "this member accepts changed settings and another store; it waits until its former \
                     promises are over");
                std::thread::sleep(wait);
            }
            file.replace_store(None);
        } else if file.config_changed {
            return Err(StartError::State(StateError::OtherSettings {
                path: path.clone(),
                former: former.unwrap_or_else(|| "which it does not name".into()),
                current: fingerprint.text.clone(),
            }));
        } else if let Some((former, current)) = other {
            return Err(StartError::State(StateError::OtherStore {
                path: path.clone(),
                former: former.into(),
                current: current.into(),
            }));
        }
        if store.is_some() {
            file.replace_store(store);
        }
        Ok(())
    }
}
