//! The store that a server serves at the moment.

use tokio::sync::watch;

use super::Store;

/// The store that a server serves at the moment. A server of a cluster serves another store
/// whenever its role changes, so that nothing of one term of ownership can reach the next.
#[derive(Clone, Debug)]
pub(crate) struct ServedStore(watch::Receiver<Store>);

impl ServedStore {
    /// Follows the stores that this channel announces.
    pub(crate) const fn following(stores: watch::Receiver<Store>) -> Self {
        Self(stores)
    }

    /// Returns a handle to the current store.
    pub(crate) fn current(&self) -> Store {
        self.0.borrow().clone()
    }

    /// Waits for another store.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// A server that serves this store only.
impl From<Store> for ServedStore {
    fn from(store: Store) -> Self {
        Self(watch::channel(store).1)
    }
}
