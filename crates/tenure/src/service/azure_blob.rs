//! A lease service that grants the lease of a blob; see [`tenure_azure::client`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use reqwest::Url;
use tenure_azure::client::{AzureBlob, BlobCandidacy, BlobClientError, BlobLease};
use tenure_core::lease::candidate::Request;
use tenure_core::lease::{LeaseId, Metadata};

use super::{BackendError, BackendFuture, BackendReply, LeaseBackend, SharedBackend};
use crate::config::Config;
use crate::http::client::{HttpClient, HttpClients};
use crate::http::store::{LeaseView, Pong};
use crate::service::StartError;

#[derive(Debug)]
struct AzureBlobBackend {
    http: HttpClient,
    lease: BlobLease,
    address: String,
}

pub(super) fn open(
    config: &Config,
    blob: &AzureBlob,
    clients: &HttpClients,
) -> Result<SharedBackend, StartError> {
    blob.check(&config.timings, config.lock_delay)?;
    // The blob's address was made from a URL, so it parses.
    let url = Url::parse(blob.url()).ok();
    // The client certificate is sent only to the store.
    let http = clients.get(&config.roots, None, url.iter())?;
    let candidacy = BlobCandidacy {
        election: config.election.clone(),
        candidate: config.candidate.clone(),
        lease_duration: config.timings.lease_duration(),
        metadata: config.metadata.clone(),
    };
    Ok(Arc::new(AzureBlobBackend {
        address: blob.url().into(),
        lease: BlobLease::new(http.current().client, blob.clone(), candidacy),
        http,
    }))
}

impl AzureBlobBackend {
    /// Returns the lease for the next request. Its client stays the same, as it presents no
    /// certificate; its root certificates may be read again.
    fn lease(&self) -> &BlobLease {
        self.http.current();
        &self.lease
    }
}

impl LeaseBackend for AzureBlobBackend {
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, BackendReply> {
        Box::pin(async move { self.lease().send(request, timeout).await.into() })
    }

    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()> {
        Box::pin(async move { Ok(self.lease().proclaim(lease_id, metadata).await?) })
    }

    fn can_hand_over(&self) -> bool {
        false
    }

    fn lease_after(&self, _: u64, _: Duration) -> BackendFuture<'_, Option<LeaseView>> {
        Box::pin(async move { Ok(self.lease().view().await?) })
    }

    fn ping(&self) -> BackendFuture<'_, Pong> {
        Box::pin(async move {
            let sent = Instant::now();
            let date = self.lease().ping().await?;
            Ok(Pong {
                store: None,
                round_trip: sent.elapsed(),
                date,
            })
        })
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn kind(&self) -> &'static str {
        "blob service"
    }
}

impl From<BlobClientError> for BackendError {
    fn from(error: BlobClientError) -> Self {
        match error {
            BlobClientError::Unreachable { .. } => Self::Unreachable(error.into()),
            error if error.is_transient() => Self::Transient(error.into()),
            error => Self::Definite(error.into()),
        }
    }
}
