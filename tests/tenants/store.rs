//! The store, its principals and what they have stored.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tenure_tests::access_file::{self, Principal};
use tenure_tests::client::id;
use tenure_tests::flood::{ACCOUNT, Attacker, Target, sas};
use tenure_tests::process::Process;
use tenure_tests::wait_for;
use tenure_tests::wire::{Endpoint, Wire, bearer};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The manifest whose limit of memory the store must keep to.
const MANIFEST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/kubernetes/base/stateful-set.yaml"
);

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Short,
    Long,
}

impl Scale {
    /// The number of leases and of blobs of the attacker.
    pub(crate) const fn stored(self) -> u64 {
        match self {
            Self::Short => 200,
            Self::Long => 6_000,
        }
    }

    /// The number of connections of an attacker: for a client without a credential in the long
    /// form more than one address may have.
    pub(crate) const fn connections(self, attacker: Attacker) -> usize {
        match (attacker, self) {
            (Attacker::Candidate, _) => 64,
            (Attacker::Stranger, Self::Short) => 200,
            (Attacker::Stranger, Self::Long) => 1_500,
        }
    }
}

pub(crate) struct Store {
    process: Process,
    pub(crate) endpoint: Endpoint,
    /// The tokens of the leaders and of the attacker.
    pub(crate) leader: String,
    pub(crate) candidate: String,
    _folder: TempDir,
}

impl Store {
    pub(crate) fn start(over_tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| {
            folder
                .path()
                .join(name)
                .to_str()
                .expect("a path")
                .to_owned()
        };
        let write = |name: &str, text: &str| {
            access_file::write(path(name).as_ref(), text).expect("a file");
        };
        let leader = Principal::new("leader", "candidate", "led");
        let candidate = Principal::new("candidate", "candidate", "other");
        let (one, other) = (leader.with_token(), candidate.with_token());
        write("access.toml", &format!("version = 1\n{one}{other}"));
        let (access, data) = (path("access.toml"), path("data"));
        let (certificate, key) = (path("certificate"), path("key"));
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--azure-dev"];
        arguments.extend(["--access", &access, "--data-dir", &data]);
        let mut tls = None;
        if over_tls {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
            let made = made.expect("a certificate");
            write("certificate", &made.cert.pem());
            write("key", &made.signing_key.serialize_pem());
            arguments.extend(["--tls-certificate", &certificate, "--tls-key", &key]);
            tls = Some(client_config(&made.cert.pem()));
        }
        let process = Process::start(&arguments);
        let address = wait_for("the store", || {
            let stdout = process.stdout();
            let line = stdout.lines().next()?.strip_prefix("listening on ")?;
            line.rsplit('/').next()?.parse().ok()
        });
        Self {
            process,
            endpoint: Endpoint { address, tls },
            leader: leader.token().to_owned(),
            candidate: candidate.token().to_owned(),
            _folder: folder,
        }
    }

    /// The target of an attack.
    pub(crate) fn target(&self, scale: Scale) -> Target {
        Target {
            store: self.endpoint.clone(),
            token: self.candidate.clone(),
            stored: scale.stored(),
        }
    }

    /// Stores leases of the attacker with the largest metadata, and as many blobs, whose metadata
    /// takes five times as much in XML.
    pub(crate) fn fill(&self, scale: Scale) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let mut wire = Wire::connect(&self.endpoint, 1)
                .await
                .expect("a connection");
            let sas = sas();
            let container = format!("/{ACCOUNT}/stored?restype=container&{sas}");
            wire.ask("PUT", &container, "", None)
                .await
                .expect("a container");
            for number in 0..scale.stored() {
                let body = json!({"lease_id": id(number), "holder": "c", "duration_ms": 3_600_000,
                    "metadata": {"k": "x".repeat(4_000)}});
                let path = format!("/v1/namespaces/other/leases/l{number}/acquire");
                let token = bearer(&self.candidate);
                let acquired = wire
                    .ask("POST", &path, &token, Some(&body.to_string()))
                    .await;
                assert_eq!(acquired.expect("an answer"), 200);
                let path = format!("/{ACCOUNT}/stored/b{number}?{sas}");
                let metadata = format!(
                    "x-ms-blob-type: BlockBlob\r\nx-ms-meta-k: {}\r\n",
                    "&".repeat(6_000)
                );
                let stored = wire.ask("PUT", &path, &metadata, Some("")).await;
                assert_eq!(stored.expect("an answer"), 201);
            }
        });
    }

    /// Returns the most memory that the process had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid()));
        let status = status.expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.expect("a number") << 10
    }
}

/// Returns the memory limit of the manifest, in bytes.
pub(crate) fn memory_limit() -> u64 {
    let manifest = fs::read_to_string(MANIFEST).expect("a manifest");
    let limit = manifest.lines().find_map(|line| {
        let limit = line.trim().strip_prefix("limits: {memory: ")?;
        limit.strip_suffix("Gi}")?.parse::<u64>().ok()
    });
    limit.expect("a limit in Gi") << 30
}

fn client_config(certificate: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    roots
        .add(certificate.expect("a certificate"))
        .expect("a root");
    let config = ClientConfig::builder().with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}
