//! Access files of stores.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tenure_server::access::{Secret, SecretId};

/// A principal with one grant and one token.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Its name.
    pub name: &'static str,
    grant: String,
    token: Secret,
}

impl Principal {
    /// Creates one with a new token and this role in a namespace; `*` means all namespaces.
    #[must_use]
    pub fn new(name: &'static str, role: &str, namespace: &str) -> Self {
        Self {
            name,
            grant: format!("{{ role = {role:?}, namespace = {namespace:?} }}"),
            token: Secret::generate(),
        }
    }

    /// The same principal with another token.
    #[must_use]
    pub fn with_another_token(&self) -> Self {
        Self {
            token: Secret::generate(),
            ..self.clone()
        }
    }

    /// The token.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.reveal()
    }

    /// The id of the token.
    #[must_use]
    pub fn id(&self) -> SecretId {
        self.token.id()
    }

    /// The lines of an access file for this principal, without those of its token.
    #[must_use]
    pub fn without_token(&self) -> String {
        let Self { name, grant, .. } = self;
        format!("[[principal]]\nname = {name:?}\ngrants = [{grant}]\n")
    }

    /// The lines of an access file for this principal.
    #[must_use]
    pub fn with_token(&self) -> String {
        format!(
            "{}[[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
            self.without_token(),
            self.id(),
            self.token.hash()
        )
    }
}

/// Writes a file that only its owner can read, in one step: a store never reads a part of it.
///
/// # Errors
///
/// If it can't be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, text)?;
    fs::set_permissions(&next, Permissions::from_mode(0o600))?;
    fs::rename(&next, path)
}
