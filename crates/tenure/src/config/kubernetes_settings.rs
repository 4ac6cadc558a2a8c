//! The settings of the table `[kubernetes]`.

use std::path::{Path, PathBuf};

use super::candidate::Config;
use super::kubernetes::{SERVICE_ACCOUNT, namespace_of_pod, server_of_pod};
use super::settings::{ConfigError, Settings};
use super::{KubernetesLease, KubernetesLeaseError};
use crate::http::credentials::Credentials;

const URL: &str = "kubernetes.url";
const NAMESPACE: &str = "kubernetes.namespace";
const LEASE: &str = "kubernetes.lease";
const TOKEN_FILE: &str = "kubernetes.token_file";
const CA_FILE: &str = "kubernetes.ca_file";

/// Returns the object of these settings, for a candidate with this configuration.
pub(super) fn of_settings(
    settings: &Settings,
    config: &Config,
) -> Result<KubernetesLease, ConfigError> {
    let of_pod = |key, reason: String| {
        let reason = format!("this is no pod of a Kubernetes cluster ({reason}): set it");
        ConfigError::missing(key, reason)
    };
    let server = match settings.parse(URL)? {
        Some(server) => server,
        None => server_of_pod().map_err(|reason| of_pod(URL, reason))?,
    };
    let namespace = match settings.text(NAMESPACE)? {
        Some(namespace) => namespace.to_owned(),
        None => namespace_of_pod().map_err(|reason| of_pod(NAMESPACE, reason))?,
    };
    let election = &config.election;
    // Two elections with the same name in two namespaces must not share an object.
    let name = match settings.text(LEASE)? {
        Some(name) => name.to_owned(),
        None => format!("{}.{}", election.namespace, election.name),
    };
    let invalid = |error: KubernetesLeaseError| {
        let key = match error {
            KubernetesLeaseError::Namespace(_) => NAMESPACE,
            KubernetesLeaseError::Server(_) => URL,
            KubernetesLeaseError::Certificate { .. } => CA_FILE,
            KubernetesLeaseError::LockDelay(_) => "lock_delay",
            KubernetesLeaseError::Duration(_) => "lease_duration",
            _ if settings.origin(LEASE).is_some() => LEASE,
            _ => {
                let reason = format!("{error}; name another one as {LEASE}");
                return settings.invalid("election", reason);
            }
        };
        settings.invalid(key, error.to_string())
    };
    let mut lease = KubernetesLease::new(server, &namespace, &name).map_err(invalid)?;
    lease
        .check(&config.timings, config.lock_delay)
        .map_err(invalid)?;
    if let Some(path) = file(settings, CA_FILE, "ca.crt")? {
        let path = path.to_string_lossy();
        lease = lease.with_certificate_file(&path).map_err(invalid)?;
    }
    settings.secret_path(TOKEN_FILE)?;
    if let Some(path) = file(settings, TOKEN_FILE, "token")? {
        let token = Credentials::token_file(path)
            .map_err(|error| settings.invalid(TOKEN_FILE, error.to_string()))?;
        lease = lease.with_credentials(token).map_err(invalid)?;
    }
    Ok(lease)
}

/// Returns the file of this setting, or that of the pod if there is one. An empty text stands for
/// no file.
fn file(settings: &Settings, key: &str, of_pod: &str) -> Result<Option<PathBuf>, ConfigError> {
    if settings.origin(key).is_some() {
        return settings.path(key);
    }
    let path = Path::new(SERVICE_ACCOUNT).join(of_pod);
    Ok(path.exists().then_some(path))
}
