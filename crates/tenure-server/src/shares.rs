//! Totals that clients share: none of them can take all of a total.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::lease::Owner;
use tenure_core::wire::{Code, Problem};
use tokio::sync::Notify;

/// The part of an address that belongs to one client: all of an IPv4 address, and the first 64 bits
/// of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(u64);

/// The client whose share a request uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tenant {
    /// A principal, or the owner of the leases of another protocol.
    Principal(Owner),
    /// A client without a credential.
    Address(Network),
    /// A client without a credential whose address is not known.
    Unknown,
}

/// A total that is divided into shares. Clones are handles to the same total.
///
/// A holder may take one more as long as it has fewer than are free, and fewer than its own limit.
/// So one holder takes half of the total at most, two take a third each, and something is left for
/// the next one. The total needs no second setting for that.
#[derive(Debug)]
pub(crate) struct Shares<K: Eq + Hash>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K: Eq + Hash> {
    total: usize,
    /// The limit of one holder.
    each: usize,
    taken: Mutex<Taken<K>>,
    /// Notified when a part is free again.
    freed: Notify,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by_holder: HashMap<K, usize>,
}

/// One part of a total. Dropping it frees the part.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash> {
    of: Shares<K>,
    holder: K,
}

/// The reason why a holder may not take one more, with the number that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoShare {
    /// All holders together have the total.
    Total(usize),
    /// The holder has its share.
    Own(usize),
}

impl Network {
    pub(crate) const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // No IPv6 network in use begins with 32 zero bits.
            IpAddr::V4(address) => Self(address.to_bits() as u64),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }
}

impl Tenant {
    /// Returns the tenant of a request with this owner of leases, or else from this address.
    pub(crate) fn of(owner: Option<&Owner>, address: Option<IpAddr>) -> Self {
        match (owner, address) {
            (Some(owner), _) => Self::Principal(owner.clone()),
            (None, Some(address)) => Self::Address(Network::of(address)),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Principal(owner) => write!(f, "the principal {:?}", owner.as_str()),
            Self::Address(_) => f.write_str("this address"),
            Self::Unknown => f.write_str("this client"),
        }
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Divides this total.
    pub(crate) fn new(total: usize) -> Self {
        Self::with_limit(total, usize::MAX)
    }

    /// Divides this total; one holder may have at most `each`.
    pub(crate) fn with_limit(total: usize, each: usize) -> Self {
        Self(Arc::new(Inner {
            total,
            each,
            taken: Mutex::new(Taken {
                all: 0,
                by_holder: HashMap::new(),
            }),
            freed: Notify::new(),
        }))
    }

    /// Takes one part, if the total and the holder's share allow it.
    pub(crate) fn take(&self, holder: &K) -> Result<Share<K>, NoShare> {
        let mut taken = self.lock();
        let own = || taken.by_holder.get(holder).copied().unwrap_or_default();
        check(self.0.total, self.0.each, taken.all, own)?;
        Ok(self.add(&mut taken, holder))
    }

    /// Takes one part, even if there is none left.
    pub(crate) fn take_beyond(&self, holder: &K) -> Share<K> {
        self.add(&mut self.lock(), holder)
    }

    /// Takes one part, and waits until the total and the holder's share allow it.
    pub(crate) async fn take_soon(&self, holder: &K) -> Share<K> {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // From here on no part that becomes free is missed.
            freed.as_mut().enable();
            if let Ok(share) = self.take(holder) {
                return share;
            }
            freed.await;
        }
    }

    fn add(&self, taken: &mut Taken<K>, holder: &K) -> Share<K> {
        taken.all += 1;
        *taken.by_holder.entry(holder.clone()).or_default() += 1;
        Share {
            of: Self(Arc::clone(&self.0)),
            holder: holder.clone(),
        }
    }
}

impl<K: Eq + Hash> Shares<K> {
    /// Returns how many parts all holders together have.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares<Tenant> {
    /// Takes one part for a tenant. `what` names the parts in the refusal.
    ///
    /// # Errors
    ///
    /// [`Code::OverLimit`].
    pub(crate) fn admit(&self, tenant: &Tenant, what: &str) -> Result<Share<Tenant>, Problem> {
        let taken = self.take(tenant);
        taken.map_err(|full| full.problem(tenant, "the store", what, self.0.total))
    }
}

/// Checks that a holder of `own` parts may take one more of `total`, of which `all` are taken. `own`
/// is called only if the number decides.
///
/// # Errors
///
/// The total or the holder's share is taken.
pub(crate) fn check(
    total: usize,
    each: usize,
    all: usize,
    own: impl FnOnce() -> usize,
) -> Result<(), NoShare> {
    let most = match total.saturating_sub(all) {
        0 => return Err(NoShare::Total(all)),
        free => free.min(each),
    };
    // A holder has no more than all together.
    if all < most {
        return Ok(());
    }
    match own() {
        own if own >= most => Err(NoShare::Own(own)),
        _ => Ok(()),
    }
}

impl NoShare {
    /// Returns the refusal of this tenant. `of` has the parts, which `what` names.
    pub(crate) fn problem(self, tenant: &Tenant, of: &str, what: &str, total: usize) -> Problem {
        let detail = match self {
            Self::Total(all) => format!("{of} has {all} {what}, at most {total} are allowed"),
            Self::Own(own) => format!(
                "{tenant} has {own} {what}, and the rest of the {total} that are allowed is for \
                 others"
            ),
        };
        Problem::new(Code::OverLimit, detail)
    }
}

impl<K: Eq + Hash> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.all -= 1;
        if let Some(count) = taken.by_holder.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                taken.by_holder.remove(&self.holder);
            }
        }
        drop(taken);
        self.of.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// Takes as many parts as the holder gets.
    fn all<'a>(shares: &Shares<&'a str>, holder: &'a str) -> Vec<Share<&'a str>> {
        std::iter::from_fn(|| shares.take(&holder).ok()).collect()
    }

    #[test]
    fn a_holder_that_takes_all_it_can_leaves_as_many_to_others() {
        let shares = Shares::new(30);
        let greedy = all(&shares, "a");
        assert_eq!(greedy.len(), 15);
        assert_eq!(shares.take(&"a").unwrap_err(), NoShare::Own(15));
        let second = all(&shares, "b");
        assert_eq!(second.len(), 8);
        let third = all(&shares, "c");
        assert_eq!(third.len(), 4);
        assert!(shares.take(&"d").is_ok());
        drop((greedy, third));
        assert_eq!(all(&shares, "b").len() + second.len(), 15);
    }

    #[test]
    fn the_total_and_the_limit_of_a_holder_are_never_exceeded() {
        let one = Shares::new(1);
        let only = one.take(&"a").unwrap();
        assert_eq!(one.take(&"b").unwrap_err(), NoShare::Total(1));
        drop(only);
        assert!(one.take(&"b").is_ok());
        assert_eq!(Shares::new(0).take(&"a").unwrap_err(), NoShare::Total(0));
        let limited = Shares::with_limit(100, 3);
        let taken = all(&limited, "a");
        assert_eq!(taken.len(), 3);
        assert_eq!(limited.take(&"a").unwrap_err(), NoShare::Own(3));
    }

    #[test]
    fn a_holder_without_parts_takes_no_memory() {
        let shares = Shares::new(2);
        drop(shares.take(&"a").unwrap());
        drop(shares.take_beyond(&"b"));
        let taken = shares.lock();
        assert!(taken.by_holder.is_empty() && taken.all == 0);
    }

    #[tokio::test]
    async fn a_holder_that_waits_gets_the_next_free_part() {
        let shares = Shares::new(1);
        let first = shares.take(&"a").unwrap();
        let mut second = Box::pin(shares.take_soon(&"b"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn a_refusal_names_the_tenant_and_the_numbers() {
        let shares = Shares::new(2);
        let owner = Owner::new("billing");
        let tenant = Tenant::of(Some(&owner), None);
        let _first = shares.admit(&tenant, "requests waiting").unwrap();
        let refused = shares.admit(&tenant, "requests waiting").unwrap_err();
        assert_eq!(refused.code, Code::OverLimit);
        assert_eq!(
            refused.detail,
            "the principal \"billing\" has 1 requests waiting, and the rest of the 2 that are allowed \
             is for others"
        );
        let address = Tenant::of(None, Some(IpAddr::from([10, 0, 0, 1])));
        let _second = shares.admit(&address, "requests waiting").unwrap();
        let refused = shares
            .admit(&Tenant::Unknown, "requests waiting")
            .unwrap_err();
        assert_eq!(
            refused.detail,
            "the store has 2 requests waiting, at most 2 are allowed"
        );
    }
}
