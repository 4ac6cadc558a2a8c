//! The store of a server of a cluster: when it may answer, and what it answers if it may not.

use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};

use tenure_core::ownership::OwnershipRole;
use tenure_core::time::millis;
use tenure_core::wire::{ActiveServer, ClusterView, Code, Problem, ServerRole};

use super::{Inner, Store, stopping};
use crate::config::ClusterConfig;
use crate::engine::ClusterStatus;
use crate::metrics::{Exposition, Sample};
use crate::model::StoreId;

/// The part of a store that only a server of a cluster has.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) config: Arc<ClusterConfig>,
    pub(crate) status: Arc<ClusterStatus>,
    /// A random id of this start of the server.
    pub(crate) start: StoreId,
    /// The orders to the thread that follows the log.
    pub(crate) orders: Sender<Order>,
}

/// An order to the thread of a server that follows the log.
#[derive(Debug)]
pub(crate) enum Order {
    /// Give up the log, so that the server with this name takes over; without a name, any other.
    Resign(Option<String>),
    /// Give up the log and end.
    Stop,
}

/// All roles that a server can have.
const ROLES: [ServerRole; 7] = [
    ServerRole::Following,
    ServerRole::Taking,
    ServerRole::Loading,
    ServerRole::Active,
    ServerRole::Lapsed,
    ServerRole::Resigned,
    ServerRole::Refusing,
];

const fn role_of(role: OwnershipRole) -> ServerRole {
    match role {
        OwnershipRole::Following => ServerRole::Following,
        OwnershipRole::Taking => ServerRole::Taking,
        OwnershipRole::Loading => ServerRole::Loading,
        OwnershipRole::Active => ServerRole::Active,
        OwnershipRole::Lapsed => ServerRole::Lapsed,
        OwnershipRole::Resigned => ServerRole::Resigned,
        OwnershipRole::Refusing => ServerRole::Refusing,
    }
}

impl Member {
    /// Returns whether each answer waits for an append that began after the answer was decided,
    /// instead of the deadline.
    fn confirms(&self) -> bool {
        self.config.confirm
    }

    /// Returns the role of this server. The thread of an owner may not have noticed yet that its time
    /// is over: the process, or the machine, was stopped.
    fn role(&self, role: OwnershipRole) -> ServerRole {
        match role_of(role) {
            ServerRole::Active if self.status.serving.left().is_zero() => ServerRole::Lapsed,
            role => role,
        }
    }

    /// Returns the state of this server in its cluster.
    fn view(&self) -> ClusterView {
        let status = self.status.view();
        let (role, left) = (self.role(status.role), self.status.serving.left());
        let config = &self.config;
        let home = config.home.name();
        let mut view = ClusterView::new(&config.name, &config.server, role, home);
        view.start = Some(self.start.as_str().into());
        view.reason = status.reason().map(Into::into);
        view.store = status.store;
        (view.generation, view.sequence) = (status.generation, status.sequence);
        view.active = status.active.map(|active| ActiveServer {
            name: active.name,
            url: active.address,
        });
        view.ownership_ms = millis(config.ownership);
        view.behind = status.behind;
        view.serving_ms_left = (!left.is_zero()).then(|| millis(left));
        view.home_version = status.facts.version.map(|version| (*version).into());
        view.home_identity = status.identity;
        view.home_bytes = status.facts.bytes;
        view.home_quota_bytes = status.facts.quota_bytes;
        view.home_warnings = status.facts.warnings;
        view.home_latency_us = status
            .latency
            .map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        view
    }

    /// Adds the metrics of this server in its cluster.
    pub(super) fn expose(&self, out: &mut Exposition) {
        let status = self.status.view();
        // Alerts are about all servers of a cluster together.
        let of_cluster = |sample: Sample| sample.with("cluster", &self.config.name);
        let current = self.role(status.role);
        let roles = ROLES.map(|role| {
            let sample = of_cluster(Sample::flag(role == current));
            sample.with("role", role.as_str())
        });
        out.gauge(
            "tenure_cluster_role",
            "The role of this server: 1 for one of them, 0 for all others.",
            roles,
        );
        let generation = (status.generation > 0).then_some(status.generation);
        out.gauge(
            "tenure_cluster_generation",
            "The number of the last take-over of any server that this server has seen.",
            generation.map(|generation| of_cluster(Sample::count(generation))),
        );
        let mut gauge = |name: &str, help: &str, value: Option<u64>| {
            out.gauge(name, help, value.map(Sample::count));
        };
        gauge(
            "tenure_cluster_behind",
            "Changes in the log that this server has not read yet.",
            status.behind,
        );
        gauge(
            "tenure_cluster_uncovered_entries",
            "Entries of the log that no base contains. There are 256 slots, and changes are refused \
             from 192 such entries on.",
            generation.map(|_| status.uncovered),
        );
        gauge(
            "tenure_cluster_home_bytes",
            "The size of the home's data, without the space that it can use again.",
            status.facts.bytes,
        );
        gauge(
            "tenure_cluster_home_quota_bytes",
            "The size at which the home refuses changes.",
            status.facts.quota_bytes,
        );
        self.status.metrics.expose(out);
    }

    /// Returns the refusal of a server that is not active: what is wrong with it, and the server that is
    /// active, if it is known.
    fn not_active(&self) -> Problem {
        let status = self.status.view();
        let reason = status.reason().map(|reason| format!("{reason}; "));
        let active = status
            .active
            .filter(|active| active.name != self.config.server);
        let known = match &active {
            Some(active) => format!(
                "{} was active when this server last read the log",
                active.name
            ),
            None => "this server of the cluster is not active, and knows no other that is".into(),
        };
        let detail = reason.unwrap_or_default() + &known;
        let mut problem = Problem::new(Code::NotActive, detail);
        problem.active = active.map(|active| active.address.into());
        problem
    }
}

impl Store {
    /// Returns the state of the server in its cluster; `None` if it has none.
    pub(crate) fn cluster(&self) -> Option<ClusterView> {
        self.inner.member.as_ref().map(Member::view)
    }

    /// Returns the restore or the recovery of the log since the ownership before, once.
    pub(crate) fn take_restored(&self) -> Option<String> {
        let restored = self.inner.restored.lock();
        restored.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether this is the store of a standby, which has no leases.
    pub(crate) fn has_no_leases(&self) -> bool {
        self.inner.member.is_some() && self.inner.id.is_none()
    }

    /// Returns whether the server may answer from its memory now.
    pub(crate) fn is_serving(&self) -> bool {
        self.inner.check_serving().is_ok()
    }

    /// Returns whether the store has ended: another server owns the log.
    pub(crate) fn has_ended(&self) -> bool {
        self.inner.ended.get().is_some()
    }

    /// Ends all waits, so that their clients look for another server. The requests are refused
    /// unless the server is serving again.
    pub(crate) fn interrupt(&self) {
        self.inner.interruption.notify_waiters();
    }

    /// Returns whether this is a standby that follows the log.
    pub(crate) fn is_standby(&self) -> bool {
        let Some(member) = &self.inner.member else {
            return false;
        };
        let status = member.status.view();
        // Without a copy of the leases a take-over would have to read all of them first.
        let failure = status.refusal.or(status.error).or(status.copy_failure);
        let failure = failure.or(status.take_over_failure);
        let is_ready = status.behind.is_some() && failure.is_none();
        is_ready && status.role == OwnershipRole::Following
    }

    /// Makes the active server give up the log.
    ///
    /// # Errors
    ///
    /// The server is not active.
    pub(crate) fn resign(&self, to: Option<String>) -> Result<(), Problem> {
        self.ready()?;
        match &self.inner.member {
            Some(member) if member.orders.send(Order::Resign(to)).is_ok() => Ok(()),
            _ => Err(stopping()),
        }
    }
}

impl Inner {
    /// Returns whether the answers of this server are confirmed by appends.
    pub(super) fn confirms(&self) -> bool {
        self.member.as_ref().is_some_and(Member::confirms)
    }

    /// Checks that the server may answer from its memory now. An answer that another server's
    /// take-over could contradict is checked **after** it was decided: see [`Serving`].
    pub(super) fn check_serving(&self) -> Result<(), Problem> {
        match &self.member {
            Some(member) if !member.status.serving.check() => {
                // A store that has ended has a better reason.
                self.check_open()?;
                Err(lapsed(member))
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason why the store answers no request that waits.
    pub(super) fn refusal(&self) -> Problem {
        self.check_open().err().unwrap_or_else(stopping)
    }

    /// Returns the refusal of a server that is not active.
    pub(super) fn not_active(&self) -> Problem {
        match &self.member {
            Some(member) => member.not_active(),
            None => Problem::new(Code::NotActive, "another process owns the log"),
        }
    }
}

fn lapsed(member: &Member) -> Problem {
    let reason = member.status.view().error;
    let detail = format!(
        "the server can't append to its log in {}: {}",
        member.config.home.name(),
        reason.as_deref().unwrap_or("there is no answer")
    );
    Problem::new(Code::HomeUnavailable, detail)
}
