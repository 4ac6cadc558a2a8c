//! Blobs on a full disk.

use std::fs;

use nix::sys::signal::Signal;
use reqwest::Method;
use tenure_tests::data_dir::incompressible;
use tenure_tests::needs::SmallDisk;
use tenure_tests::process::Process;
use tenure_tests::{wait_for, wait_until};
use tokio::runtime::Runtime;

/// A signature of the emulators' account, whose key is public. It is valid until 2099.
const SIGNATURE: &str = "sv=2021-12-02&ss=b&srt=co&sp=rwdl&se=2099-01-01T00:00:00Z&\
                         sig=5h8o%2FEro8bMVR2%2FH%2FC4i%2BhydWKLVDHzsOT8qnTpiyxA%3D";

/// A store with the Azure API, and its address.
fn serve(folder: &str) -> (Process, String) {
    let arguments = [
        "serve",
        "--azure-dev",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        folder,
    ];
    let store = Process::start(&arguments);
    let url = wait_for("the store", || {
        let stdout = store.stdout();
        let line = stdout.lines().next()?;
        Some(line.strip_prefix("listening on ")?.to_owned())
    });
    (store, url)
}

struct Blobs {
    http: reqwest::Client,
    url: String,
}

impl Blobs {
    fn at(url: String) -> Self {
        let http = tenure_tests::client::plain_http()
            .timeout(tenure_tests::PATIENCE)
            .build()
            .unwrap();
        Self { http, url }
    }

    /// Returns status, error code and body. A path ends with `?` or `&`, where a query begins.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, String, Vec<u8>) {
        let url = format!("{}/devstoreaccount1{path}{SIGNATURE}", self.url);
        let mut request = self.http.request(method, url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let code = answer.headers().get("x-ms-error-code");
        let code = code.map_or("", |code| code.to_str().unwrap()).to_owned();
        (
            answer.status().as_u16(),
            code,
            answer.bytes().await.unwrap().into(),
        )
    }

    async fn put(&self, name: &str, body: &[u8]) -> (u16, String) {
        let kind = [("x-ms-blob-type", "BlockBlob")];
        let path = format!("/leases/{name}?");
        let (status, code, _) = self.ask(Method::PUT, &path, &kind, body.into()).await;
        (status, code)
    }

    async fn get(&self, name: &str) -> (u16, Vec<u8>) {
        let path = format!("/leases/{name}?");
        let (status, _, body) = self.ask(Method::GET, &path, &[], Vec::new()).await;
        (status, body)
    }

    async fn lease(&self, headers: &[(&str, &str)]) -> u16 {
        let path = "/leases/held?comp=lease&";
        self.ask(Method::PUT, path, headers, Vec::new()).await.0
    }
}

#[test]
fn a_full_disk_stops_changes_of_blobs_but_not_renewals_and_the_store_recovers() {
    const ID: (&str, &str) = ("x-ms-lease-id", "00000000-0000-4000-8000-000000000001");
    const RENEW: [(&str, &str); 2] = [("x-ms-lease-action", "renew"), ID];
    let test = "a_full_disk_stops_changes_of_blobs_but_not_renewals_and_the_store_recovers";
    let Some(disk) = SmallDisk::mount(test, 2_048) else {
        return;
    };
    let folder = disk.path().join("store");
    let folder = folder.to_str().unwrap();
    let (mut store, url) = serve(folder);
    let blobs = Blobs::at(url);
    Runtime::new().unwrap().block_on(async {
        let path = "/leases?restype=container&";
        assert_eq!(blobs.ask(Method::PUT, path, &[], Vec::new()).await.0, 201);
        assert_eq!(blobs.put("held", b"held").await.0, 201);
        let acquire = [
            ("x-ms-lease-action", "acquire"),
            ("x-ms-lease-duration", "-1"),
            ("x-ms-proposed-lease-id", ID.1),
        ];
        assert_eq!(blobs.lease(&acquire).await, 201);
        let ballast = disk.fill();
        let mut kept = vec![("held".to_owned(), b"held".to_vec())];
        // The reserved space of the log is used up first.
        let mut refused = None;
        for number in 0..200 {
            let (name, body) = (
                format!("blob-{number}"),
                incompressible(number, 20_000).into_bytes(),
            );
            match blobs.put(&name, &body).await {
                (201, _) => kept.push((name, body)),
                answer => {
                    refused = Some((name, answer));
                    break;
                }
            }
        }
        let (refused, answer) = refused.expect("a full disk");
        assert_eq!(answer, (503, "ServerBusy".into()));
        assert_eq!(blobs.get(&refused).await.0, 404, "it was not written");
        assert_eq!(blobs.get("held").await, (200, b"held".to_vec()));
        assert_eq!(blobs.lease(&RENEW).await, 200);

        fs::remove_file(&ballast).unwrap();
        wait_until("the store to work again", async || {
            (blobs.put("late", b"late").await.0 == 201).then_some(())
        })
        .await;
        kept.push(("late".into(), b"late".to_vec()));
        store.signal(Signal::SIGKILL);
        store.wait();
        let (_store, url) = serve(folder);
        let blobs = Blobs::at(url);
        for (name, body) in kept {
            assert_eq!(blobs.get(&name).await, (200, body), "{name}");
        }
        assert_eq!(blobs.get(&refused).await.0, 404, "it is still absent");
        assert_eq!(blobs.lease(&RENEW).await, 200);
    });
}
