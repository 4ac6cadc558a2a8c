//! Calls on a store in this process, without sockets.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use tenure_server::Store;
use tenure_server::access::Access;
use tokio::task::JoinSet;
use tower_service::Service;

use super::{acquire, path};

/// The API of a store in this process.
#[derive(Clone)]
pub struct Local(Router);

impl Local {
    pub fn new(store: Store) -> Self {
        Self(tenure_server::router(store, Access::anonymous()))
    }

    /// Posts a body. Returns the status.
    pub async fn post(&mut self, path: &str, body: String) -> u16 {
        let request = Request::post(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).expect("a request");
        let Ok(response) = self.0.call(request).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await;
        std::hint::black_box(body.expect("a body"));
        status
    }

    /// Acquires each lease below `count`, each for a different holder.
    pub async fn hold(&self, count: u64) {
        const AT_ONCE: u64 = 2_000;
        let mut tasks = JoinSet::new();
        for first in 0..AT_ONCE.min(count) {
            let mut local = self.clone();
            tasks.spawn(async move {
                for number in (first..count).step_by(AT_ONCE as usize) {
                    let answer = local
                        .post(&path(number, "acquire"), acquire(number, 0))
                        .await;
                    assert_eq!(answer, 200);
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("leases that are held");
        }
    }
}
