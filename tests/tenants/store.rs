//! The store, its principals and what they have stored.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;
use tenure_server::access::Secret;
use tenure_tests::client::id;
use tenure_tests::process::Process;
use tenure_tests::wait_for;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::wire::{Wire, percent};

/// The account of emulators, whose key is public.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

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

    /// The number of connections of a client without a credential: in the long form more than one
    /// address may have.
    pub(crate) const fn strangers(self) -> usize {
        match self {
            Self::Short => 200,
            Self::Long => 1_500,
        }
    }
}

pub(crate) struct Store {
    process: Process,
    address: SocketAddr,
    pub(crate) tls: Option<TlsConnector>,
    /// The tokens of the leaders and of the attacker.
    pub(crate) leader: String,
    pub(crate) candidate: String,
    /// A shared access signature of the attacker for all that Azure clients do.
    pub(crate) sas: String,
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
            fs::write(path(name), text).expect("a file");
            let private = Permissions::from_mode(0o600);
            fs::set_permissions(path(name), private).expect("a file");
        };
        let principal = |name: &str, namespace: &str| {
            let token = Secret::generate();
            let text = format!(
                "[[principal]]\nname = {name:?}\n\
                 grants = [{{ role = \"candidate\", namespace = {namespace:?} }}]\n\
                 [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
                token.id(),
                token.hash()
            );
            (token.reveal().to_owned(), text)
        };
        let (leader, one) = principal("leader", "led");
        let (candidate, other) = principal("candidate", "other");
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
            tls = Some(connector(&made.cert.pem()));
        }
        let process = Process::start(&arguments);
        let address = wait_for("the store", || {
            let stdout = process.stdout();
            let line = stdout.lines().next()?.strip_prefix("listening on ")?;
            line.rsplit('/').next()?.parse().ok()
        });
        Self {
            process,
            address,
            tls,
            leader,
            candidate,
            sas: sas(),
            _folder: folder,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stores leases of the attacker with the largest metadata, and as many blobs, whose metadata
    /// takes five times as much in XML.
    pub(crate) fn fill(self: &Arc<Self>, scale: Scale) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let mut wire = Wire::connect(self, 1).await.expect("a connection");
            let container = format!("/{ACCOUNT}/stored?restype=container&{}", self.sas);
            wire.ask("PUT", &container, "", None)
                .await
                .expect("a container");
            for number in 0..scale.stored() {
                let body = json!({"lease_id": id(number), "holder": "c", "duration_ms": 3_600_000,
                    "metadata": {"k": "x".repeat(4_000)}});
                let path = format!("/v1/namespaces/other/leases/l{number}/acquire");
                let token = self.bearer(&self.candidate);
                let acquired = wire
                    .ask("POST", &path, &token, Some(&body.to_string()))
                    .await;
                assert_eq!(acquired.expect("an answer"), 200);
                let path = format!("/{ACCOUNT}/stored/b{number}?{}", self.sas);
                let metadata = format!(
                    "x-ms-blob-type: BlockBlob\r\nx-ms-meta-k: {}\r\n",
                    "&".repeat(6_000)
                );
                let stored = wire.ask("PUT", &path, &metadata, Some("")).await;
                assert_eq!(stored.expect("an answer"), 201);
            }
        });
    }

    /// Returns the header of a token.
    pub(crate) fn bearer(&self, token: &str) -> String {
        format!("authorization: Bearer {token}\r\n")
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

/// Raises the limit of open files to this number, and returns whether that is possible.
pub(crate) fn may_open(files: u64) -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return false;
    };
    soft >= files
        || setrlimit(Resource::RLIMIT_NOFILE, files.min(hard), hard).is_ok() && hard >= files
}

fn connector(certificate: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    roots
        .add(certificate.expect("a certificate"))
        .expect("a root");
    let config = ClientConfig::builder().with_root_certificates(roots);
    TlsConnector::from(Arc::new(config.with_no_client_auth()))
}

/// Returns a shared access signature of the account, for all operations until the year 2100.
fn sas() -> String {
    let parameters = [
        ("sp", "rwdlac"),
        ("ss", "b"),
        ("srt", "sco"),
        ("st", ""),
        ("se", "2100-01-01T00:00:00Z"),
        ("sip", ""),
        ("spr", ""),
        ("sv", "2018-11-09"),
    ];
    let lines = std::iter::once(ACCOUNT).chain(parameters.map(|(_, value)| value));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let key = BASE64_STANDARD.decode(KEY).expect("a key");
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
    let given = parameters
        .into_iter()
        .filter(|(_, value)| !value.is_empty());
    let query = given.map(|(name, value)| format!("{name}={}", percent(value)));
    let query = query.collect::<Vec<_>>().join("&");
    format!(
        "{query}&sig={}",
        percent(&BASE64_STANDARD.encode(signature))
    )
}
