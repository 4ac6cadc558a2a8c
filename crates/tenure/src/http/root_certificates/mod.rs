//! The certificates with which https clients check servers.

#[cfg(feature = "tls")]
mod tls;

use std::fmt;
#[cfg(feature = "tls")]
use std::{path::PathBuf, sync::Arc};

#[cfg(feature = "tls")]
use self::tls::{Anchors, Origin, Trusted};
#[cfg(feature = "tls")]
use crate::http::file_value::FileValue;

/// The root certificates of https addresses: one of them must have issued a server's certificate,
/// directly or indirectly. Clones are handles to the same set.
///
/// The certificates of a file are read again every 10 s while requests are sent, and when a server's
/// certificate is refused. New connections use the new ones. A wrong file keeps those before it.
/// Certificates of the operating system (`SSL_CERT_FILE`, `SSL_CERT_DIR`) are read again with new
/// connections. The files of these two variables are read as strictly as those of
/// [`from_file`](Self::from_file).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RootCertificates {
    /// `None` stands for those of the operating system.
    #[cfg(feature = "tls")]
    anchors: Option<Arc<Anchors>>,
}

/// The reason why a text or a file contains no root certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RootCertificatesError(String);

impl RootCertificates {
    /// Returns the root certificates of the operating system, which are the default.
    #[must_use]
    pub const fn system() -> Self {
        Self {
            #[cfg(feature = "tls")]
            anchors: None,
        }
    }
}

#[cfg(feature = "tls")]
impl RootCertificates {
    /// Reads the root certificates from a PEM text, which contains nothing else. Clients then accept
    /// no others.
    ///
    /// # Errors
    ///
    /// [`RootCertificatesError`] with the line if the text is not PEM, or has a block that is not a
    /// usable certificate.
    pub fn from_pem(pem: impl Into<Arc<[u8]>>) -> Result<Self, RootCertificatesError> {
        let pem = pem.into();
        let trusted = Trusted::of_pem(&pem).map_err(RootCertificatesError)?;
        let trusted = FileValue::fixed(trusted);
        Ok(Self::new(Origin::Text(pem), trusted))
    }

    /// Reads the root certificates from a PEM file, like [`from_pem`](Self::from_pem), and reads the
    /// file again while clients use it.
    ///
    /// The function blocks.
    ///
    /// # Errors
    ///
    /// [`RootCertificatesError`] with the file.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, RootCertificatesError> {
        let path = path.into();
        let roots = Self::of_file(path.clone());
        roots.map_err(|error| RootCertificatesError(format!("{}: {error}", path.display())))
    }

    /// Reads a file. The error does not name it.
    pub(crate) fn of_file(path: PathBuf) -> Result<Self, String> {
        Self::of_source(path.display().to_string(), move || {
            std::fs::read(&path).map_err(|error| error.to_string())
        })
    }

    /// Reads the PEM text that the function `read` returns, now and again later. `origin` is its
    /// place, which no other text has.
    pub(crate) fn of_source(
        origin: String,
        read: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let load = move |known: Option<&Trusted>| {
            let pem = read()?;
            match known {
                Some(known) if known.is_of(&pem) => Ok(None),
                _ => Trusted::of_pem(&pem).map(Some),
            }
        };
        let what = "set of root certificates";
        let trusted = FileValue::read(what, origin.clone(), load)?;
        Ok(Self::new(Origin::File(origin), trusted))
    }

    fn new(origin: Origin, trusted: FileValue<Trusted>) -> Self {
        let anchors = Anchors { origin, trusted };
        Self {
            anchors: Some(Arc::new(anchors)),
        }
    }

    /// Reads the file again, if there is one and it was read long ago. Another task does it.
    ///
    /// The certificates of the operating system are many files. They are read again at handshakes
    /// only, so that an idle machine with many candidates does not read them all the time.
    pub(crate) fn refresh(&self) {
        if let Some(anchors) = &self.anchors {
            anchors.trusted.get();
        }
    }
}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "tls")]
        if let Some(anchors) = &self.anchors {
            return write!(f, "RootCertificates({:?})", anchors.origin);
        }
        f.write_str("RootCertificates(system)")
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests;
