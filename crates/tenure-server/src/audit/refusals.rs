//! Refused credentials, counted by address: a flood of them must not fill the disk.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access::Network;

/// The interval at which an address gets a line.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of known addresses. All further addresses share one line.
const MAX_ADDRESSES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_network: Mutex<HashMap<Option<Network>, Refused>>,
}

#[derive(Debug)]
struct Refused {
    written_at: Instant,
    /// The number of refusals since the last line.
    count: u64,
}

impl Refusals {
    /// Counts one refusal. If another line is due, returns the number of refusals since the last
    /// line.
    pub(super) fn count(&self, address: Option<IpAddr>) -> Option<u64> {
        self.count_at(address, Instant::now())
    }

    fn count_at(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut by_network = self
            .by_network
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut network = address.map(Network::of);
        if by_network.len() >= MAX_ADDRESSES && !by_network.contains_key(&network) {
            by_network.retain(|_, refused| now < refused.written_at + INTERVAL);
            if by_network.len() >= MAX_ADDRESSES {
                network = None;
            }
        }
        let Some(refused) = by_network.get_mut(&network) else {
            let first = Refused {
                written_at: now,
                count: 0,
            };
            by_network.insert(network, first);
            return Some(1);
        };
        refused.count += 1;
        if now < refused.written_at + INTERVAL {
            return None;
        }
        refused.written_at = now;
        Some(std::mem::take(&mut refused.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_one_line_a_minute_with_the_number() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let address = Some(IpAddr::from([10, 0, 0, 1]));
        let lines = |seconds, times: u64| {
            let now = start + Duration::from_secs(seconds);
            let counts = (0..times).filter_map(|_| refusals.count_at(address, now));
            counts.collect::<Vec<_>>()
        };
        assert_eq!(lines(0, 10_000), [1]);
        assert!(lines(59, 10).is_empty());
        assert_eq!(lines(60, 1), [10_010]);
        assert_eq!(lines(120, 1), [1]);
    }

    #[test]
    fn memory_is_bounded() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..2 * MAX_ADDRESSES as u32 {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
            refusals.count_at(Some(address), now);
        }
        assert!(refusals.by_network.lock().unwrap().len() <= MAX_ADDRESSES + 1);
    }
}
