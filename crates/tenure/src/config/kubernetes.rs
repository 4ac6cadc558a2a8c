//! The `Lease` object of a Kubernetes cluster.

use std::fmt;
use std::time::Duration;

use tenure_core::lease::candidate::Timings;

use crate::http::credentials::{Credentials, CredentialsError};
use crate::http::root_certificates::RootCertificates;
use crate::http::store::Endpoint;

/// The folder that Kubernetes mounts into each pod, with the credential of its service account.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// The longest name of a Kubernetes namespace.
const MAX_NAMESPACE: usize = 63;

/// A `Lease` object (`coordination.k8s.io/v1`) of a Kubernetes cluster, for which the candidates of
/// an election compete. All of them must name the same object and have the same lease duration. The
/// object is created if it does not exist.
///
/// Programs that elect by client-go may compete for the same object: they and these candidates
/// never lead at once.
///
/// # Examples
///
/// ```
/// use tenure::config::KubernetesLease;
///
/// // With `kubectl proxy`, which adds the credential. `in_cluster` is for a program in a pod.
/// let server = "http://127.0.0.1:8001".parse()?;
/// let lease = KubernetesLease::new(server, "jobs", "nightly")?;
/// assert_eq!(lease.to_string(), "jobs/nightly at http://127.0.0.1:8001/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KubernetesLease {
    pub(crate) server: Endpoint,
    namespace: String,
    name: String,
    pub(crate) credentials: Credentials,
    pub(crate) roots: RootCertificates,
}

/// The reason why the settings allow no election by this object. The configuration must change. The
/// text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubernetesLeaseError {
    /// The program does not run in a pod, or the pod has no service account.
    #[error("this is no pod of a Kubernetes cluster: {0}")]
    NotInCluster(String),
    /// This is not a valid name of a Kubernetes namespace.
    #[error(
        "{0:?} is not a Kubernetes namespace: write 1 to 63 lower-case letters, digits and hyphens"
    )]
    Namespace(String),
    /// This is not a valid name of an object.
    #[error(
        "{0:?} is not the name of a Lease object: write 1 to 253 lower-case letters, digits, hyphens and \
         dots, with a letter or a digit at the beginning and at the end of each part between dots"
    )]
    Name(String),
    /// The address must not get the token.
    #[error("{0}")]
    Server(String),
    /// The token can't be read.
    #[error(transparent)]
    Token(#[from] CredentialsError),
    /// The certificate of the cluster can't be read.
    #[error("{path}: {reason}")]
    Certificate {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The object has the lease duration in whole seconds.
    #[error("a Kubernetes Lease lasts whole seconds, and the lease duration is {0:?}")]
    Duration(Duration),
    /// A `Lease` object has no lock delay. An object that has expired can be taken at once.
    #[error("a Kubernetes Lease has no lock delay, and lock_delay is {0:?}: remove it")]
    LockDelay(Duration),
}

impl KubernetesLease {
    /// Creates the object of this name in this Kubernetes namespace, without a credential.
    ///
    /// # Errors
    ///
    /// [`KubernetesLeaseError`] if one of the names is not valid.
    pub fn new(
        server: Endpoint,
        namespace: &str,
        name: &str,
    ) -> Result<Self, KubernetesLeaseError> {
        if namespace.len() > MAX_NAMESPACE || !is_label(namespace) {
            return Err(KubernetesLeaseError::Namespace(namespace.into()));
        }
        if name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(KubernetesLeaseError::Name(name.into()));
        }
        Ok(Self {
            server,
            namespace: namespace.into(),
            name: name.into(),
            credentials: Credentials::none(),
            roots: RootCertificates::system(),
        })
    }

    /// Creates the object of this name in the namespace of the pod in which the program runs, with
    /// the credential of the pod's service account.
    ///
    /// # Errors
    ///
    /// [`KubernetesLeaseError`] if the program does not run in a pod, or the name is not valid.
    pub fn in_cluster(name: &str) -> Result<Self, KubernetesLeaseError> {
        let server = server_of_pod().map_err(KubernetesLeaseError::NotInCluster)?;
        let namespace = namespace_of_pod().map_err(KubernetesLeaseError::NotInCluster)?;
        Self::new(server, &namespace, name)?
            .with_certificate_file(&format!("{SERVICE_ACCOUNT}/ca.crt"))?
            .with_credentials(Credentials::token_file(format!("{SERVICE_ACCOUNT}/token"))?)
    }

    /// Sets the credential.
    ///
    /// # Errors
    ///
    /// [`KubernetesLeaseError::Server`] if the credential would be sent over plain http beyond this
    /// machine.
    pub fn with_credentials(self, credentials: Credentials) -> Result<Self, KubernetesLeaseError> {
        credentials
            .check(&self.server)
            .map_err(KubernetesLeaseError::Server)?;
        Ok(Self {
            credentials,
            ..self
        })
    }

    /// Sets the certificate of the cluster's authority; default: those of the operating system.
    #[must_use]
    pub fn with_root_certificates(self, roots: RootCertificates) -> Self {
        Self { roots, ..self }
    }

    /// Sets the certificate of the cluster's authority, from a PEM file.
    pub(super) fn with_certificate_file(self, path: &str) -> Result<Self, KubernetesLeaseError> {
        let roots = RootCertificates::of_file(path.into()).map_err(|reason| {
            let path = path.into();
            KubernetesLeaseError::Certificate { path, reason }
        })?;
        Ok(self.with_root_certificates(roots))
    }

    /// Returns the Kubernetes namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the object supports these timings.
    ///
    /// # Errors
    ///
    /// [`KubernetesLeaseError::Duration`] or [`KubernetesLeaseError::LockDelay`].
    pub fn check(
        &self,
        timings: &Timings,
        lock_delay: Duration,
    ) -> Result<(), KubernetesLeaseError> {
        let duration = timings.lease_duration();
        if duration.subsec_nanos() != 0 {
            return Err(KubernetesLeaseError::Duration(duration));
        }
        if !lock_delay.is_zero() {
            return Err(KubernetesLeaseError::LockDelay(lock_delay));
        }
        Ok(())
    }
}

/// Formats the object and the address of the API server, without secrets.
impl fmt::Display for KubernetesLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} at {}", self.namespace, self.name, self.server)
    }
}

/// Returns the address of the API server, from the variables that each container of a pod has.
pub(super) fn server_of_pod() -> Result<Endpoint, String> {
    let variable = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the variable {name} is not set"))
    };
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    server_at(&host, &port)
}

fn server_at(host: &str, port: &str) -> Result<Endpoint, String> {
    // An IPv6 address needs brackets in a URL.
    let url = match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
    };
    url.parse()
        .map_err(|error: crate::http::store::EndpointError| error.to_string())
}

/// Returns the namespace of the pod.
pub(super) fn namespace_of_pod() -> Result<String, String> {
    let path = format!("{SERVICE_ACCOUNT}/namespace");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.trim().to_owned())
}

/// Returns whether this is a label of RFC 1123, in lower case.
fn is_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| is_plain(*byte))
        && bytes.last().is_some_and(|byte| is_plain(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::lease::candidate::TimingsOptions;

    fn lease(namespace: &str, name: &str) -> Result<KubernetesLease, KubernetesLeaseError> {
        KubernetesLease::new("https://10.0.0.1".parse().unwrap(), namespace, name)
    }

    #[test]
    fn names_are_those_that_kubernetes_allows() {
        for (namespace, name) in [("jobs", "billing.nightly"), ("a-1", "0"), ("x", "a-b.c")] {
            assert!(lease(namespace, name).is_ok(), "{namespace}/{name}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "a..b",
            ".a",
            "A",
            "a_b",
            "a/b",
            &"a".repeat(254),
        ] {
            let error = lease("jobs", bad).unwrap_err();
            assert_eq!(error, KubernetesLeaseError::Name(bad.into()));
        }
        for bad in ["", "a.b", "Jobs", &"a".repeat(64)] {
            let error = lease(bad, "nightly").unwrap_err();
            assert_eq!(error, KubernetesLeaseError::Namespace(bad.into()));
        }
    }

    #[test]
    fn an_ipv6_address_of_the_api_server_gets_brackets() {
        let at = |host| server_at(host, "443").unwrap().to_string();
        assert_eq!(at("10.96.0.1"), "https://10.96.0.1/");
        assert_eq!(at("fd00::1"), "https://[fd00::1]/");
        assert!(server_at("10.96.0.1", "many").is_err());
    }

    #[test]
    fn only_whole_seconds_and_no_lock_delay_are_accepted() {
        let check = |millis, lock_delay| {
            let mut options = TimingsOptions::default();
            options.lease_duration = Some(Duration::from_millis(millis));
            let timings = Timings::new(&options).unwrap();
            lease("jobs", "nightly")
                .unwrap()
                .check(&timings, lock_delay)
        };
        assert_eq!(check(2_000, Duration::ZERO), Ok(()));
        let odd = Duration::from_millis(2_500);
        assert_eq!(
            check(2_500, Duration::ZERO),
            Err(KubernetesLeaseError::Duration(odd))
        );
        assert_eq!(check(2_000, odd), Err(KubernetesLeaseError::LockDelay(odd)));
    }

    #[test]
    fn a_token_is_not_sent_over_plain_http_to_another_machine() {
        let token = Credentials::token("secret").unwrap();
        let server = "http://10.0.0.1".parse().unwrap();
        let lease = KubernetesLease::new(server, "jobs", "nightly").unwrap();
        let error = lease.with_credentials(token).unwrap_err().to_string();
        assert!(
            error.contains("unencrypted") && !error.contains("secret"),
            "{error}"
        );
    }
}
