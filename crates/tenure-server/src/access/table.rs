//! The tokens of an access file, indexed for look-ups.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_core::lease::Owner;

use super::caller::{Admission, Caller, Proof};
use super::certificates::{ClientAuthorities, PresentedCertificate, VerifiedCertificate};
use super::checked::CheckedTokens;
use super::failures::{AuthFailure, Failures, Refusal};
use super::file::{AccessFile, NamespaceRule};
use super::jwt::{Authority, Identity, Issuer, JwtRefusal, Key};
use super::rights::{AccessGrant, AccessScope, Principal};
use super::secret::{Secret, SecretHash, SecretId};
use super::session::{Origin, Session};

/// The tokens and the authorities of a file. A new table replaces this one whenever the file
/// changes.
#[derive(Debug)]
pub(super) struct Table {
    tokens: HashMap<SecretId, Token>,
    authorities: Vec<Authority>,
    checked: CheckedTokens,
    /// The authorities of client certificates.
    certificates: Option<Arc<ClientAuthorities>>,
    file: Arc<AccessFile>,
}

#[derive(Debug)]
struct Token {
    hash: SecretHash,
    admission: Arc<Admission>,
}

impl Table {
    pub(super) fn new(file: Arc<AccessFile>, certificates: Option<Arc<ClientAuthorities>>) -> Self {
        let tokens = file.principals.iter().flat_map(|listed| {
            listed.secrets.iter().map(|secret| {
                let admission = Admission {
                    principal: Arc::clone(&listed.principal),
                    owner: Owner::new(&*listed.principal.name),
                    proof: Proof::Token(secret.id),
                    expires: secret.expires,
                    last_use: Some(Arc::default()),
                };
                let token = Token {
                    hash: secret.hash.clone(),
                    admission: Arc::new(admission),
                };
                (secret.id, token)
            })
        });
        let authorities = file.issuers.iter().cloned().map(Authority::new);
        Self {
            tokens: tokens.collect(),
            authorities: authorities.collect(),
            checked: CheckedTokens::default(),
            certificates,
            file,
        }
    }

    /// Takes over the state of the previous table: the times at which its tokens were used, the
    /// keys of its authorities, and the JSON web tokens that were checked with keys that stay in
    /// force.
    pub(super) fn following(mut self, previous: &Self) -> Self {
        let authorities = self.authorities.into_iter().map(|authority| {
            let mut known = previous.authorities.iter();
            match known.find(|known| known.issuer == authority.issuer) {
                Some(known) => authority.with_keys_of(known),
                None => authority,
            }
        });
        self.authorities = authorities.collect();
        for (id, token) in &self.tokens {
            if let Some(last_use) = &token.admission.last_use {
                last_use.set(previous.seconds_of_use(*id));
            }
        }
        // Otherwise the store would have to check all of these tokens again after each change of
        // the file, including the tokens of leaders whose address is over its limit.
        self.checked = previous
            .checked
            .under(|admission, key| match &admission.proof {
                Proof::Identity(identity, _) if self.has_key(key) => {
                    self.admission(identity, admission.expires?, admission.proof.clone())
                }
                _ => None,
            });
        self
    }

    /// Returns the caller with this token, if the token is valid now.
    pub(super) fn find(&self, presented: &str, now: SystemTime) -> Result<Caller, Refusal> {
        let known = SecretId::of_token(presented).and_then(|id| self.tokens.get(&id));
        // The comparison takes as long for an unknown id as for a known one.
        let hash = known.map_or(&SecretHash::NONE, |token| &token.hash);
        let is_right = SecretHash::of(presented).matches(hash);
        let Some(token) = known.filter(|_| is_right) else {
            return Err(
                AuthFailure::Unknown.because(match presented.parse::<Secret>() {
                    Err(error) => error.to_string().into(),
                    Ok(_) => Cow::from(match known {
                        None => "no principal has a token with this id",
                        Some(_) => "it is not the token with this id",
                    }),
                }),
            );
        };
        if !token.admission.is_current(now) {
            return Err(AuthFailure::Expired.because("it has expired"));
        }
        token.admission.note_use(now);
        Ok(Caller::Admitted(Arc::clone(&token.admission)))
    }

    /// Returns the caller with this session, if the credential from which the session was made is
    /// still accepted.
    pub(super) fn find_session(
        &self,
        session: &Arc<Session>,
        now: SystemTime,
    ) -> Option<Arc<Admission>> {
        let proof = Proof::Session(Arc::clone(session));
        let expires = session.expires();
        let admission = match &session.origin {
            Origin::Token(_) => {
                let token = self.tokens.get(&session.secret_id()?)?;
                let own = &token.admission;
                if *own.principal.name != *session.principal || !own.is_current(now) {
                    return None;
                }
                // A token whose sessions are in use is in use.
                own.note_use(now);
                Admission {
                    principal: Arc::clone(&own.principal),
                    owner: own.owner.clone(),
                    proof,
                    expires: Some(own.expires.map_or(expires, |own| own.min(expires))),
                    last_use: own.last_use.clone(),
                }
            }
            Origin::Jwt(_, key) => {
                let mut authorities = self.authorities.iter();
                let is_in_force = authorities.any(|authority| authority.has_fingerprint(key));
                let identity = session.identity().filter(|_| is_in_force)?;
                self.admission(&identity, expires, proof)?
            }
            Origin::Certificate(_, authorities) => {
                let is_in_force = self.certificates.as_ref()?.fingerprint() == *authorities;
                let identity = session.identity().filter(|_| is_in_force)?;
                self.admission(&identity, expires, proof)?
            }
        };
        admission.is_current(now).then(|| admission.into())
    }

    /// Returns the caller with its present grants, if its proof is still valid.
    pub(super) fn current(&self, admission: &Admission, now: SystemTime) -> Option<Arc<Admission>> {
        let admission = match &admission.proof {
            Proof::Token(id) => {
                let present = &self.tokens.get(id)?.admission;
                let is_same = present.principal.name == admission.principal.name;
                is_same.then(|| Arc::clone(present))?
            }
            // An authority vouches for its tokens no longer if their key is gone, and has other
            // keys if its name, its issuer or its audience is another one.
            Proof::Identity(_, key) if !self.has_key(key) => return None,
            Proof::Identity(identity, _) => {
                let proof = admission.proof.clone();
                self.admission(identity, admission.expires?, proof)?.into()
            }
            Proof::Session(session) => self.find_session(session, now)?,
            Proof::Certificate(verified) => {
                let verified = verified.of(self.certificates.as_ref()?, now)?;
                self.certified(&verified)?
            }
        };
        admission.is_current(now).then_some(admission)
    }

    /// Returns the caller that has presented this certificate, if the certificate is valid now. A
    /// certificate is verified once for each connection, and again only after other authorities
    /// came in force.
    pub(super) fn find_certificate(
        &self,
        presented: &PresentedCertificate,
        rules: u64,
        now: SystemTime,
    ) -> Result<Caller, Refusal> {
        let unknown = |check: &'static str| move || AuthFailure::Unknown.because(check);
        let admission = presented.admission(rules, |chain, before| {
            if let Some(before) = before {
                let current = self.current(before, now);
                return current.ok_or_else(unknown("the access file no longer admits it"));
            }
            let authorities = self.certificates.as_ref();
            let authorities = authorities.ok_or_else(unknown("no authority is known"))?;
            let verified = authorities.verify(chain, now)?;
            let certified = self.certified(&verified.into());
            certified.ok_or_else(|| AuthFailure::Denied.because("the access file denies it"))
        })?;
        match admission.is_current(now) {
            true => Ok(Caller::Admitted(admission)),
            false => Err(AuthFailure::Expired.because("it has expired")),
        }
    }

    /// Returns the rights of the identity in a certificate.
    fn certified(&self, verified: &Arc<VerifiedCertificate>) -> Option<Arc<Admission>> {
        let proof = Proof::Certificate(Arc::clone(verified));
        let admission = self.admission(&verified.identity, verified.expires, proof)?;
        Some(admission.into())
    }

    pub(super) const fn certificates(&self) -> Option<&Arc<ClientAuthorities>> {
        self.certificates.as_ref()
    }

    /// Returns the caller with this JSON web token, if the token is valid now. A signature is
    /// checked only if the address is within the limit of its failures. A token that was checked
    /// before is never refused because of the limit.
    pub(super) fn find_jwt(
        &self,
        token: &str,
        client: Option<IpAddr>,
        failures: &Failures,
        now: SystemTime,
    ) -> Result<Caller, JwtRefusal> {
        let hash = SecretHash::of(token);
        if let Some(admission) = self.checked.find(&hash, now) {
            return Ok(Caller::Admitted(admission));
        }
        let instant = Instant::now();
        if failures.is_refused(&hash, instant) {
            return Err(JwtRefusal::Invalid("it was refused a short time ago"));
        }
        if !client.is_none_or(|client| failures.may_check(client, instant)) {
            let check = "it is not checked yet: its address has sent too many wrong credentials";
            return Err(JwtRefusal::Invalid(check));
        }
        let found = self.check(token, hash.clone(), now);
        if found.is_err() && !matches!(found, Err(JwtRefusal::UnknownKey)) {
            failures.note_refused(hash, instant);
        }
        found
    }

    /// Checks a JSON web token, and remembers its caller.
    fn check(&self, token: &str, hash: SecretHash, now: SystemTime) -> Result<Caller, JwtRefusal> {
        let mut refusal = None;
        for authority in &self.authorities {
            match authority.verify(token, now) {
                Ok(verified) => {
                    let identity = verified.identity;
                    let proof = Proof::Identity(identity.clone(), Arc::clone(&verified.key));
                    let admission = self.admission(&identity, verified.expires, proof);
                    let admission = Arc::new(admission.ok_or(JwtRefusal::Denied)?);
                    let checked = (Arc::clone(&admission), verified.key);
                    self.checked
                        .insert(hash, checked, |key| authority.has(key), now);
                    return Ok(Caller::Admitted(admission));
                }
                // Another authority may have issued the token.
                Err(JwtRefusal::Invalid(check)) => {
                    refusal.get_or_insert(JwtRefusal::Invalid(check));
                }
                Err(other) => refusal = Some(other),
            }
        }
        Err(refusal.unwrap_or(JwtRefusal::Invalid("no issuer is known")))
    }

    /// Returns whether an authority has this key in force.
    fn has_key(&self, key: &Arc<Key>) -> bool {
        self.authorities.iter().any(|authority| authority.has(key))
    }

    /// Returns the rights of an identity, unless it is denied.
    fn admission(
        &self,
        identity: &Identity,
        expires: SystemTime,
        proof: Proof,
    ) -> Option<Admission> {
        let is_denied = |identity: &str| {
            let mut denied = self.file.denied.iter();
            denied.any(|pattern| pattern.matches(identity))
        };
        if is_denied(&identity.text) {
            return None;
        }
        let rules = self.file.identity_rules.iter();
        let rules = rules.filter(|rule| rule.identity.matches(&identity.text));
        let grants = rules.flat_map(|rule| &rule.grants).filter_map(|grant| {
            let namespace = match &grant.namespace {
                NamespaceRule::All => None,
                NamespaceRule::One(name) => Some(name.clone()),
                NamespaceRule::OfIdentity => Some(identity.namespace.clone()?),
            };
            Some(AccessGrant {
                role: grant.role,
                scope: AccessScope::new(namespace, &grant.prefix),
            })
        });
        let principal = Principal {
            name: Arc::clone(&identity.text),
            grants: grants.collect(),
        };
        Some(Admission {
            owner: Owner::new(&*principal.name),
            principal: Arc::new(principal),
            proof,
            expires: Some(expires),
            last_use: None,
        })
    }

    /// Puts other keys of an authority in force, and returns whether they differ. Tokens of removed
    /// keys are refused from now on.
    pub(super) fn replace_keys(
        &self,
        issuer: &Issuer,
        key_set: &str,
        claim: Option<&str>,
    ) -> Result<bool, String> {
        let mut authorities = self.authorities.iter();
        let authority = authorities.find(|authority| authority.issuer == *issuer);
        let authority = authority.ok_or("the access file does not have this issuer any more")?;
        let has_changed = authority.replace(key_set, claim)?;
        self.checked.retain(|key| self.has_key(key));
        Ok(has_changed)
    }

    pub(super) fn note_failed_fetch(&self, issuer: &Issuer) {
        let mut authorities = self.authorities.iter();
        if let Some(authority) = authorities.find(|authority| authority.issuer == *issuer) {
            authority.fetch.record(false);
        }
    }

    pub(super) fn authorities(&self) -> &[Authority] {
        &self.authorities
    }

    /// Returns the ends of the tokens in the file that are still valid.
    pub(super) fn ends(&self, now: SystemTime) -> impl Iterator<Item = SystemTime> {
        let ends = self
            .tokens
            .values()
            .filter_map(|token| token.admission.expires);
        ends.filter(move |end| *end > now)
    }

    pub(super) const fn file(&self) -> &Arc<AccessFile> {
        &self.file
    }

    /// Returns the time of the token's last use since the start.
    pub(super) fn last_used(&self, id: SecretId) -> Option<SystemTime> {
        let seconds = self.seconds_of_use(id);
        (seconds > 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn seconds_of_use(&self, id: SecretId) -> u64 {
        let token = self.tokens.get(&id);
        let last_use = token.and_then(|token| token.admission.last_use.as_ref());
        last_use.map_or(0, |last_use| last_use.seconds())
    }
}
