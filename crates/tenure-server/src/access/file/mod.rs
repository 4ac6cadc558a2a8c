//! The access file: principals with the hashes of their tokens, and their grants.

mod content;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tenure_core::Name;

use super::certificates::ClientAuthorities;
use super::jwt::Issuer;
use super::rights::{Principal, Role};
use super::secret::{SecretHash, SecretId};
use super::source::Version;

use content::Content;

/// The maximum number of tokens of a principal: the current token, and its successor during a
/// rotation.
pub const MAX_SECRETS: usize = 2;

/// The maximum number of characters in a principal's name.
const MAX_PRINCIPAL_LEN: usize = 128;

/// The checked content of an access file.
#[derive(Debug, Default)]
pub struct AccessFile {
    pub(super) principals: Vec<ListedPrincipal>,
    pub(super) issuers: Vec<Issuer>,
    certificates: Option<CaFile>,
    pub(super) identity_rules: Vec<IdentityRule>,
    pub(super) denied: Vec<IdentityPattern>,
}

/// A principal of the access file with its tokens.
#[derive(Debug)]
pub struct ListedPrincipal {
    /// The name and the grants of the principal.
    pub principal: Arc<Principal>,
    /// The tokens of the principal, at most [`MAX_SECRETS`].
    pub secrets: Vec<ListedSecret>,
}

/// A token of the access file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedSecret {
    /// The id of the token.
    pub id: SecretId,
    /// The hash of the token.
    pub hash: SecretHash,
    /// The time when the token was created, if the file contains it.
    pub created: Option<SystemTime>,
    /// The time from which on the token is refused, if the file contains it.
    pub expires: Option<SystemTime>,
}

/// The file with the authorities of client certificates, and the line of the access file that names
/// it.
#[derive(Debug)]
struct CaFile {
    path: PathBuf,
    access_file: PathBuf,
    line: usize,
}

/// The grants of callers that another authority vouches for.
#[derive(Debug)]
pub(super) struct IdentityRule {
    pub(super) identity: IdentityPattern,
    pub(super) grants: Vec<IdentityGrant>,
}

/// A grant whose namespace may be the namespace of the identity.
#[derive(Debug)]
pub(super) struct IdentityGrant {
    pub(super) role: Role,
    pub(super) namespace: NamespaceRule,
    pub(super) prefix: Box<str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NamespaceRule {
    All,
    One(Name),
    /// `$namespace`: the Kubernetes namespace of the caller.
    OfIdentity,
}

/// An identity, or a text with a `*` at its end, which matches all identities with this beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdentityPattern {
    text: Box<str>,
    is_prefix: bool,
}

/// The reason why an access file is not used. The message names the file, the line, the value, and
/// a valid alternative.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The file can't be read.
    #[error("can't read {path}: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// Other users could change the file and therefore all rights.
    #[error("{path} {problem}; run: {fix} {path}", path = path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// The wrong mode or the wrong owner.
        problem: String,
        /// The command that corrects the problem.
        fix: String,
    },
    /// The content is wrong.
    #[error("{path}:{line}: {problem}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key, its value, and a valid alternative.
        problem: String,
    },
    /// The file with the authorities of client certificates is wrong.
    #[error("{path}:{line}: ca_file = {ca_file:?}: {reason}", path = path.display())]
    Certificates {
        /// The access file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The file with the authorities, which the access file names.
        ca_file: PathBuf,
        /// The reason why the file is not used, with a valid alternative.
        reason: String,
    },
}

impl AccessFile {
    /// Returns the authorities whose tokens are accepted.
    #[must_use]
    pub fn issuers(&self) -> &[Issuer] {
        &self.issuers
    }

    /// Reads the content of an access file. Errors name `path` as the path of the file.
    ///
    /// # Errors
    ///
    /// [`AccessError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, AccessError> {
        let line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let invalid = |offset, problem| AccessError::Invalid {
            path: path.into(),
            line: line(offset),
            problem,
        };
        let content: Content = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            invalid(offset, with_hint(error.message()))
        })?;
        let mut file = content
            .check()
            .map_err(|wrong| invalid(wrong.offset, wrong.problem))?;
        file.certificates = content.ca_file().map(|(ca_file, offset)| CaFile {
            path: ca_file.into(),
            access_file: path.into(),
            line: line(offset),
        });
        Ok(file)
    }

    /// Reads the authorities of client certificates, if the access file names a file with
    /// authorities.
    ///
    /// # Errors
    ///
    /// [`AccessError::Certificates`].
    pub(super) fn client_authorities(
        &self,
    ) -> Result<Option<(ClientAuthorities, Version)>, AccessError> {
        let Some(ca_file) = &self.certificates else {
            return Ok(None);
        };
        let read = ClientAuthorities::read(&ca_file.path);
        read.map(Some).map_err(|reason| AccessError::Certificates {
            path: ca_file.access_file.clone(),
            line: ca_file.line,
            ca_file: ca_file.path.clone(),
            reason,
        })
    }

    /// Returns the present version of the file with the authorities.
    pub(super) fn certificates_version(&self) -> Option<Version> {
        let ca_file = self.certificates.as_ref();
        ca_file.map(|ca_file| Version::of(&ca_file.path))
    }

    /// Returns the principals with their tokens, in the order of the file.
    #[must_use]
    pub fn principals(&self) -> &[ListedPrincipal] {
        &self.principals
    }
}

impl IdentityPattern {
    /// Returns whether the identity matches this pattern.
    pub(super) fn matches(&self, identity: &str) -> bool {
        match self.is_prefix {
            true => identity.starts_with(&*self.text),
            false => identity == &*self.text,
        }
    }
}

/// Checks the name of a principal with tokens.
///
/// # Errors
///
/// The rule that the name violates.
pub fn check_principal_name(name: &str) -> Result<(), String> {
    let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() || name.len() > MAX_PRINCIPAL_LEN || !is_visible {
        return Err(format!(
            "a name has 1 to {MAX_PRINCIPAL_LEN} visible ASCII characters"
        ));
    }
    if name.contains(':') {
        // Without this check a token could own the leases of an identity.
        return Err("a name has no colon; names with one are of [[match]] identities".into());
    }
    Ok(())
}

/// Replaces serde's message about an unknown field, which lists the known ones, by one with the most
/// similar of them.
#[doc(hidden)]
#[must_use]
pub fn with_hint(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown field").then(|| names.next());
    let Some(unknown) = unknown.flatten() else {
        return message.into();
    };
    let known: Vec<&str> = names.collect();
    let distance = |name: &&&str| strsim::damerau_levenshtein(unknown, name);
    let near = known.iter().min_by_key(distance);
    let near = near.filter(|near| distance(near) <= near.len() / 3 + 1);
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known are {}", known.join(", ")),
    };
    format!("unknown key {unknown}; {hint}")
}

#[cfg(test)]
mod tests;
