//! A candidate in a pod: the files and variables that Kubernetes gives to each container, and TLS.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use nix::sys::signal::Signal;
use tenure_tests::needs::{can_run, output_of};
use tenure_tests::process::{Process, command, output, stderr, tenure};
use tenure_tests::wait_for;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::{Bench, ELECTION, NAMESPACE, holder};

/// Mounts an empty folder over /run, copies the files of a pod there, and runs a command.
const IN_POD: &str = "mount -t tmpfs none /run && mkdir -p /var/run/secrets/kubernetes.io && \
                      cp -r \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";

/// TLS in front of an API server, with a certificate that may be replaced.
struct Front {
    address: SocketAddr,
    acceptor: watch::Sender<TlsAcceptor>,
}

/// Makes a certificate, and returns it in PEM.
fn make() -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    (
        TlsAcceptor::from(Arc::new(config.unwrap())),
        made.cert.pem(),
    )
}

impl Front {
    /// Returns the front of this address and its certificate, in PEM.
    async fn start(target: SocketAddr) -> (Self, String) {
        let (acceptor, certificate) = make();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, acceptors) = watch::channel(acceptor);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let mut acceptors = acceptors.clone();
                tokio::spawn(async move {
                    let acceptor = acceptors.borrow_and_update().clone();
                    let mut inside = TcpStream::connect(target).await?;
                    let mut outside = acceptor.accept(connection).await?;
                    tokio::select! {
                        copied = copy_bidirectional(&mut outside, &mut inside) => copied,
                        _ = acceptors.changed() => Ok((0, 0)),
                    }
                });
            }
        });
        let acceptor = sender;
        (Self { address, acceptor }, certificate)
    }
}

#[test]
fn a_candidate_in_a_pod_needs_no_settings_but_the_strategy() {
    let name = "a_candidate_in_a_pod_needs_no_settings_but_the_strategy";
    let can_mount =
        output_of(Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/run"]));
    let needs = "to mount a folder over /run (root, and the program unshare)";
    if !can_run(name, needs, can_mount.is_some()) {
        return;
    }
    let bench = Bench::new();
    bench
        .api
        .set_tokens(&[("of-the-pod", "system:serviceaccount:apps:worker")]);
    let api = bench.api.address();
    let (front, certificate) = bench.runtime.block_on(Front::start(api));
    let address = front.address;
    let files = bench.folder.path().join("serviceaccount");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("token"), "of-the-pod").unwrap();
    fs::write(files.join("ca.crt"), certificate).unwrap();
    fs::write(files.join("namespace"), NAMESPACE).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", IN_POD])
        .arg(&files)
        .arg(tenure())
        .args(["run", "--election", ELECTION, "--candidate", "pod-1"])
        .args(["--strategy", "kubernetes", "--lease-duration", "10s", "--"])
        .args(["sh", "-c", "echo epoch $TENURE_EPOCH; exec sleep 60"])
        .env("KUBERNETES_SERVICE_HOST", address.ip().to_string())
        .env("KUBERNETES_SERVICE_PORT", address.port().to_string());
    let mut run = Process::spawn(&mut command);
    let line = wait_for("the program", || {
        let out = run.stdout();
        assert!(!run.has_ended(), "{}", run.stderr());
        out.strip_suffix('\n').map(str::to_owned)
    });
    let lease = bench.api.lease().unwrap();
    assert_eq!(holder(&lease), "pod-1");
    let epoch = &lease["metadata"]["annotations"]["tenure/epoch"];
    assert_eq!(line, format!("epoch {}", epoch.as_str().unwrap()));
    run.signal(Signal::SIGTERM);
    run.wait();
    assert_eq!(holder(&bench.api.lease().unwrap()), "");
}

#[test]
fn outside_of_a_pod_the_address_must_be_set_and_its_certificate_is_checked() {
    let bench = Bench::new();
    let run = |variables: &[(&str, String)]| {
        let mut command = command(&["doctor"]);
        let variables = variables.iter().map(|(name, value)| (*name, value));
        command
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("TENURE_ELECTION", ELECTION)
            .env("TENURE_STRATEGY", "kubernetes")
            .envs(variables);
        output(&mut command)
    };
    let refused = stderr(&run(&[]));
    assert!(refused.contains("kubernetes.url is not set"), "{refused}");
    assert!(refused.contains("KUBERNETES_SERVICE_HOST"), "{refused}");
    let api = bench.api.address();
    let (front, certificate) = bench.runtime.block_on(Front::start(api));
    let address = front.address;
    let path = bench.folder.path().join("ca.pem");
    fs::write(&path, certificate).unwrap();
    let url = ("TENURE_KUBERNETES_URL", format!("https://{address}"));
    let namespace = ("TENURE_KUBERNETES_NAMESPACE", NAMESPACE.to_owned());
    let ca = ("TENURE_KUBERNETES_CA_FILE", path.display().to_string());
    let known = run(&[url.clone(), namespace.clone(), ca]);
    assert!(known.status.success(), "{known:?}");
    let unknown = run(&[url, namespace]);
    assert!(!unknown.status.success(), "{unknown:?}");
}

#[test]
fn a_leader_keeps_its_term_while_the_authority_of_the_api_server_is_replaced() {
    let bench = Bench::new();
    let api = bench.api.address();
    let (front, old) = bench.runtime.block_on(Front::start(api));
    let path = bench.folder.path().join("ca.pem");
    fs::write(&path, &old).unwrap();
    let mut command = command(&["run", "--election", ELECTION, "--strategy", "kubernetes"]);
    command
        .args(["--lease-duration", "30s", "--"])
        .args(["sh", "-c", "echo led; exec sleep 1000"])
        .env(
            "TENURE_KUBERNETES_URL",
            format!("https://{}", front.address),
        )
        .env("TENURE_KUBERNETES_NAMESPACE", NAMESPACE)
        .env("TENURE_KUBERNETES_CA_FILE", &path)
        .env("TENURE_RENEW_INTERVAL", "1s");
    let mut run = Process::spawn(&mut command);
    wait_for("the program", || {
        assert!(!run.has_ended(), "{}", run.stderr());
        (run.stdout() == "led\n").then_some(())
    });
    let (acceptor, new) = make();
    fs::write(&path, old + &new).unwrap();
    // All connections end, and the new ones have the other certificate.
    front.acceptor.send_replace(acceptor);
    wait_for("a renewal over another connection", || {
        run.stderr()
            .contains("another set of root certificates")
            .then_some(())
    });
    let renewed = || bench.api.lease().unwrap()["spec"]["renewTime"].clone();
    let last = renewed();
    wait_for("the next renewals", || (renewed() != last).then_some(()));
    assert_eq!(run.stdout(), "led\n", "{}", run.stderr());
}
