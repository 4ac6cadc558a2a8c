//! The store that the members of a group with a fallback use.
//!
//! Two members that count the leases of two stores could both lead, because the two leases are no
//! common voter. So a store tells its id with each answer, and a member counts only the answers of
//! the store that it remembers. At its first start, it takes the first store that it hears of: from
//! another member's message, or from the store, unless another member uses another store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_core::NodeId;

use crate::http::store::CheckStore;
use crate::peers::client::PeersClient;
use crate::peers::state::StateFile;
use crate::peers::wire::Fingerprint;

/// The time that another member may take to tell its store.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// The store of a group, as one member knows it.
#[derive(Debug)]
pub(crate) struct GroupStore {
    me: NodeId,
    state: Mutex<State>,
    /// A short form of this member's settings.
    settings: String,
    disk: Arc<Mutex<StateFile>>,
    members: PeersClient,
}

#[derive(Debug, Default)]
struct State {
    known: Option<String>,
    /// The id that this member takes unless another member uses another one.
    pending: Option<String>,
    /// The last reason for which an answer did not count, so that the log has it once.
    refused: Option<String>,
    /// Whether the stores of all members are being compared.
    compares: bool,
}

impl GroupStore {
    pub(crate) fn new(
        me: NodeId,
        settings: &Fingerprint,
        disk: Arc<Mutex<StateFile>>,
        members: PeersClient,
    ) -> Arc<Self> {
        let state = State {
            known: lock(&disk).store().map(Into::into),
            ..State::default()
        };
        Arc::new(Self {
            me,
            settings: settings.short().into(),
            state: state.into(),
            disk,
            members: members.with_timeout(ASK_TIMEOUT),
        })
    }

    /// Returns the id of the store, if this member remembers one.
    pub(crate) fn known(&self) -> Option<String> {
        lock(&self.state).known.clone()
    }

    /// Returns the id of the store, also if this member is about to take it, for other members that
    /// are about to take one.
    pub(crate) fn known_or_pending(&self) -> Option<String> {
        let state = lock(&self.state);
        state.known.clone().or_else(|| state.pending.clone())
    }

    /// Compares the store that another member names in a message. A member without a store takes
    /// that one.
    ///
    /// # Errors
    ///
    /// The text names both stores.
    pub(crate) fn hear(self: &Arc<Self>, from: NodeId, theirs: &str) -> Result<(), String> {
        let mut state = lock(&self.state);
        match &state.known {
            Some(known) if known == theirs => Ok(()),
            Some(known) => Err(format!(
                "member {from} uses the store {theirs}, and member {} uses the store {known}: all members \
                 of a group need the same store, or two of them could lead",
                self.me
            )),
            None => {
                state.known = Some(theirs.into());
                drop(state);
                let (own, id) = (Arc::clone(self), theirs.to_owned());
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = lock(&own.disk).set_store(id) {
                        tracing::error!(node = %own.me, %error, "can't remember the store of the group");
                    }
                });
                Ok(())
            }
        }
    }

    /// Compares the stores of all members, because another member uses another one. Returns the
    /// reason why this member must not take part: more members use another store, or as many and one
    /// of those has the lowest node id. So of two leaders with two stores one ends its term, and the
    /// members with the right store go on.
    pub(crate) async fn outvoted(&self) -> Option<String> {
        let known = {
            let mut state = lock(&self.state);
            if std::mem::replace(&mut state.compares, true) {
                return None;
            }
            state.known.clone()
        };
        let asked = self.members.ask_all().await;
        lock(&self.state).compares = false;
        let others = asked.iter().filter(|asked| asked.peer.node != self.me);
        let told = others.filter_map(|it| {
            let view = it.view.as_ref().ok()?;
            // An address may lead to a member of another group, which has another store.
            let is_of_group = view.status.settings.as_ref() == Some(&self.settings);
            let store = view.status.store.clone().filter(|_| is_of_group)?;
            Some((it.peer.node, store))
        });
        outvoted(self.me, &known?, &told.collect::<Vec<_>>())
    }

    /// Takes this store at the first start of the member, if no other member uses another one.
    async fn take(&self, id: &str) -> Result<(), String> {
        lock(&self.state).pending = Some(id.into());
        let asked = self.members.ask_all().await;
        let others = asked.iter().filter(|asked| asked.peer.node != self.me);
        for (other, view) in others.filter_map(|it| Some((it.peer.node, it.view.as_ref().ok()?))) {
            let status = &view.status;
            if status
                .settings
                .as_deref()
                .is_some_and(|it| it != self.settings)
            {
                return Err(format!(
                    "member {other} runs with other settings than member {}, so both could lead: give all \
                     members the same members, k and timings; `tenure config check` prints them",
                    self.me
                ));
            }
            if let Some(theirs) = status.store.as_ref().filter(|theirs| *theirs != id) {
                return Err(format!(
                    "this is the store {id}, and member {other} uses the store {theirs}: all members of a \
                     group need the same store, or two of them could lead; correct the addresses of the \
                     store"
                ));
            }
        }
        let (disk, own) = (Arc::clone(&self.disk), id.to_owned());
        let written = tokio::task::spawn_blocking(move || lock(&disk).set_store(own)).await;
        let error = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = error {
            return Err(format!("can't remember the store of the group: {error}"));
        }
        let mut state = lock(&self.state);
        // Another member may have named its store meanwhile.
        match &state.known {
            Some(known) if known != id => Err(differs(id, known)),
            _ => {
                state.known = Some(id.into());
                tracing::info!(node = %self.me, store = id, "this is the store of the group from now on");
                Ok(())
            }
        }
    }
}

impl CheckStore for GroupStore {
    fn is_known(&self) -> bool {
        lock(&self.state).known.is_some()
    }

    fn check<'a>(&'a self, id: Option<&'a str>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let checked = self.compare(id).await;
            let refused = checked.as_ref().err().cloned();
            let before = std::mem::replace(&mut lock(&self.state).refused, refused.clone());
            if let Some(error) = refused.filter(|refused| before.as_ref() != Some(refused)) {
                tracing::error!(node = %self.me, error, "the store does not count");
            }
            checked
        })
    }
}

impl GroupStore {
    async fn compare(&self, id: Option<&str>) -> Result<(), String> {
        let Some(id) = id else {
            return Err(
                "its answer has no id of the store, which a fallback needs: run a store of this \
                     version, and let proxies keep the header tenure-store"
                    .into(),
            );
        };
        match self.known() {
            Some(known) if known == id => Ok(()),
            Some(known) => Err(differs(id, &known)),
            None => self.take(id).await,
        }
    }
}

/// Returns the reason why a member with this store is outvoted by these other members.
fn outvoted(me: NodeId, known: &str, told: &[(NodeId, String)]) -> Option<String> {
    let (same, other): (Vec<_>, Vec<_>) = told.iter().partition(|(_, store)| store == known);
    let (lowest, theirs) = other.iter().min_by_key(|(node, _)| *node)?;
    let own_lowest = same.iter().map(|(node, _)| *node).chain([me]).min()?;
    let is_outvoted = (same.len() + 1, *lowest) < (other.len(), own_lowest);
    is_outvoted.then(|| {
        format!(
            "this member uses the store {known}, and member {lowest} uses the store {theirs}, as most of \
             the members that answer: two of them could lead. Correct the addresses of the store, stop this \
             member, and start it once with --accept-changes"
        )
    })
}

fn differs(found: &str, known: &str) -> String {
    format!(
        "this is the store {found}, and the members of this group use the store {known}: two members with \
         two stores could both lead, so this member does not use it. Correct the addresses of the store. \
         If the store was replaced for good, stop all members, and start each of them once with \
         --accept-changes"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::config::{Bully, Fallback, Peer};

    /// The store of member 1 of a group whose other members are not running.
    fn group_store(folder: &std::path::Path) -> Arc<GroupStore> {
        let peers = [1, 2].map(|id| Peer::new(NodeId(id), "http://127.0.0.1:1").unwrap());
        let members = Bully::new(NodeId(1), peers.clone());
        let config = Config::new("nightly".parse().unwrap()).with_fallback(Fallback::new(members));
        let plan = config.election_plan().unwrap().unwrap();
        let fingerprint = Fingerprint::of(&config.election, &plan.settings);
        let file = StateFile::open(folder, "default/nightly", NodeId(1), &fingerprint).unwrap();
        let client = PeersClient::new(config.election.name, peers).unwrap();
        GroupStore::new(NodeId(1), &fingerprint, Arc::new(Mutex::new(file)), client)
    }

    #[tokio::test]
    async fn the_first_store_is_remembered_and_another_one_does_not_count_with_both_ids_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = group_store(folder.path());
        assert!(!store.is_known());
        assert!(store.check(None).await.is_err());
        store.check(Some("aa")).await.unwrap();
        drop(store);
        let store = group_store(folder.path());
        assert!(store.is_known(), "the id is on disk");
        store.check(Some("aa")).await.unwrap();
        let error = store.check(Some("bb")).await.unwrap_err();
        for part in ["store aa", "store bb", "--accept-changes"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn of_members_with_two_stores_those_with_the_rarer_one_take_no_part() {
        let told = |stores: &[(u32, &str)]| {
            let told = stores.iter().map(|&(id, store)| (NodeId(id), store.into()));
            told.collect::<Vec<(NodeId, String)>>()
        };
        let of = |me, stores: &[(u32, &str)]| outvoted(NodeId(me), "aa", &told(stores));
        let why = of(1, &[(2, "bb"), (3, "bb")]).unwrap();
        for part in ["store aa", "member 2", "store bb", "--accept-changes"] {
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(of(1, &[(2, "bb"), (3, "aa")]), None);
        assert_eq!(of(1, &[(3, "aa")]), None);
        // Of as many, those with the lowest node id stay.
        assert_eq!(of(1, &[(2, "bb")]), None);
        assert!(of(2, &[(1, "bb")]).is_some());
        assert!(of(3, &[(1, "bb"), (4, "bb"), (2, "aa")]).is_some());
    }

    #[tokio::test]
    async fn a_member_takes_the_store_of_another_member_and_refuses_members_with_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = group_store(folder.path());
        store.hear(NodeId(2), "aa").unwrap();
        assert!(store.check(Some("bb")).await.is_err());
        store.check(Some("aa")).await.unwrap();
        let error = store.hear(NodeId(2), "bb").unwrap_err();
        assert!(
            error.contains("store aa") && error.contains("store bb"),
            "{error}"
        );
    }
}
