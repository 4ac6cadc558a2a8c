//! Registers in buckets of servers of other projects. No server of tenure takes part.

#[path = "../../crates/tenure-register/tests/conformance/checks.rs"]
mod checks;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::signer::Signer;
use reqwest::Method;
use tenure_register::bucket::{BucketAccess, BucketHome};
use tenure_register::{Bytes, Files};
use tenure_tests::client::plain_http;
use tenure_tests::ports::free_address;
use tenure_tests::process::Process;
use tenure_tests::servers::server;
use tenure_tests::{PATIENCE, wait_until};
use tokio::runtime::Runtime;

/// The number of probes. Each of them has two races.
const PROBES: usize = 40;

/// The credential of the owner.
const ID: &str = "owner";
const SECRET: &str = "secret of the owner";

/// Starts the server that this command runs, and checks it.
fn check(command: &mut Command, address: SocketAddr) {
    let mut process = Process::spawn(command);
    let endpoint = format!("http://{address}");
    let mut access = BucketAccess::new("s3://bucket/a/b");
    access.endpoint = Some(endpoint.clone());
    access.settings = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let homes = [(); 4].map(|()| BucketHome::new(&access, PATIENCE).unwrap());
    let bucket = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name("bucket")
        .with_access_key_id(ID)
        .with_secret_access_key(SECRET);
    let bucket = bucket.build().unwrap();
    Runtime::new().unwrap().block_on(async {
        let hour = Duration::from_secs(3600);
        let url = bucket.signed_url(Method::PUT, &Path::default(), hour).await;
        let create = plain_http().build().unwrap().put(url.unwrap());
        wait_until("a bucket", async || {
            assert!(!process.has_ended(), "{}", process.stderr());
            let made = create.try_clone().unwrap().send().await.ok()?;
            made.status().is_success().then_some(())
        })
        .await;
        // A server that has just started may have no place for objects yet.
        let (name, content) = ("first".parse().unwrap(), Bytes::new());
        wait_until("an object", async || {
            homes[0].write(&name, content.clone()).await.ok()
        })
        .await;
        for _ in 0..PROBES {
            assert_eq!(homes[0].probe().await, Ok(None));
        }
        let connections: Vec<&dyn Files> = homes.iter().map(|home| home as _).collect();
        checks::pass(&connections, "part").await;
    });
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn versitygw_passes_the_probe_and_all_checks() {
    let test = "versitygw_passes_the_probe_and_all_checks";
    let Some(program) = server(test, "versitygw") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let [data, metadata] = ["data", "metadata"].map(|name| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    });
    let mut command = Command::new(program);
    command
        .args([
            "--port",
            &address.to_string(),
            "--access",
            ID,
            "--secret",
            SECRET,
        ])
        .args(["posix", "--sidecar"])
        .args([metadata, data]);
    check(&mut command, address);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn seaweedfs_passes_the_probe_and_all_checks() {
    let test = "seaweedfs_passes_the_probe_and_all_checks";
    let Some(program) = server(test, "seaweedfs") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let mut command = Command::new(program);
    command
        .args(["server", "-ip=127.0.0.1", "-s3", "-master.telemetry=false"])
        .arg(format!("-dir={}", folder.path().display()))
        .arg(format!("-s3.port={}", address.port()))
        .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    for port in ["master", "volume", "filer"] {
        command.arg(format!("-{port}.port={}", free_address().port()));
        command.arg(format!("-{port}.port.grpc={}", free_address().port()));
    }
    command.arg(format!("-s3.port.grpc={}", free_address().port()));
    check(&mut command, address);
}
