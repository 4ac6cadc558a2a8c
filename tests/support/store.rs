//! A store in this process, with its own runtime.

use std::net::SocketAddr;
use std::thread;

use reqwest::Url;
use tenure::store::Endpoint;
use tenure_azure::server::{Azure, AzureConfig, ServedAccount};
use tenure_server::{Server, Store, StoreConfig};
use tokio::sync::oneshot;

/// A store in memory, on its own threads, so that the runtime of a test does not affect it. It
/// stops when this is dropped.
#[derive(Debug)]
pub struct LocalStore {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl LocalStore {
    /// Starts a store on a free port.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as(|server, _| server)
    }

    /// Starts a store with the Azure API, for the development account.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn start_with_azure() -> Self {
        Self::start_as(|server, store| {
            let accounts = vec![ServedAccount::development()];
            let azure = Azure::open(store, AzureConfig::new(accounts));
            server.with_protocol(azure.expect("the protocol"))
        })
    }

    fn start_as(extend: impl FnOnce(Server, &Store) -> Server + Send + 'static) -> Self {
        let (started, address) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let store = Store::open(StoreConfig::memory()).expect("a store");
                let any = "127.0.0.1:0".parse().expect("an address");
                let server = Server::bind(store.clone(), any).expect("a port");
                let server = extend(server, &store);
                started
                    .send(server.local_addr().expect("an address"))
                    .expect("a test that waits");
                let shutdown = async {
                    let _ = stopped.await;
                };
                server.serve(shutdown).await.expect("a store that works");
            });
        });
        let address = address.recv().expect("a store that starts");
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The address that the store listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for clients of this library.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        endpoint(self.address)
    }

    /// The address for other HTTP clients.
    #[must_use]
    pub fn url(&self) -> Url {
        url(self.address)
    }
}

/// A store's address for clients of this library.
///
/// # Panics
///
/// Never: every socket address makes a URL.
#[must_use]
pub fn endpoint(address: SocketAddr) -> Endpoint {
    url(address).as_str().parse().expect("an address")
}

/// The URL of this address.
///
/// # Panics
///
/// Never: every socket address forms a URL.
#[must_use]
pub fn url(address: SocketAddr) -> Url {
    format!("http://{address}").parse().expect("a URL")
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
