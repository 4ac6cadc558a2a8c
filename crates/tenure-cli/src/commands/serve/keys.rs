//! The keys of the authorities whose tokens the store accepts: fetched from time to time, and when
//! a token has a key that is not known.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use reqwest::{Certificate, Client};
use serde_json::Value;
use tenure_server::access::{Access, Issuer, KeySource};
use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

/// The interval at which keys are fetched: an authority announces a new key long before it uses it.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The shortest interval for tokens with unknown keys, which any client can send.
const LEAST_INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 1024 * 1024;

/// The files of a pod's service account.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const KUBERNETES: &str = "https://kubernetes.default.svc";

/// The form of a right key set.
const KEY_SET: &str = "it must be a JSON Web Key Set, such as {\"keys\": [{\"kty\": \"RSA\", ...}]}, with \
                       public keys of signatures";

/// Keys as an authority gives them.
#[derive(PartialEq, Eq)]
struct Fetched {
    key_set: String,
    /// The claim `iss`, if the access file does not name it.
    issuer: Option<String>,
}

/// Fetches the keys of all authorities, and goes on doing so, also on SIGHUP.
pub(super) async fn keep_fresh(access: Access, mut hangup: Signal) {
    let mut known = HashMap::new();
    fetch_all(&access, &mut known).await;
    tokio::spawn(async move {
        loop {
            let fetched_at = Instant::now();
            let issuers = access.issuers();
            tokio::select! {
                () = sleep(INTERVAL) => {}
                Some(()) = hangup.recv() => {}
                () = access.keys_wanted() => {
                    // A changed access file may name another authority, which has no keys yet.
                    if access.issuers() == issuers {
                        sleep_until(fetched_at + LEAST_INTERVAL).await;
                    }
                }
            }
            fetch_all(&access, &mut known).await;
        }
    });
}

async fn fetch_all(access: &Access, known: &mut HashMap<String, Fetched>) {
    let issuers = access.issuers();
    let id = |issuer: &Issuer| format!("{issuer:?}");
    // An authority that the access file names again has no keys.
    known.retain(|known, _| issuers.iter().any(|issuer| id(issuer) == *known));
    for issuer in &issuers {
        let name = &issuer.name;
        let replaced = match fetch(issuer).await {
            // The same keys again would only make the store check tokens again.
            Ok(fetched) if known.get(&id(issuer)) == Some(&fetched) => continue,
            Ok(fetched) => access
                .replace_keys(name, &fetched.key_set, fetched.issuer.as_deref())
                .map_err(|error| anyhow!("{}: {error}; {KEY_SET}", location(&issuer.keys)))
                .map(|()| fetched),
            Err(error) => Err(error),
        };
        match replaced {
            Ok(fetched) => {
                info!(issuer = name, "keys of an authority are in force");
                known.insert(id(issuer), fetched);
            }
            Err(error) => {
                // The log then says when the keys are right again.
                known.remove(&id(issuer));
                warn!(
                    issuer = name,
                    error = format!("{error:#}"),
                    "no new keys of an authority, keeping those before"
                );
            }
        }
    }
}

fn location(keys: &KeySource) -> String {
    match keys {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Url(url, _) => url.clone(),
        _ => KUBERNETES.into(),
    }
}

async fn fetch(issuer: &Issuer) -> anyhow::Result<Fetched> {
    let fetched = |key_set| Fetched {
        key_set,
        issuer: None,
    };
    match &issuer.keys {
        KeySource::File(path) => Ok(fetched(read(path)?)),
        KeySource::Url(url, ca_file) => {
            let client = client(ca_file.as_deref())?;
            Ok(fetched(get(client.get(url)).await?))
        }
        KeySource::Kubernetes => {
            let pod = Path::new(POD);
            let token = read(&pod.join("token"))?;
            let token = token.trim();
            let client = client(Some(&pod.join("ca.crt")))?;
            let url = format!("{KUBERNETES}/openid/v1/jwks");
            Ok(Fetched {
                key_set: get(client.get(url).bearer_auth(token)).await?,
                issuer: issuer_of(token),
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
            let certificates = Certificate::from_pem_bundle(read(path)?.as_bytes())?;
            builder.tls_certs_only(certificates)
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

/// The claim `iss` of this pod's own token: the API server vouches for all with the same.
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
mod tests {
    use super::*;

    #[test]
    fn the_issuer_is_that_of_the_pods_own_token() {
        // {"iss":"https://kubernetes.default.svc.cluster.local","sub":"x"}
        let payload = "eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMuY2x1c3Rlci5sb2NhbCIsInN1YiI6IngifQ";
        let issuer = issuer_of(&format!("e30.{payload}.x"));
        assert_eq!(
            issuer.as_deref(),
            Some("https://kubernetes.default.svc.cluster.local")
        );
        for wrong in ["", "a", "a.b", "e30.e30.x", "e30.!.x"] {
            assert_eq!(issuer_of(wrong), None, "{wrong}");
        }
    }
}
