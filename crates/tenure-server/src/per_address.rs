//! The number of connections of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::Network;

/// The connections of each address. Clones are handles to the same counts.
#[derive(Clone, Debug)]
pub(crate) struct PerAddress(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    most: usize,
    by_network: Mutex<HashMap<Network, usize>>,
}

/// One connection of an address, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Arc<Counts>,
    network: Network,
}

impl PerAddress {
    /// Creates the counts, with up to `most` connections of each address; zero means no limit.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Counts {
            most,
            by_network: Mutex::default(),
        }))
    }

    /// Returns whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.most > 0
    }

    /// Counts a connection, unless its address has reached the limit.
    pub(crate) fn count(&self, address: IpAddr) -> Option<Counted> {
        let network = Network::of(address);
        let mut by_network = self.0.lock();
        let count = by_network.entry(network).or_default();
        if *count >= self.0.most {
            return None;
        }
        *count += 1;
        drop(by_network);
        Some(Counted {
            counts: Arc::clone(&self.0),
            network,
        })
    }
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Network, usize>> {
        self.by_network
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_network = self.counts.lock();
        if let Some(count) = by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                by_network.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_so_many_connections_and_no_more() {
        let counts = PerAddress::new(2);
        let [one, two] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let first = counts.count(one).unwrap();
        let _second = counts.count(one).unwrap();
        assert!(counts.count(one).is_none());
        let _other = counts.count(two).unwrap();
        drop(first);
        let _third = counts.count(one).unwrap();
        assert!(counts.count(one).is_none());
    }

    #[test]
    fn an_address_without_connections_takes_no_memory() {
        let counts = PerAddress::new(1);
        drop(counts.count(IpAddr::from([10, 0, 0, 1])));
        assert!(counts.0.lock().is_empty());
        assert!(!PerAddress::new(0).is_limited());
    }
}
