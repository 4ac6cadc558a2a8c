//! Checked JSON web tokens, with their callers.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use super::caller::Admission;
use super::jwt::Key;
use super::secret::SecretHash;

/// The maximum number of remembered tokens, which take a few megabytes.
const MAX: usize = 10_000;

/// The divisor of the number of tokens that are forgotten if all tokens are still valid: one token
/// in eight. A forgotten token that is in use is checked again.
const FORGOTTEN: usize = 8;

/// The callers of checked tokens, by the hashes of the tokens. A signature check costs a hundred
/// times as much as a look-up.
#[derive(Debug, Default)]
pub(super) struct CheckedTokens(RwLock<HashMap<SecretHash, Checked>>);

#[derive(Debug)]
struct Checked {
    admission: Arc<Admission>,
    /// The key with which the token was signed.
    key: Arc<Key>,
}

impl CheckedTokens {
    /// Returns the caller of a token that is still valid.
    pub(super) fn find(&self, hash: &SecretHash, now: SystemTime) -> Option<Arc<Admission>> {
        let all = self.read();
        let admission = &all.get(hash)?.admission;
        admission.is_current(now).then(|| Arc::clone(admission))
    }

    /// Remembers a caller, if the key of its token is still in force.
    pub(super) fn insert(
        &self,
        hash: SecretHash,
        (admission, key): (Arc<Admission>, Arc<Key>),
        is_in_force: impl FnOnce(&Arc<Key>) -> bool,
        now: SystemTime,
    ) {
        let mut all = self.write();
        if !is_in_force(&key) {
            return;
        }
        if all.len() >= MAX {
            all.retain(|_, checked| checked.admission.is_current(now));
        }
        if all.len() >= MAX {
            let mut number = 0;
            all.retain(|_, _| {
                number += 1;
                number % FORGOTTEN != 0
            });
        }
        all.insert(hash, Checked { admission, key });
    }

    /// Forgets the tokens whose keys are no longer in force.
    pub(super) fn retain(&self, is_in_force: impl Fn(&Arc<Key>) -> bool) {
        self.write().retain(|_, checked| is_in_force(&checked.key));
    }

    /// Returns the same tokens with the callers that other rules assign to them.
    pub(super) fn under(&self, admit: impl Fn(&Admission, &Arc<Key>) -> Option<Admission>) -> Self {
        let all = self.read();
        let admitted = all.iter().filter_map(|(hash, checked)| {
            let key = Arc::clone(&checked.key);
            let admission = Arc::new(admit(&checked.admission, &key)?);
            Some((hash.clone(), Checked { admission, key }))
        });
        Self(RwLock::new(admitted.collect()))
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<SecretHash, Checked>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<SecretHash, Checked>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::caller::Proof;
    use super::super::jwt::tests::signer::Signer;
    use super::super::jwt::{Identity, parse_keys};
    use super::super::rights::Principal;
    use super::*;
    use std::time::Duration;
    use tenure_core::lease::Owner;

    fn key() -> Arc<Key> {
        let keys = parse_keys(&Signer::new().key_set("one"), "ci").unwrap();
        Arc::new(keys.into_iter().next().unwrap())
    }

    fn admission(expires: SystemTime, key: &Arc<Key>) -> Arc<Admission> {
        let name: Arc<str> = "ci:x".into();
        Arc::new(Admission {
            principal: Arc::new(Principal {
                name: Arc::clone(&name),
                grants: Box::default(),
            }),
            owner: Owner::new(&*name),
            proof: Proof::Identity(
                Identity {
                    text: name,
                    namespace: None,
                },
                Arc::clone(key),
            ),
            expires: Some(expires),
            last_use: None,
        })
    }

    #[test]
    fn the_memory_for_a_million_tokens_is_bounded_and_most_of_the_known_ones_stay() {
        let checked = CheckedTokens::default();
        let (key, now) = (key(), SystemTime::now());
        let later = admission(now + Duration::from_secs(600), &key);
        let insert = |number: u32, admission: &Arc<Admission>| {
            let hash = SecretHash::of(&number.to_string());
            checked.insert(
                hash,
                (Arc::clone(admission), Arc::clone(&key)),
                |_| true,
                now,
            );
        };
        let known = |range: std::ops::Range<u32>| {
            let hashes = range.map(|number| SecretHash::of(&number.to_string()));
            hashes
                .filter(|hash| checked.find(hash, now).is_some())
                .count()
        };
        for number in 0..1 << 20 {
            insert(number, &later);
            assert!(checked.read().len() <= MAX);
        }
        assert!(known(0..1 << 20) > MAX - MAX / FORGOTTEN);
        // One token over the limit costs the other tokens no more than their fraction.
        checked.retain(|_| false);
        (0..MAX as u32 + 1).for_each(|number| insert(number, &later));
        assert!(known(0..MAX as u32) >= MAX - MAX / FORGOTTEN);
        // Expired tokens are forgotten first.
        checked.retain(|_| false);
        let over = admission(now - Duration::from_secs(1), &key);
        (0..10).for_each(|number| insert(number, &later));
        (10..2 * MAX as u32).for_each(|number| insert(number, &over));
        assert_eq!(known(0..2 * MAX as u32), 10);
    }

    #[test]
    fn a_token_of_a_key_that_was_just_taken_back_is_not_remembered() {
        let checked = CheckedTokens::default();
        let key = key();
        let (hash, now) = (SecretHash::of("x"), SystemTime::now());
        let admission = admission(now + Duration::from_secs(600), &key);
        checked.insert(hash.clone(), (admission, key), |_| false, now);
        assert!(checked.find(&hash, now).is_none());
    }
}
