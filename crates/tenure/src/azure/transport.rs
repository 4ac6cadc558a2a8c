//! The keeper's requests in the words of the service.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::{CandidateId, Epoch, UnixMillis};
use tokio::time::Instant;
use tracing::warn;

use super::blob::AzureBlob;
use super::client::{AzureBlobClient, AzureRefusal};
use super::properties::Properties;
use crate::config::Config;
use crate::store::{REQUEST_TIMEOUT, StoreError};

/// How often a release is tried that no keeper looks after: one or two may be lost.
const GIVING_UP: u32 = 3;

/// Sends a candidate's requests, one attempt each, and puts the answers into the keeper's words.
#[derive(Debug)]
pub(crate) struct BlobTransport {
    client: AzureBlobClient,
    config: Config,
    /// The last epoch that was written and acknowledged, and the lease id that held then. The service
    /// tells a renewal no epoch.
    term: Mutex<Option<(LeaseId, Epoch)>>,
}

impl BlobTransport {
    /// A way to this blob.
    ///
    /// # Errors
    ///
    /// The HTTP client can't be set up.
    pub(crate) fn new(blob: &AzureBlob, config: &Config) -> Result<Self, reqwest::Error> {
        let client =
            AzureBlobClient::trusting(blob, &config.roots)?.named(config.candidate.as_str());
        Ok(Self {
            client,
            config: config.clone(),
            term: Mutex::default(),
        })
    }

    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => {
                // Nobody can wait there: the keeper asks from time to time.
                let timeout = timeout.saturating_sub(wait);
                self.acquire(lease_id, min_epoch, timeout).await
            }
            Request::Renew(lease_id) => {
                let Some(epoch) = self.epoch_of(lease_id) else {
                    // An id without a term has nothing to renew.
                    return Answer::Superseded;
                };
                let renewed = self.client.renew(lease_id, timeout).await;
                renewed.map_or_else(|error| refused(&error), |()| Answer::Held(epoch))
            }
            // A candidate of choice can't be named there; the driver hands nothing over to one.
            Request::Release { lease_id, .. } | Request::HandOver { lease_id, .. } => {
                let released = self.client.release(lease_id, timeout).await;
                released.map_or_else(|error| refused(&error), |()| Answer::Released)
            }
        }
    }

    /// Replaces what the leader says about itself, under its epoch.
    pub(crate) async fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: Metadata,
    ) -> Result<(), StoreError> {
        let Some(epoch) = self.epoch_of(lease_id) else {
            return Err(self.client.malformed("this lease id has had no term there"));
        };
        let until = Instant::now() + REQUEST_TIMEOUT;
        let of_this_term = |seen: &Properties| match seen.epoch() {
            Ok(Some(last)) if last == epoch => Ok(epoch),
            _ => Err("its metadata has another epoch than this term's".to_owned()),
        };
        let written = self.write(lease_id, &metadata, until, of_this_term);
        written.await.map(|_| ())
    }

    async fn acquire(
        &self,
        lease_id: LeaseId,
        min_epoch: Option<Epoch>,
        timeout: Duration,
    ) -> Answer {
        let until = Instant::now() + timeout;
        match self.grant(lease_id, until).await {
            Ok(()) => {}
            Err(StoreError::Azure(refusal)) if refusal.code == "LeaseAlreadyPresent" => {
                return self.held_by_another(until).await;
            }
            Err(error) => return refused(&error),
        }
        match self.number(lease_id, min_epoch, until).await {
            Ok(epoch) => {
                *self.term.lock().unwrap_or_else(PoisonError::into_inner) = Some((lease_id, epoch));
                Answer::Held(epoch)
            }
            Err(error) => {
                let (election, candidate) = (&self.config.election, &self.config.candidate);
                warn!(%election, %candidate, %error, "the lease was granted, and its epoch can't be written");
                self.give_up(lease_id, timeout / 3).await;
                match refused(&error) {
                    refused @ Answer::Refused(_) => refused,
                    // The release may come late. It must not find this id holding the lease again.
                    _ => Answer::IdRetired,
                }
            }
        }
    }

    /// Gives up a lease that nobody leads by, so that others need not wait until it expires. If that fails,
    /// too, they must. A release whose answer comes too late is sent again: that is harmless, because this
    /// candidate never uses the id again.
    async fn give_up(&self, lease_id: LeaseId, timeout: Duration) {
        for _ in 0..GIVING_UP {
            match self.client.release(lease_id, timeout / GIVING_UP).await {
                Err(error) if matches!(refused(&error), Answer::Unknown(_)) => {}
                _ => return,
            }
        }
    }

    /// Holds the blob's lease, and makes the blob first if it is not there.
    async fn grant(&self, lease_id: LeaseId, until: Instant) -> Result<(), StoreError> {
        let duration = self.config.timings.lease_duration();
        let acquire = || self.client.acquire(lease_id, duration, left(until));
        let granted = acquire().await;
        if !is_refused_with(&granted, &[BLOB_NOT_FOUND, CONTAINER_NOT_FOUND]) {
            return granted;
        }
        let created = self.client.create(left(until)).await;
        if is_refused_with(&created, &[CONTAINER_NOT_FOUND]) {
            self.client.create_container(left(until)).await?;
            self.client.create(left(until)).await?;
        } else {
            created?;
        }
        acquire().await
    }

    /// Numbers the term: writes an epoch that is greater than all before it. Each time anew, also where this
    /// id has an epoch already: others may have led since it was written.
    async fn number(
        &self,
        lease_id: LeaseId,
        min_epoch: Option<Epoch>,
        until: Instant,
    ) -> Result<Epoch, StoreError> {
        let least = min_epoch.map_or(0, Epoch::get);
        let metadata = &self.config.metadata;
        let following = |seen: &Properties| {
            let last = seen.epoch().map_err(|value| {
                format!(
                    "its metadata \"tenureepoch\" is no epoch but {value}: set it to the last epoch that led, or to \
                     a greater number"
                )
            })?;
            let wall = seen.wall().ok_or("it does not say its date")?;
            let wall = UnixMillis::new(wall.get().max(least));
            Epoch::following(last, wall).ok_or_else(|| "no epoch is left for it".to_owned())
        };
        self.write(lease_id, metadata, until, following).await
    }

    /// Writes a term's epoch and what its leader says about itself, if this id holds the lease, and nobody
    /// has changed the blob between reading and writing it.
    async fn write(
        &self,
        lease_id: LeaseId,
        metadata: &Metadata,
        until: Instant,
        epoch: impl FnOnce(&Properties) -> Result<Epoch, String>,
    ) -> Result<Epoch, StoreError> {
        let client = &self.client;
        let seen = client.properties(Some(lease_id), left(until)).await?;
        let epoch = epoch(&seen).map_err(|reason| client.malformed(reason))?;
        let etag = seen
            .etag()
            .ok_or_else(|| client.malformed("it has no ETag"))?;
        let headers = seen.headers_of_term(&self.config.candidate, epoch, metadata);
        client
            .set_metadata(headers, lease_id, etag, left(until))
            .await?;
        Ok(epoch)
    }

    /// Who holds it, as far as the blob tells.
    async fn held_by_another(&self, until: Instant) -> Answer {
        let seen = self.client.properties(None, left(until)).await.ok();
        // The last one that is named may be this one.
        let is_another = |(holder, _): &(CandidateId, Epoch)| *holder != self.config.candidate;
        let leader = seen.and_then(|seen| seen.leader()).filter(is_another);
        let (holder, epoch) = leader.unzip();
        Answer::HeldByAnother { holder, epoch }
    }

    fn epoch_of(&self, lease_id: LeaseId) -> Option<Epoch> {
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        term.filter(|(held, _)| *held == lease_id)
            .map(|(_, epoch)| epoch)
    }
}

const BLOB_NOT_FOUND: &str = "BlobNotFound";
const CONTAINER_NOT_FOUND: &str = "ContainerNotFound";

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn is_refused_with(answer: &Result<(), StoreError>, codes: &[&str]) -> bool {
    matches!(answer, Err(StoreError::Azure(refusal)) if codes.contains(&refusal.code.as_str()))
}

fn refused(error: &StoreError) -> Answer {
    match error {
        StoreError::Azure(refusal) => of_refusal(refusal),
        error => Answer::Unknown(error.to_string()),
    }
}

fn of_refusal(refusal: &AzureRefusal) -> Answer {
    match refusal.code.as_str() {
        "LeaseAlreadyPresent" => Answer::HeldByAnother {
            holder: None,
            epoch: None,
        },
        // How long a break leaves is not told, so nothing is left.
        "LeaseIsBrokenAndCannotBeRenewed" | "LeaseIsBreakingAndCannotBeAcquired" => {
            Answer::Broken {
                remaining: Duration::ZERO,
            }
        }
        "LeaseIdMismatchWithLeaseOperation"
        | "LeaseNotPresentWithLeaseOperation"
        | "LeaseIdMismatchWithBlobOperation"
        | "LeaseNotPresentWithBlobOperation"
        | "LeaseLost"
        | BLOB_NOT_FOUND
        | CONTAINER_NOT_FOUND => Answer::Superseded,
        _ if refusal.is_transient() => Answer::Unknown(refusal.to_string()),
        _ => Answer::Refused(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, code: &str) -> Answer {
        of_refusal(&AzureRefusal {
            endpoint: "http://127.0.0.1/c/b".parse().unwrap(),
            what: "renewing the lease",
            status,
            code: code.into(),
            message: "No".into(),
            request_id: "7".into(),
        })
    }

    #[test]
    fn what_ends_a_term_what_may_pass_and_what_does_not_are_told_apart() {
        for (status, code) in [
            (409, "LeaseIdMismatchWithLeaseOperation"),
            (409, "LeaseNotPresentWithLeaseOperation"),
            (412, "LeaseIdMismatchWithBlobOperation"),
            (412, "LeaseNotPresentWithBlobOperation"),
            (412, "LeaseLost"),
            (404, "BlobNotFound"),
            (404, "ContainerNotFound"),
        ] {
            assert_eq!(of(status, code), Answer::Superseded, "{code}");
        }
        let remaining = Duration::ZERO;
        for code in [
            "LeaseIsBrokenAndCannotBeRenewed",
            "LeaseIsBreakingAndCannotBeAcquired",
        ] {
            assert_eq!(of(409, code), Answer::Broken { remaining }, "{code}");
        }
        for (status, code) in [
            (503, "ServerBusy"),
            (500, "InternalError"),
            (500, "OperationTimedOut"),
            (429, "TooManyRequests"),
            (408, "RequestTimeout"),
            (409, "ContainerBeingDeleted"),
            (412, "ConditionNotMet"),
        ] {
            assert!(matches!(of(status, code), Answer::Unknown(_)), "{code}");
        }
        for (status, code) in [
            (400, "InvalidHeaderValue"),
            (401, "NoAuthenticationInformation"),
            (403, "AuthenticationFailed"),
            (403, "AuthorizationPermissionMismatch"),
            (404, "ResourceNotFound"),
        ] {
            let answer = of(status, code);
            let Answer::Refused(why) = &answer else {
                panic!("{code}: {answer:?}");
            };
            for part in [code, "renewing the lease", "(request id 7)", ": No"] {
                assert!(why.contains(part), "{why}");
            }
        }
    }
}
