//! Who is believed to be the store, where it is asked over https.

use std::fmt;
use std::sync::Arc;

use reqwest::{Certificate, Client, ClientBuilder};

use super::causes;

/// The certificates that a store's own must come from. Clones are cheap.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Roots(Option<Arc<[u8]>>);

impl Roots {
    /// Those that the system trusts.
    #[must_use]
    pub const fn of_system() -> Self {
        Self(None)
    }

    /// Those of this PEM, and no others.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what would be right.
    pub fn of_pem(pem: impl Into<Arc<[u8]>>) -> Result<Self, String> {
        const RIGHT: &str = "write PEM with the certificate of the authority, which begins with \
                             -----BEGIN CERTIFICATE-----";
        let roots = Self(Some(pem.into()));
        let certificates = roots.certificates().map_err(|error| {
            let reason = causes(&error);
            format!("it is no PEM ({reason}); {RIGHT}")
        })?;
        if certificates.is_empty() {
            return Err(format!("there is no certificate in it; {RIGHT}"));
        }
        // Only who uses them looks at what is in them.
        match roots
            .trusted_by(Client::builder())
            .and_then(ClientBuilder::build)
        {
            Ok(_) => Ok(roots),
            Err(error) => Err(format!(
                "a certificate in it can't be used ({}); {RIGHT}",
                causes(&error)
            )),
        }
    }

    /// A client that believes nobody else.
    pub(super) fn trusted_by(&self, client: ClientBuilder) -> reqwest::Result<ClientBuilder> {
        if self.0.is_none() {
            return Ok(client);
        }
        Ok(client.tls_certs_only(self.certificates()?))
    }

    fn certificates(&self) -> reqwest::Result<Vec<Certificate>> {
        Certificate::from_pem_bundle(self.0.as_deref().unwrap_or_default())
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Roots(PEM)",
            None => "Roots(system)",
        })
    }
}
