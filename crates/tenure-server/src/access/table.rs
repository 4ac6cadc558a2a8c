//! The tokens of an access file, ready to be looked up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::lease::Owner;

use super::caller::{Admission, Caller, Proof};
use super::file::AccessFile;
use super::secret::{SecretHash, SecretId};

/// The tokens of a file. A new one replaces it whenever the file changes.
#[derive(Debug)]
pub(super) struct Table {
    tokens: HashMap<SecretId, Token>,
    file: AccessFile,
}

#[derive(Debug)]
struct Token {
    hash: SecretHash,
    admission: Arc<Admission>,
    /// Seconds since 1970; zero if it was not used since the start.
    last_used: AtomicU64,
}

impl Table {
    pub(super) fn new(file: AccessFile) -> Self {
        let tokens = file.principals.iter().flat_map(|listed| {
            listed.secrets.iter().map(|secret| {
                let admission = Admission {
                    principal: Arc::clone(&listed.principal),
                    owner: Owner::new(Arc::clone(&listed.principal.name)),
                    proof: Proof::Token(secret.id),
                    expires: secret.expires,
                };
                let token = Token {
                    hash: secret.hash.clone(),
                    admission: Arc::new(admission),
                    last_used: AtomicU64::new(0),
                };
                (secret.id, token)
            })
        });
        Self {
            tokens: tokens.collect(),
            file,
        }
    }

    /// Takes over when the tokens of the previous file were used.
    pub(super) fn with_uses_of(self, previous: &Self) -> Self {
        for (id, token) in &self.tokens {
            if let Some(known) = previous.tokens.get(id) {
                let last_used = known.last_used.load(Ordering::Relaxed);
                token.last_used.store(last_used, Ordering::Relaxed);
            }
        }
        self
    }

    /// The caller that has this token, if the token is valid now.
    pub(super) fn find(&self, presented: &str, now: SystemTime) -> Option<Caller> {
        let known = SecretId::of_token(presented).and_then(|id| self.tokens.get(&id));
        // An unknown id takes as long as a known one.
        let hash = known.map_or(&SecretHash::NONE, |token| &token.hash);
        if !SecretHash::of(presented).matches(hash) {
            return None;
        }
        let token = known.filter(|token| token.admission.is_current(now))?;
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Most renewals of a second find it done, and leave the memory to the other processors.
        if token.last_used.load(Ordering::Relaxed) != seconds {
            token.last_used.store(seconds, Ordering::Relaxed);
        }
        Some(Caller::Admitted(Arc::clone(&token.admission)))
    }

    /// The caller with its present grants, if its proof is still valid.
    pub(super) fn refresh(&self, admission: &Admission, now: SystemTime) -> Option<Caller> {
        let Proof::Token(id) = &admission.proof;
        let token = self.tokens.get(id)?;
        let is_same = token.admission.principal.name == admission.principal.name;
        (is_same && token.admission.is_current(now))
            .then(|| Caller::Admitted(Arc::clone(&token.admission)))
    }

    pub(super) fn file(&self) -> &AccessFile {
        &self.file
    }

    /// When the token was last used since the start.
    pub(super) fn last_used(&self, id: SecretId) -> Option<SystemTime> {
        let seconds = self.tokens.get(&id)?.last_used.load(Ordering::Relaxed);
        (seconds > 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
    }
}
