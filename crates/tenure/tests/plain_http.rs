//! Plain http on a system without root certificates.

use std::process::Command;

use tenure::observe::Observer;
use tenure::store::StoreClient;
use tenure::{Candidate, Config};

/// An environment variable that is set in the process without root certificates.
const CHILD: &str = "TENURE_TEST_CHILD";

#[tokio::test]
async fn plain_http_needs_no_root_certificates() {
    if std::env::var_os(CHILD).is_none() {
        let test = "plain_http_needs_no_root_certificates";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD, "1")
            .env("SSL_CERT_FILE", "/nowhere/certificates.pem")
            .env("SSL_CERT_DIR", "/nowhere")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let config = Config::new("tests/plain".parse().unwrap());
    StoreClient::new(config.servers()).unwrap();
    Observer::from_config(&config).unwrap();
    Candidate::start(config.clone()).await.unwrap();
    #[cfg(feature = "peers")]
    {
        use tenure::NodeId;
        use tenure::config::{Bully, Peer, Strategy};
        let folder = tempfile::tempdir().unwrap();
        let peers = [Peer::new(NodeId(1), "http://127.0.0.1:1").unwrap()];
        let mut bully = Bully::new(NodeId(1), peers);
        bully.listen = Some(([127, 0, 0, 1], 0).into());
        bully.state_dir = folder.path().into();
        let member = config.clone().with_strategy(Strategy::Bully(bully));
        Observer::from_config(&member).unwrap();
        Candidate::start(member).await.unwrap();
    }
    #[cfg(feature = "tls")]
    {
        let https = config.with_servers(["https://store.example.com".parse().unwrap()]);
        let error = Candidate::start(https).await.unwrap_err().to_string();
        assert!(error.contains("ca_file"), "{error}");
    }
}
