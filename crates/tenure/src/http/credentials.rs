//! Credentials of the clients of a store.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::http::client_certificate::ClientCertificate;
use crate::http::endpoint::Endpoint;
use crate::http::file_value::FileValue;

/// The maximum length of a token. By default a store accepts no head of a request that is longer.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// The credential of a client: a token, a file that contains a token, or a client certificate.
/// Clones are handles to the same credential.
///
/// The token is sent to the addresses of the store only, and never over plain http beyond this
/// machine. `Debug` does not show it. If a request has a token and a certificate, the store uses
/// the token alone.
#[derive(Clone, Default)]
pub struct Credentials {
    token: Option<Arc<Token>>,
    certificate: Option<ClientCertificate>,
}

struct Token {
    /// The file with the token, if the token comes from a file of its own.
    file: Option<PathBuf>,
    header: FileValue<HeaderValue>,
}

/// The reason why there is no token. It does not contain the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(String);

impl Credentials {
    /// Creates the default: no credential.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            token: None,
            certificate: None,
        }
    }

    /// Uses this token.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`] if the text is not a token.
    pub fn token(token: &str) -> Result<Self, CredentialsError> {
        Ok(Self::new(None, FileValue::fixed(header(token)?)))
    }

    /// Uses the token in this file. The file is read again every 10 s, and at once if the store
    /// refuses the token. While the file can't be read, the previous token stays in use.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`] if the file can't be read or contains no token.
    pub fn token_file(path: impl Into<PathBuf>) -> Result<Self, CredentialsError> {
        let path = path.into();
        let file = path.clone();
        let read = move || std::fs::read_to_string(&file).map_err(|error| error.to_string());
        let header = read_header(&path.display().to_string(), read)?;
        Ok(Self::new(Some(path), header))
    }

    /// Uses the token that `read` takes from a configuration file. It is read again like a
    /// [`token_file`](Self::token_file).
    #[cfg(feature = "config-file")]
    pub(crate) fn token_of(
        origin: &str,
        read: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Result<Self, CredentialsError> {
        let header = read_header(origin, read)?;
        Ok(Self::new(None, header))
    }

    fn new(file: Option<PathBuf>, header: FileValue<HeaderValue>) -> Self {
        Self {
            token: Some(Arc::new(Token { file, header })),
            certificate: None,
        }
    }

    /// Adds a client certificate.
    #[must_use]
    pub fn with_certificate(self, certificate: ClientCertificate) -> Self {
        Self {
            certificate: Some(certificate),
            ..self
        }
    }

    /// Returns whether there is a credential.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.token.is_some() || self.certificate.is_some()
    }

    /// Returns the client certificate, if there is one.
    #[must_use]
    pub const fn certificate(&self) -> Option<&ClientCertificate> {
        self.certificate.as_ref()
    }

    /// Checks that the credential may be sent to this address.
    ///
    /// # Errors
    ///
    /// The reason, with a valid alternative.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<(), String> {
        let url = endpoint.url();
        if self.certificate.is_some() && url.scheme() != "https" {
            return Err(format!(
                "{endpoint} is not an https address, and a client certificate is set, which needs one"
            ));
        }
        if self.token.is_none() {
            return Ok(());
        }
        if !url.username().is_empty() || url.password().is_some() {
            let text =
                "has a user, and a token is also set; a request has only one of them: remove one";
            return Err(format!("{endpoint} {text}"));
        }
        if url.scheme() == "http" && !is_loopback(url) {
            return Err(format!(
                "{endpoint} would get the token unencrypted; use https, or an address of this machine"
            ));
        }
        Ok(())
    }

    /// Returns the value of the header `Authorization`.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        Some(self.token.as_ref()?.header.get())
    }

    /// Reads the file again, and returns the value if it differs from `refused`.
    pub(crate) async fn header_after(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        let header = self.token.as_ref()?.header.read_now().await?;
        (header != *refused).then_some(header)
    }

    /// Returns the source of the credential for error messages.
    pub(crate) fn origin(&self) -> String {
        match (&self.token, &self.certificate) {
            (None, None) => {
                "no token is set: set token_file, TENURE_TOKEN_FILE or TENURE_TOKEN, or \
                 client_certificate"
                    .into()
            }
            (None, Some(certificate)) => {
                let file = certificate.certificate().display();
                format!("the client certificate is from {file}")
            }
            (Some(token), _) => match &token.file {
                Some(file) => format!("the token is from {}", file.display()),
                None => "the token is from the configuration".into(),
            },
        }
    }
}

/// Two credentials are equal if they are handles to the same credential.
impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        let has_same_token = match (&self.token, &other.token) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        has_same_token && self.certificate == other.certificate
    }
}

impl Eq for Credentials {}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token.as_ref().map(|token| &token.file) {
            None => f.write_str("Credentials(none"),
            Some(None) => f.write_str("Credentials(.."),
            Some(Some(file)) => write!(f, "Credentials({}", file.display()),
        }?;
        if let Some(certificate) = &self.certificate {
            write!(f, ", {}", certificate.certificate().display())?;
        }
        f.write_str(")")
    }
}

/// Reads a token with the function `read`, now and again later. `origin` is its place.
fn read_header(
    origin: &str,
    read: impl Fn() -> Result<String, String> + Send + Sync + 'static,
) -> Result<FileValue<HeaderValue>, CredentialsError> {
    let load = move |known: Option<&HeaderValue>| {
        let header = header(read()?.trim()).map_err(|CredentialsError(error)| error)?;
        Ok((known != Some(&header)).then_some(header))
    };
    FileValue::read("token", origin.into(), load)
        .map_err(|error| CredentialsError(format!("{origin}: {error}")))
}

fn header(token: &str) -> Result<HeaderValue, CredentialsError> {
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || token.len() > MAX_TOKEN_LEN || !is_visible {
        let text = format!("a token has 1 to {MAX_TOKEN_LEN} visible ASCII characters");
        return Err(CredentialsError(text));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|error| CredentialsError(error.to_string()))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns whether requests to this URL stay on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match ip_of(url) {
        Some(ip) => ip.is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

/// Returns the IP address in a URL; `None` if the URL contains a host name.
pub(crate) fn ip_of(url: &Url) -> Option<IpAddr> {
    let host = url
        .host_str()?
        .trim_start_matches('[')
        .trim_end_matches(']');
    host.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_https_and_to_this_machine_only() {
        let token = Credentials::token("tnr1_secret").unwrap();
        let check = |address: &str| token.check(&address.parse().unwrap());
        for address in [
            "https://store.lan:7400",
            "http://127.0.0.1:7400",
            "http://[::1]:7400",
            "http://localhost:7400",
        ] {
            assert_eq!(check(address), Ok(()), "{address}");
        }
        for address in [
            "http://10.0.0.5:7400",
            "http://store.lan:7400",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
        ] {
            let error = check(address).unwrap_err();
            assert!(error.contains("unencrypted"), "{error}");
            assert_eq!(Credentials::none().check(&address.parse().unwrap()), Ok(()));
        }
        assert!(
            check("https://user@store.lan")
                .unwrap_err()
                .contains("user")
        );
    }

    #[test]
    fn a_wrong_token_is_refused_and_no_text_shows_a_right_one() {
        for wrong in ["", "a b", "ä", "a\nb", &"x".repeat(MAX_TOKEN_LEN + 1)] {
            let error = Credentials::token(wrong).unwrap_err().to_string();
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        let token = Credentials::token("tnr1_secret").unwrap();
        let shown = format!("{token:?} {:?} {}", token.header(), token.origin());
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[tokio::test]
    async fn a_file_is_read_again_after_a_refusal() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let token = Credentials::token_file(&path).unwrap();
        let first = token.header().unwrap();
        assert_eq!(first, "Bearer one");
        assert_eq!(token.header_after(&first).await, None);
        std::fs::write(&path, "two").unwrap();
        assert_eq!(token.header().unwrap(), "Bearer one");
        assert_eq!(token.header_after(&first).await.unwrap(), "Bearer two");
        assert_eq!(token.header().unwrap(), "Bearer two");
        // A missing or empty file does not remove the previous token.
        std::fs::write(&path, "").unwrap();
        assert_eq!(token.header_after(&first).await.unwrap(), "Bearer two");
        let missing = Credentials::token_file(folder.path().join("no"));
        assert!(missing.unwrap_err().to_string().contains("/no: "));
    }
}
