//! Wrong credentials, counted by address. Valid credentials are never counted and never refused: a
//! misconfigured worker must not cost a leader with the same address its lease.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::wire::{Code, Problem};

use super::refusal_log::{CredentialNames, RefusalLog};
use super::secret::SecretHash;
use crate::metrics::{CounterSet, Label};
use crate::shares::Network;

/// The number of failures that an address may have at the same time: people mistype, and a fleet
/// restarts with an old token.
const BURST: u32 = 10;
/// The interval at which an address over the burst may have one more failure.
const INTERVAL: Duration = Duration::from_secs(6);
/// The maximum number of addresses, which take some hundred kilobytes. The address with the oldest
/// failures is forgotten.
const MAX_ADDRESSES: usize = 4096;

/// The interval of signature checks for an address over the limit. A valid token that the store has
/// not checked before is accepted at such a check, unless very many different wrong tokens come
/// from its address.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The time for which a token with a wrong signature is refused without another check: a program
/// that repeats a wrong token must not use up the checks of other clients.
const REFUSED_TIME: Duration = Duration::from_secs(30);
/// The maximum number of tokens that are known to be wrong.
const MAX_REFUSED: usize = 4096;

/// The reason why a credential was refused. The answer does not contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) failure: AuthFailure,
    /// The check that failed, for the log.
    pub(super) check: Cow<'static, str>,
}

/// The kind of a reason, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthFailure {
    /// The request has no credential.
    Missing,
    /// The header has no bearer token, or there are several such headers.
    Malformed,
    /// No principal has the credential, or no known key signed it.
    Unknown,
    /// The credential has expired.
    Expired,
    /// The access file denies the identity.
    Denied,
    /// Too many wrong credentials came from the address.
    Limited,
}

impl AuthFailure {
    /// Returns the refusal with the check that failed.
    pub(super) fn because(self, check: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            failure: self,
            check: check.into(),
        }
    }
}

impl Label for AuthFailure {
    const ALL: &'static [Self] = &[
        Self::Missing,
        Self::Malformed,
        Self::Unknown,
        Self::Expired,
        Self::Denied,
        Self::Limited,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Denied => "denied",
            Self::Limited => "limited",
        }
    }
}

/// The failures of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// All failures since the start, by their kinds.
    pub(super) counts: CounterSet<AuthFailure>,
    log: RefusalLog,
    by_network: Mutex<HashMap<Network, Failed>>,
    /// The tokens with wrong signatures, and the times when they are checked again.
    refused: Mutex<HashMap<SecretHash, Instant>>,
}

/// The failures of one address.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// The time when all of them are forgiven.
    forgiven_at: Instant,
    /// The time when a signature was last checked over the limit.
    checked_at: Option<Instant>,
}

impl Failures {
    /// Counts and logs a wrong credential of this kind and this address, and returns the answer to
    /// it. The text is the same for a missing, unknown, wrong, expired or revoked credential, so
    /// that the answer reveals nothing.
    pub(super) fn refuse(
        &self,
        refusal: &Refusal,
        address: Option<IpAddr>,
        kind: &str,
        names: impl FnOnce() -> CredentialNames,
    ) -> Problem {
        self.log.record(kind, &refusal.check, address, names);
        if address.is_none_or(|address| self.admit(address, Instant::now())) {
            self.counts.add(refusal.failure);
            return unauthenticated();
        }
        self.counts.add(AuthFailure::Limited);
        let detail = "too many wrong credentials came from this address; valid ones are accepted";
        Problem::new(Code::OverLimit, detail)
    }

    /// Counts another failure of this address if it is within the limit, and returns whether it is.
    fn admit(&self, address: IpAddr, now: Instant) -> bool {
        let network = Network::of(address);
        let mut all = self.lock();
        let known = all.get(&network).copied();
        let forgiven_at = next(known, now);
        if is_over(forgiven_at, now) {
            return false;
        }
        if all.len() >= MAX_ADDRESSES && known.is_none() {
            let oldest = all.iter().min_by_key(|(_, failed)| failed.forgiven_at);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                all.remove(&oldest);
            }
        }
        let checked_at = known.and_then(|known| known.checked_at);
        let failed = Failed {
            forgiven_at,
            checked_at,
        };
        all.insert(network, failed);
        true
    }

    /// Returns whether a signature may be checked for this address. A check costs much more than a
    /// look-up.
    pub(crate) fn may_check(&self, address: IpAddr, now: Instant) -> bool {
        let mut all = self.lock();
        let Some(failed) = all.get_mut(&Network::of(address)) else {
            return true;
        };
        if !is_over(next(Some(*failed), now), now) {
            return true;
        }
        let last = failed.checked_at;
        let may = last.is_none_or(|at| now >= at + CHECK_INTERVAL);
        if may {
            failed.checked_at = Some(now);
        }
        may
    }

    /// Notes that the signature of this token is wrong.
    pub(crate) fn note_refused(&self, token: SecretHash, now: Instant) {
        let mut refused = lock(&self.refused);
        if refused.len() >= MAX_REFUSED {
            refused.retain(|_, until| now < *until);
        }
        if refused.len() >= MAX_REFUSED {
            refused.clear();
        }
        refused.insert(token, now + REFUSED_TIME);
    }

    /// Returns whether the signature of this token was found wrong a short time ago.
    pub(crate) fn is_refused(&self, token: &SecretHash, now: Instant) -> bool {
        lock(&self.refused)
            .get(token)
            .is_some_and(|until| now < *until)
    }

    /// Forgets all refused tokens, so that they are checked again with other keys.
    pub(crate) fn forget_refused(&self) {
        lock(&self.refused).clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Network, Failed>> {
        lock(&self.by_network)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the answer to a request without a valid credential.
pub(crate) fn unauthenticated() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "send a valid token in the header Authorization: Bearer TOKEN, or use a valid client \
         certificate",
    )
}

/// Returns the time at which all failures are forgiven if one more is added.
fn next(known: Option<Failed>, now: Instant) -> Instant {
    known.map_or(now, |failed| failed.forgiven_at.max(now)) + INTERVAL
}

fn is_over(forgiven_at: Instant, now: Instant) -> bool {
    forgiven_at > now + INTERVAL * BURST
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn ten_failures_pass_at_once_and_then_one_in_six_seconds() {
        let (failures, start) = (Failures::default(), Instant::now());
        let admitted = |address, seconds| {
            let now = start + Duration::from_secs(seconds);
            (0..100).filter(|_| failures.admit(address, now)).count()
        };
        assert_eq!(admitted(ONE, 0), 10);
        assert_eq!(admitted(TWO, 0), 10);
        assert_eq!(admitted(ONE, 5), 0);
        assert_eq!(admitted(ONE, 6), 1);
        assert_eq!(admitted(ONE, 18), 2);
        assert_eq!(admitted(ONE, 1000), 10);
    }

    #[test]
    fn over_the_limit_ten_signatures_a_second_are_checked() {
        let (failures, start) = (Failures::default(), Instant::now());
        let checked = |address, millis| {
            let now = start + Duration::from_millis(millis);
            (0..100)
                .filter(|_| failures.may_check(address, now))
                .count()
        };
        assert_eq!(checked(ONE, 0), 100);
        while failures.admit(ONE, start) {}
        assert_eq!(checked(ONE, 0), 1);
        assert_eq!(checked(ONE, 99), 0);
        assert_eq!(checked(ONE, 100), 1);
        assert_eq!(checked(TWO, 0), 100);
        assert_eq!(checked(ONE, 6_000), 100);
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let (failures, now) = (Failures::default(), Instant::now());
        let of = |network: u16, host| {
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, host))
        };
        let admitted = (0..50).filter(|host| failures.admit(of(1, *host), now));
        assert_eq!(admitted.count(), 10);
        assert!(failures.admit(of(2, 0), now));
        let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert_eq!(Network::of(mapped), Network::of(ONE));
    }

    #[test]
    fn a_token_that_was_found_wrong_is_not_checked_again_for_a_while() {
        let (failures, start) = (Failures::default(), Instant::now());
        let [wrong, other] = ["wrong", "other"].map(SecretHash::of);
        failures.note_refused(wrong.clone(), start);
        let is_refused = |hash, seconds| {
            let now = start + Duration::from_secs(seconds);
            failures.is_refused(hash, now)
        };
        assert!(is_refused(&wrong, 29) && !is_refused(&wrong, 30));
        assert!(!is_refused(&other, 0));
        failures.forget_refused();
        assert!(!is_refused(&wrong, 0));
        for number in 0..2 * MAX_REFUSED {
            failures.note_refused(SecretHash::of(&number.to_string()), start);
        }
        assert!(lock(&failures.refused).len() <= MAX_REFUSED);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_forgotten() {
        let (failures, start) = (Failures::default(), Instant::now());
        for number in 0..MAX_ADDRESSES as u32 + 1 {
            let address = IpAddr::V4(Ipv4Addr::from_bits(number));
            assert!(failures.admit(address, start + Duration::from_micros(number.into())));
        }
        let all = failures.lock();
        assert_eq!(all.len(), MAX_ADDRESSES);
        let network = |number| Network::of(IpAddr::V4(Ipv4Addr::from_bits(number)));
        assert!(!all.contains_key(&network(0)) && all.contains_key(&network(1)));
    }
}
