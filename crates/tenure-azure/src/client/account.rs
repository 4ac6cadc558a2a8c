//! A storage account: its address, and the credential that authorises requests.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::{self, DATE_HEADER, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Request, Url};

use super::blob::AzureBlobError;

/// The storage account of a blob, with the credential of this candidate: a key of the account, or a
/// shared access signature. `Debug` shows neither of them.
#[derive(Clone)]
pub struct AzureAccount {
    pub(super) url: Url,
    credential: Credential,
}

#[derive(Clone)]
enum Credential {
    /// A key that signs each request.
    Key {
        account: String,
        key: Arc<hmac::Key>,
    },
    /// A signature that is appended to the query of each URL.
    Signature(String),
}

impl AzureAccount {
    /// Creates an account with one of its keys, in base64. The key allows every operation in the
    /// account.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`] if the name or the key is not valid.
    pub fn with_key(account: &str, key: &str) -> Result<Self, AzureBlobError> {
        let url = parsed(&Self::public_url(account)?, "AccountName")?;
        let bytes = BASE64_STANDARD.decode(key.trim());
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes.ok_or(AzureBlobError::Key)?);
        let (account, key) = (account.into(), key.into());
        let credential = Credential::Key { account, key };
        Ok(Self { url, credential })
    }

    /// Creates an account with a shared access signature, which is the part after the `?` of the
    /// URL from the service, such as `sv=2022-11-02&sr=c&sp=rcw&se=2027-01-01&sig=...`. It must
    /// grant read (`r`) and write (`w`), and create (`c`) unless the blob exists. `url` is the URL
    /// of the account's blob service, as for [`with_url`](Self::with_url).
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`] if the URL is not the URL of a blob service, or the signature is not
    /// valid.
    pub fn with_signature(url: &str, signature: &str) -> Result<Self, AzureBlobError> {
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
        let url = service_url(url)?;
        let credential = Credential::Signature(signature.into());
        Ok(Self { url, credential })
    }

    /// Reads an account from a connection string, as the portal and the SDKs show it: `AccountName`
    /// with `AccountKey`, or `SharedAccessSignature`; `BlobEndpoint`, or `DefaultEndpointsProtocol`
    /// and `EndpointSuffix`; or `UseDevelopmentStorage=true` for an emulator on this machine, at
    /// port 10000. Settings of other services are ignored.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`] if a part is missing or not valid.
    pub fn with_connection_string(text: &str) -> Result<Self, AzureBlobError> {
        let parts = text.split(';').filter_map(|part| part.split_once('='));
        let parts: Vec<(&str, &str)> = parts
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let part = |name: &str| {
            let named = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(name);
            parts.iter().find(named).map(|(_, value)| *value)
        };
        if part("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let url = format!("http://127.0.0.1:10000/{DEVELOPMENT_ACCOUNT}");
            return Self::with_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)?.with_url(&url);
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
            (Some(signature), _) => Self::with_signature(url.as_str(), signature),
            (None, Some(key)) => {
                let account = account.ok_or(AzureBlobError::Part("AccountName"))?;
                Self::with_key(account, key)?.with_url(url.as_str())
            }
            (None, None) => Err(AzureBlobError::Part("AccountKey")),
        }
    }

    /// Sets another URL. Its path must contain the name of the account unless the host name
    /// contains it, such as `http://127.0.0.1:7400/devstoreaccount1`. Default:
    /// `https://ACCOUNT.blob.core.windows.net`.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError::Url`] if `url` is not the URL of a blob service.
    pub fn with_url(self, url: &str) -> Result<Self, AzureBlobError> {
        let url = service_url(url)?;
        Ok(Self { url, ..self })
    }

    /// Returns the URL of an account's blob service in Azure's public cloud.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError::Account`] if `account` is not the name of an account.
    pub fn public_url(account: &str) -> Result<String, AzureBlobError> {
        check_name(account)?;
        Ok(format!("https://{account}.blob.core.windows.net"))
    }

    /// Returns whether an eavesdropper could reuse the credential. This is so if a signature is
    /// sent over plain http.
    pub(super) fn exposes_signature(&self) -> bool {
        matches!(self.credential, Credential::Signature(_)) && self.url.scheme() == "http"
    }

    /// Returns the resource's URL with this query, and with the shared access signature if there is
    /// one.
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

    /// Adds the date and the signature to a request, which must be otherwise complete.
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
    protocol::text_to_sign(
        request.method().as_str(),
        account,
        request.url().path(),
        request.headers(),
        protocol::collate,
        query.iter().copied(),
    )
}

/// The end of the year 9999, as the time since 1970.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// Limits a time to the range of an HTTP date.
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

/// Parses the URL of a blob service: its path has at most the name of the account.
fn service_url(text: &str) -> Result<Url, AzureBlobError> {
    // The parts after `?` and before `@` may be secrets.
    let shown = || {
        let text = text.split(['?', '#']).next().unwrap_or_default();
        match (text.split_once("://"), text.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
            _ => text.to_owned(),
        }
    };
    let url = Url::parse(text).map_err(|_| AzureBlobError::Url(shown()))?;
    let segments = url.path().split('/').filter(|segment| !segment.is_empty());
    let is_service = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && segments.count() <= 1;
    if is_service {
        Ok(url)
    } else {
        Err(AzureBlobError::Url(shown()))
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
    fn a_wall_clock_far_in_the_past_or_future_still_gives_a_date() {
        let date = |time| httpdate::fmt_http_date(date_of(time));
        let (second, eternity) = (Duration::from_secs(1), Duration::from_secs(1 << 40));
        assert_eq!(date(UNIX_EPOCH - second), date(UNIX_EPOCH));
        let last = "Fri, 31 Dec 9999 23:59:59 GMT";
        assert_eq!(date(UNIX_EPOCH + eternity), last);
        assert_eq!(date(UNIX_EPOCH + LAST_DATE), last);
    }
}
