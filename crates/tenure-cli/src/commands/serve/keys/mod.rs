//! The keys of the authorities whose tokens the store accepts. The keys are fetched at an interval,
//! and when a token names an unknown key.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use reqwest::{Certificate, Client};
use serde_json::Value;
use tenure_core::pem;
use tenure_server::access::{Access, Issuer, KeySource, check_key_set, read_keys};
use tokio::signal::unix::Signal;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

/// The interval at which keys are fetched. An authority announces a new key long before it uses the
/// key.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The shortest interval at which keys are fetched because of tokens with unknown keys. Any client
/// can send such tokens.
const LEAST_INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which the start of the store waits for the first keys. Leaders with tokens of the
/// access file renew their leases during this time, so an authority that does not answer must not
/// delay the start for longer.
const START_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BYTES: usize = 1024 * 1024;

/// The form of a valid key set.
const KEY_SET: &str = "it must be a JSON Web Key Set, such as {\"keys\": [{\"kty\": \"RSA\", ...}]}, with \
                       public keys of signatures";

/// The task that fetches the keys of the authorities in an access file.
pub(super) struct KeyFetcher {
    access: Access,
    pod: Pod,
    least_interval: Duration,
    /// The authorities whose last keys were not usable.
    failed: HashSet<String>,
}

/// The pod in which the store runs, as Kubernetes sets it up.
#[derive(Clone, Debug)]
struct Pod {
    /// The directory with the files of its service account.
    folder: PathBuf,
    api_server: String,
}

/// The keys that an authority returned.
struct Fetched {
    key_set: String,
    /// The claim `iss`, if the access file does not name the claim.
    claim: Option<String>,
}

impl KeyFetcher {
    pub(super) fn new(access: Access) -> Self {
        let pod = Pod {
            folder: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
            api_server: "https://kubernetes.default.svc".into(),
        };
        Self {
            access,
            pod,
            least_interval: LEAST_INTERVAL,
            failed: HashSet::new(),
        }
    }

    /// Fetches the keys of all authorities now, repeatedly, and on SIGHUP.
    pub(super) async fn start(mut self, mut hangup: Signal) {
        let (done, fetched) = oneshot::channel();
        tokio::spawn(async move {
            let (mut at, mut issuers) = (Instant::now(), self.access.issuers());
            self.fetch(&issuers).await;
            let _ = done.send(());
            loop {
                self.wait(at, &issuers, &mut hangup).await;
                (at, issuers) = (Instant::now(), self.access.issuers());
                self.fetch(&issuers).await;
            }
        });
        let _ = timeout(START_TIMEOUT, fetched).await;
    }

    /// Waits until the keys must be fetched again.
    async fn wait(&self, fetched_at: Instant, issuers: &[Issuer], hangup: &mut Signal) {
        tokio::select! {
            Some(()) = hangup.recv() => return,
            () = sleep_until(fetched_at + INTERVAL) => return,
            () = self.access.keys_wanted() => {}
        }
        // A changed access file may name another authority, whose keys were not fetched yet.
        while self.access.issuers() == issuers {
            tokio::select! {
                Some(()) = hangup.recv() => return,
                () = sleep_until(fetched_at + self.least_interval) => return,
                () = self.access.keys_wanted() => {}
            }
        }
    }

    /// Fetches the keys of these authorities concurrently, so that an authority that does not
    /// answer delays no other.
    async fn fetch(&mut self, issuers: &[Issuer]) {
        let mut fetches = JoinSet::new();
        for issuer in issuers.iter().cloned() {
            let pod = self.pod.clone();
            fetches.spawn(async move { (fetch(&issuer, &pod).await, issuer) });
        }
        while let Some(Ok((fetched, issuer))) = fetches.join_next().await {
            let replaced = fetched.and_then(|Fetched { key_set, claim }| {
                let replaced = self
                    .access
                    .replace_keys(&issuer, &key_set, claim.as_deref());
                let location = self.pod.location(&issuer.keys);
                replaced.map_err(|error| anyhow!("{location}: {error}; {KEY_SET}"))
            });
            if replaced.is_err() {
                self.access.note_failed_fetch(&issuer);
            }
            let issuer = issuer.name;
            match replaced {
                Ok(has_changed) => {
                    if self.failed.remove(&issuer) || has_changed {
                        info!(issuer, "keys of an authority are in force");
                    }
                }
                Err(error) => {
                    warn!(
                        issuer,
                        error = format!("{error:#}"),
                        "no new keys of an authority, keeping those before"
                    );
                    self.failed.insert(issuer);
                }
            }
        }
    }
}

/// Checks the files that the access file names for this authority.
pub(crate) fn check_files(issuer: &Issuer) -> anyhow::Result<()> {
    match &issuer.keys {
        KeySource::File(path) => {
            let checked = check_key_set(&read_keys(path)?);
            checked.map_err(|error| anyhow!("key_set_file {}: {error}; {KEY_SET}", path.display()))
        }
        KeySource::Url(_, Some(ca_file)) => {
            client(Some(ca_file)).context("ca_file")?;
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Pod {
    /// Returns the location of these keys for error messages.
    fn location(&self, keys: &KeySource) -> String {
        match keys {
            KeySource::File(path) => path.display().to_string(),
            KeySource::Url(url, _) => url.clone(),
            _ => self.api_server.clone(),
        }
    }
}

async fn fetch(issuer: &Issuer, pod: &Pod) -> anyhow::Result<Fetched> {
    let fetched = |key_set| Fetched {
        key_set,
        claim: None,
    };
    match &issuer.keys {
        KeySource::File(path) => Ok(fetched(read_keys(path)?)),
        KeySource::Url(url, ca_file) => {
            let client = client(ca_file.as_deref())?;
            Ok(fetched(get(client.get(url)).await?))
        }
        KeySource::Kubernetes => {
            // Kubernetes replaces both files, so the store reads them each time.
            let token = read(&pod.folder.join("token"))?;
            let token = token.trim();
            let client = client(Some(&pod.folder.join("ca.crt")))?;
            let url = format!("{}/openid/v1/jwks", pod.api_server);
            Ok(Fetched {
                key_set: get(client.get(url).bearer_auth(token)).await?,
                claim: issuer_of(token),
            })
        }
        _ => anyhow::bail!("this source of keys is not known"),
    }
}

fn client(ca_file: Option<&Path>) -> anyhow::Result<Client> {
    let builder = Client::builder()
        .timeout(TIMEOUT)
        .https_only(true)
        .redirect(reqwest::redirect::Policy::none());
    let builder = match ca_file {
        Some(path) => {
            let text = read(path)?;
            let authorities = pem::authorities(text.as_bytes());
            let authorities = authorities.with_context(|| path.display().to_string())?;
            let certificates = authorities.iter().map(|it| Certificate::from_der(&it.der));
            builder.tls_certs_only(certificates.collect::<Result<Vec<_>, _>>()?)
        }
        None => builder,
    };
    Ok(builder.build()?)
}

async fn get(request: reqwest::RequestBuilder) -> anyhow::Result<String> {
    let mut response = request.send().await?.error_for_status()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        ensure!(
            body.len() <= MAX_BYTES,
            "the key set has more than {MAX_BYTES} bytes"
        );
    }
    String::from_utf8(body).context("the key set is not UTF-8")
}

/// Returns the claim `iss` of this pod's own token. The API server issues all tokens with the same
/// claim.
fn issuer_of(token: &str) -> Option<String> {
    let payload = base64url(token.split('.').nth(1)?)?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    Some(claims.get("iss")?.as_str()?.to_owned())
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::from(digit(byte)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

#[cfg(test)]
mod tests;
