//! Where an account's blobs are, and how to be let in.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Request, Url};
use tenure_azure::protocol::{
    self, DATE_HEADER, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, SIGNED_HEADERS, SignedParts,
};

use super::blob::AzureBlobError;

/// The storage account of a blob, and what lets this candidate in: a key of the account, or a shared access
/// signature. `Debug` shows neither.
#[derive(Clone)]
pub struct AzureAccount {
    url: Url,
    credential: Credential,
}

#[derive(Clone)]
enum Credential {
    /// Signs each request.
    Key {
        account: String,
        key: Arc<hmac::Key>,
    },
    /// Stands in each URL.
    Signature(String),
}

impl AzureAccount {
    /// By one of the account's keys, in base64. Whoever has it may do everything in the account.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: there is no such account name or key.
    pub fn with_key(account: &str, key: &str) -> Result<Self, AzureBlobError> {
        let url = Self::public_url(account)?;
        let bytes = BASE64_STANDARD.decode(key.trim());
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes.ok_or(AzureBlobError::Key)?);
        let (account, key) = (account.into(), key.into());
        let credential = Credential::Key { account, key };
        Ok(Self { url, credential })
    }

    /// By a shared access signature: what follows the `?` of the URL that the service gave, such as
    /// `sv=2022-11-02&sr=c&sp=rcw&se=2027-01-01&sig=...`. It must allow to read (`r`) and to write (`w`), and
    /// to create (`c`) where the blob is not there yet.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: this is no address of a blob service, or no signature.
    pub fn with_signature(url: Url, signature: &str) -> Result<Self, AzureBlobError> {
        let signature = signature.trim().trim_start_matches('?');
        let has = |name: &str| {
            let mut pairs = signature.split('&');
            pairs.any(|pair| pair.strip_prefix(name).is_some_and(|rest| rest.len() > 1))
        };
        let is_query = signature
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !(has("sv") && has("sig") && is_query) {
            return Err(AzureBlobError::Signature);
        }
        let url = checked(url)?;
        let credential = Credential::Signature(signature.into());
        Ok(Self { url, credential })
    }

    /// As a connection string says, such as the portal and the SDKs have it: `AccountName` with `AccountKey`,
    /// or `SharedAccessSignature`; `BlobEndpoint`, or `DefaultEndpointsProtocol` and `EndpointSuffix`; or
    /// `UseDevelopmentStorage=true` for an emulator on this machine, at port 10000. What it says of other
    /// services is left alone.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: something is missing in it, or can't be.
    pub fn with_connection_string(text: &str) -> Result<Self, AzureBlobError> {
        let parts = text.split(';').filter_map(|part| part.split_once('='));
        let parts: Vec<(&str, &str)> = parts
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let part = |name: &str| {
            let mut found = parts
                .iter()
                .filter(|(known, _)| known.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| *value)
        };
        if part("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let url = format!("http://127.0.0.1:10000/{DEVELOPMENT_ACCOUNT}");
            return Self::with_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)?
                .at(parsed(&url, "BlobEndpoint")?);
        }
        let account = part("AccountName");
        let url = match (part("BlobEndpoint"), account) {
            (Some(url), _) => parsed(url, "BlobEndpoint")?,
            (None, Some(account)) => {
                check_name(account)?;
                let scheme = part("DefaultEndpointsProtocol").unwrap_or("https");
                let suffix = part("EndpointSuffix").unwrap_or("core.windows.net");
                parsed(
                    &format!("{scheme}://{account}.blob.{suffix}"),
                    "EndpointSuffix",
                )?
            }
            (None, None) => return Err(AzureBlobError::Part("AccountName")),
        };
        match (part("SharedAccessSignature"), part("AccountKey")) {
            (Some(signature), _) => Self::with_signature(url, signature),
            (None, Some(key)) => {
                let account = account.ok_or(AzureBlobError::Part("AccountName"))?;
                Self::with_key(account, key)?.at(url)
            }
            (None, None) => Err(AzureBlobError::Part("AccountKey")),
        }
    }

    /// At this address, with the account in the path where it is not in the host's name, such as
    /// `http://127.0.0.1:7400/devstoreaccount1`. Default: `https://ACCOUNT.blob.core.windows.net`.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError::Url`]: this is no address of a blob service.
    pub fn at(self, url: Url) -> Result<Self, AzureBlobError> {
        let url = checked(url)?;
        Ok(Self { url, ..self })
    }

    /// Where the account's blobs are in Azure's public cloud.
    pub(crate) fn public_url(account: &str) -> Result<Url, AzureBlobError> {
        check_name(account)?;
        parsed(&format!("https://{account}.blob.core.windows.net"), "")
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Whether whoever listens on the way could use what is sent.
    pub(super) fn is_open_to_listeners(&self) -> bool {
        matches!(self.credential, Credential::Signature(_)) && self.url.scheme() == "http"
    }

    /// The URL with this query, and with the signature if there is one.
    pub(super) fn url_of(&self, resource: &Url, query: &[(&str, &str)]) -> Url {
        let mut pairs: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if let Credential::Signature(signature) = &self.credential {
            pairs.push(signature.clone());
        }
        let mut url = resource.clone();
        url.set_query((!pairs.is_empty()).then(|| pairs.join("&")).as_deref());
        url
    }

    /// Dates and signs a request that is otherwise as it will be sent.
    pub(super) fn sign(&self, request: &mut Request, query: &[(&str, &str)]) {
        let date = httpdate::fmt_http_date(date_of(SystemTime::now()));
        let value = HeaderValue::try_from(date).expect("a date is visible ASCII");
        request
            .headers_mut()
            .insert(HeaderName::from_static(DATE_HEADER), value);
        let Credential::Key { account, key } = &self.credential else {
            return;
        };
        let signature = hmac::sign(key, &text_to_sign(request, account, query));
        let signature = BASE64_STANDARD.encode(signature);
        let mut value = HeaderValue::try_from(format!("SharedKey {account}:{signature}"))
            .expect("names and base64 are visible ASCII");
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
}

pub(super) fn text_to_sign(request: &Request, account: &str, query: &[(&str, &str)]) -> Vec<u8> {
    let headers = request.headers();
    let value = |name| Some(headers.get(name)?.as_bytes());
    let parts = SignedParts {
        method: request.method().as_str(),
        account,
        path: request.url().path(),
        headers: SIGNED_HEADERS.map(value),
    };
    let service = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-ms-"));
    let mut service: Vec<(&str, Vec<u8>)> = service
        .map(|(name, value)| (name.as_str(), value.as_bytes().trim_ascii().to_vec()))
        .collect();
    service.sort_by(|(a, _), (b, _)| protocol::collate(a, b));
    protocol::text_to_sign(&parts, &service, query.iter().copied())
}

/// The last second of the year 9999, since 1970.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// The time, or the nearest one that HTTP has a date for.
fn date_of(time: SystemTime) -> SystemTime {
    time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_DATE)
}

fn check_name(account: &str) -> Result<(), AzureBlobError> {
    if protocol::is_account(account) {
        return Ok(());
    }
    Err(AzureBlobError::Account(account.into()))
}

fn parsed(url: &str, part: &'static str) -> Result<Url, AzureBlobError> {
    Url::parse(url).map_err(|_| AzureBlobError::Part(part))
}

/// An address of a blob service: at most the account is in its path.
fn checked(mut url: Url) -> Result<Url, AzureBlobError> {
    let segments = url.path().split('/').filter(|segment| !segment.is_empty());
    let is_service = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && segments.count() <= 1;
    // A password is a secret, and what follows a `?` may be one.
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_password(None);
    if is_service {
        Ok(url)
    } else {
        Err(AzureBlobError::Url(url))
    }
}

impl fmt::Debug for AzureAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureAccount")
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_far_off_has_a_date_too() {
        let date = |time| httpdate::fmt_http_date(date_of(time));
        let (second, eternity) = (Duration::from_secs(1), Duration::from_secs(1 << 40));
        assert_eq!(date(UNIX_EPOCH - second), date(UNIX_EPOCH));
        let last = "Fri, 31 Dec 9999 23:59:59 GMT";
        assert_eq!(date(UNIX_EPOCH + eternity), last);
        assert_eq!(date(UNIX_EPOCH + LAST_DATE), last);
    }
}
