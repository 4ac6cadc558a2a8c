//! Requests that a browser could send for a page of another site, by their `Host` and by their
//! `Origin`, with and without access control of the native API.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_azure::server::Azure;
use tenure_server::access::Access;
use tenure_server::{Server, Store, StoreConfig};

use crate::client::{ACCOUNT, Az, KEY, development, in_memory};
use crate::common::{Running, id, served};

const HOSTS: [(&str, bool); 7] = [
    ("127.0.0.1:10000", true),
    ("localhost", true),
    ("[::1]:10000", true),
    ("evil.example", false),
    ("127.0.0.1.evil.example", false),
    ("localhost.evil.example:10000", false),
    ("[::1].evil.example", false),
];

/// Creates a store whose native API has access control.
fn guarded() -> (Running, Az) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    fs::write(&path, "version = 1\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let azure = Azure::open(&store, development()).unwrap();
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    let server = server.with_access(Access::open(path).unwrap());
    let running = served(server.with_protocol(azure));
    let az = Az {
        origin: running.api.origin.clone(),
        http: running.api.http.clone(),
        account: ACCOUNT.into(),
        key: KEY.into(),
    };
    (running, az)
}

#[tokio::test]
async fn a_page_of_somebody_else_gets_nothing_through_the_azure_api() {
    for (is_open, (_running, az)) in [(true, in_memory()), (false, guarded())] {
        az.put("/con?restype=container", &[]).await.assert(201);
        az.put_block("/con/blob", &[], b"").await.assert(201);
        let acquire = [
            ("x-ms-lease-action", "acquire"),
            ("x-ms-lease-duration", "60"),
            ("x-ms-proposed-lease-id", &id(1)),
        ];
        az.put("/con/blob?comp=lease", &acquire).await.assert(201);
        for (host, is_own) in HOSTS {
            let same = format!("http://{host}");
            for (origin, is_own_page) in
                [("", true), (&*same, true), ("http://evil.invalid", false)]
            {
                let id = id(1);
                let mut renew = vec![
                    ("x-ms-lease-action", "renew"),
                    ("x-ms-lease-id", &id),
                    ("host", host),
                ];
                let mut list = vec![("host", host)];
                if !origin.is_empty() {
                    renew.push(("origin", origin));
                    list.push(("origin", origin));
                }
                let renewed = az.put("/con/blob?comp=lease", &renew).await;
                let listed = az.get("/?comp=list", &list).await;
                let is_known = is_own || !is_open;
                let refused = (403, "AuthorizationFailure");
                let expected = |is_served| if is_served { (200, "") } else { refused };
                let context = format!("host {host}, origin {origin}, open: {is_open}");
                assert_eq!(
                    renewed.outcome(),
                    expected(is_known && is_own_page),
                    "{context}"
                );
                assert_eq!(listed.outcome(), expected(is_known), "{context}");
            }
        }
    }
}
