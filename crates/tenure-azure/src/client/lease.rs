//! Converts the requests of a lease candidate to operations of the service.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::ETAG;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::wire::LeaseView;
use tenure_core::{CandidateId, ElectionName, Epoch, UnixMillis};
use tokio::time::Instant;
use tracing::warn;

use super::blob::AzureBlob;
use super::properties::Properties;
use super::requests::{AzureRefusal, BlobClient, BlobClientError, REQUEST_TIMEOUT};

/// The number of attempts to send a release that no candidate waits for. Up to two of them may be
/// lost.
const RELEASE_ATTEMPTS: u32 = 3;

/// Competes for the lease of a blob. It sends a candidate's requests, each of them once.
#[derive(Debug)]
pub struct BlobLease {
    client: BlobClient,
    candidacy: BlobCandidacy,
    /// The last epoch that was written and acknowledged, with the lease id that held the lease
    /// then. The answer to a renewal contains no epoch.
    term: Mutex<Option<(LeaseId, Epoch)>>,
}

/// The candidacy of one candidate.
#[derive(Clone, Debug)]
pub struct BlobCandidacy {
    /// The election, for the log and for views of the lease.
    pub election: ElectionName,
    /// The candidate.
    pub candidate: CandidateId,
    /// The duration of a grant; see [`AzureBlob::check`](super::AzureBlob::check).
    pub lease_duration: Duration,
    /// The metadata at the beginning of a term.
    pub metadata: Metadata,
}

impl BlobLease {
    /// Creates a candidate for the lease of this blob. It sends its requests with `http`, which
    /// should neither follow redirects nor repeat requests.
    #[must_use]
    pub fn new(http: Client, blob: AzureBlob, candidacy: BlobCandidacy) -> Self {
        Self {
            client: BlobClient::new(http, blob, candidacy.candidate.as_str()),
            candidacy,
            term: Mutex::default(),
        }
    }

    /// Sends one request, once.
    pub async fn send(&self, request: Request, timeout: Duration) -> Answer {
        match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => {
                // The service has no waiting queue: the candidate sends an acquire repeatedly.
                let timeout = timeout.saturating_sub(wait);
                self.acquire(lease_id, min_epoch, timeout).await
            }
            Request::Resume {
                lease_id, epoch, ..
            } => self.resume(lease_id, epoch, timeout).await,
            Request::Renew(lease_id) | Request::Look(lease_id) => {
                let Some(epoch) = self.epoch_of(lease_id) else {
                    // A lease id without a term has no lease to renew.
                    return Answer::Superseded;
                };
                let renewed = self.client.renew(lease_id, timeout).await;
                renewed.map_or_else(|error| answer_to_error(&error), |()| Answer::Held(epoch))
            }
            // The service can't grant a lease to a chosen candidate, so callers never hand over.
            Request::Release { lease_id, .. } | Request::HandOver { lease_id, .. } => {
                let released = self.client.release(lease_id, timeout).await;
                released.map_or_else(|error| answer_to_error(&error), |()| Answer::Released)
            }
        }
    }

    /// Replaces the leader's metadata, under its epoch.
    ///
    /// # Errors
    ///
    /// [`BlobClientError`]: the metadata may or may not have been written.
    pub async fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: Metadata,
    ) -> Result<(), BlobClientError> {
        let Some(epoch) = self.epoch_of(lease_id) else {
            return Err(self.client.malformed("this lease id has had no term"));
        };
        let until = Instant::now() + REQUEST_TIMEOUT;
        let of_this_term = |properties: &Properties| match properties.epoch() {
            Ok(Some(last)) if last == epoch => Ok(epoch),
            _ => Err("the blob's metadata have another epoch than this term".to_owned()),
        };
        let written = self.write(lease_id, &metadata, until, of_this_term);
        written.await.map(|_| ())
    }

    /// Returns the blob's lease as a store would show it, or `None` if the blob does not exist.
    /// Blobs have no remaining time, no waiters and no revision, so these values are null or 0. The
    /// holder is the one in the blob's metadata, which is still the previous holder immediately
    /// after a grant.
    ///
    /// # Errors
    ///
    /// [`BlobClientError`].
    pub async fn view(&self) -> Result<Option<LeaseView>, BlobClientError> {
        let properties = self.client.properties_if_present().await?;
        Ok(properties.map(|properties| properties.view(&self.candidacy.election)))
    }

    /// Checks that the service answers: reads the blob's properties. A blob that does not exist
    /// counts as an answer. Returns the time of the service's clock (an HTTP date, whole seconds),
    /// if the answer contains it.
    ///
    /// # Errors
    ///
    /// [`BlobClientError`].
    pub async fn ping(&self) -> Result<Option<String>, BlobClientError> {
        let properties = self.client.properties_if_present().await?;
        Ok(properties.and_then(|properties| properties.date().map(Into::into)))
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
            Err(BlobClientError::Refused(refusal)) if refusal.code == "LeaseAlreadyPresent" => {
                return self.held_by_another(until).await;
            }
            Err(error) => return answer_to_error(&error),
        }
        match self.write_next_epoch(lease_id, min_epoch, until).await {
            Ok(epoch) => {
                *self.term.lock().unwrap_or_else(PoisonError::into_inner) = Some((lease_id, epoch));
                Answer::Held(epoch)
            }
            Err(error) => {
                let (election, candidate) = (&self.candidacy.election, &self.candidacy.candidate);
                warn!(%election, %candidate, %error, "the lease was granted, but its epoch can't be written");
                self.give_up(lease_id, timeout / 3).await;
                match answer_to_error(&error) {
                    refused @ Answer::Refused(_) => refused,
                    // The release may arrive late, when it must not end a new grant under this id.
                    // So the id is retired.
                    _ => Answer::IdRetired,
                }
            }
        }
    }

    /// Takes the lease for a term that has run without the service, under the epoch of that term.
    async fn resume(&self, lease_id: LeaseId, epoch: Epoch, timeout: Duration) -> Answer {
        let until = Instant::now() + timeout;
        // The service renews an expired lease as long as no other id has acquired it. It refuses to
        // renew a broken lease, which it would grant to an acquire: a break is not undone.
        let renewed = self.client.renew(lease_id, left(until)).await;
        let is_other = is_refused_with(
            &renewed,
            &[ID_MISMATCH, BLOB_NOT_FOUND, CONTAINER_NOT_FOUND],
        );
        let held = match is_other {
            true => self.grant(lease_id, until).await,
            false => renewed,
        };
        match held {
            Ok(()) => {}
            Err(BlobClientError::Refused(refusal)) if refusal.code == "LeaseAlreadyPresent" => {
                return self.held_by_another(until).await;
            }
            Err(error) => return answer_to_error(&error),
        }
        // From here on no other candidate can write an epoch, so the epoch of the blob is the
        // greatest of the lease.
        match self.write_epoch_of(lease_id, epoch, !is_other, until).await {
            Ok(true) => {
                *self.term.lock().unwrap_or_else(PoisonError::into_inner) = Some((lease_id, epoch));
                Answer::Held(epoch)
            }
            Ok(false) => {
                self.give_up(lease_id, timeout / 3).await;
                Answer::Superseded
            }
            // The candidate asks again. The epoch may have been written.
            Err(error) => answer_to_error(&error),
        }
    }

    /// Makes this the epoch of the blob. Returns false if the lease has had this epoch in another
    /// term, or has had a greater one. `was_renewed` says that this lease id held the lease before:
    /// then the epoch may be in the blob already. An id that did not hold it has released it since.
    async fn write_epoch_of(
        &self,
        lease_id: LeaseId,
        epoch: Epoch,
        was_renewed: bool,
        until: Instant,
    ) -> Result<bool, BlobClientError> {
        let client = &self.client;
        let properties = client.properties(Some(lease_id), left(until)).await?;
        let last = last_epoch(&properties).map_err(|reason| client.malformed(reason))?;
        if last < Some(epoch) {
            let metadata = &self.candidacy.metadata;
            self.set(lease_id, &properties, epoch, metadata, until)
                .await?;
            return Ok(true);
        }
        let of_this_term = Some((self.candidacy.candidate.clone(), epoch));
        Ok(was_renewed && properties.leader() == of_this_term)
    }

    /// Releases a lease without a term, so that others need not wait until it expires. If no
    /// release succeeds, they must wait. The candidate repeats a release that gets no answer, which
    /// is harmless because it never uses the id again.
    async fn give_up(&self, lease_id: LeaseId, timeout: Duration) {
        for _ in 0..RELEASE_ATTEMPTS {
            match self
                .client
                .release(lease_id, timeout / RELEASE_ATTEMPTS)
                .await
            {
                Err(error) if matches!(answer_to_error(&error), Answer::Unknown(_)) => {}
                _ => return,
            }
        }
    }

    /// Acquires the blob's lease. If the blob does not exist, creates it first.
    async fn grant(&self, lease_id: LeaseId, until: Instant) -> Result<(), BlobClientError> {
        let duration = self.candidacy.lease_duration;
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

    /// Writes the epoch of a new term, which is greater than all earlier epochs. An earlier epoch
    /// of this lease id is not reused, because other candidates may have led since it was written.
    async fn write_next_epoch(
        &self,
        lease_id: LeaseId,
        min_epoch: Option<Epoch>,
        until: Instant,
    ) -> Result<Epoch, BlobClientError> {
        let least = min_epoch.map_or(0, Epoch::get);
        let metadata = &self.candidacy.metadata;
        let following = |properties: &Properties| {
            let last = last_epoch(properties)?;
            let wall = properties.wall().ok_or("the answer has no date")?;
            let wall = UnixMillis::new(wall.get().max(least));
            Epoch::following(last, wall).ok_or_else(|| "no epoch is left".to_owned())
        };
        self.write(lease_id, metadata, until, following).await
    }

    /// Writes a term's epoch and its leader's metadata, if this id holds the lease and the blob has
    /// not changed since it was read.
    async fn write(
        &self,
        lease_id: LeaseId,
        metadata: &Metadata,
        until: Instant,
        epoch: impl FnOnce(&Properties) -> Result<Epoch, String>,
    ) -> Result<Epoch, BlobClientError> {
        let client = &self.client;
        let properties = client.properties(Some(lease_id), left(until)).await?;
        let epoch = epoch(&properties).map_err(|reason| client.malformed(reason))?;
        self.set(lease_id, &properties, epoch, metadata, until)
            .await?;
        Ok(epoch)
    }

    /// Writes a term's epoch and its leader's metadata, if the blob has not changed since these
    /// properties were read.
    async fn set(
        &self,
        lease_id: LeaseId,
        properties: &Properties,
        epoch: Epoch,
        metadata: &Metadata,
        until: Instant,
    ) -> Result<(), BlobClientError> {
        let client = &self.client;
        let etag = properties
            .0
            .get(ETAG)
            .ok_or_else(|| client.malformed("the answer has no ETag"))?;
        let headers = properties.headers_of_term(&self.candidacy.candidate, epoch, metadata);
        client
            .set_metadata(headers, lease_id, etag, left(until))
            .await
    }

    /// Returns the holder if the blob's metadata name it.
    async fn held_by_another(&self, until: Instant) -> Answer {
        let properties = self.client.properties(None, left(until)).await.ok();
        // The metadata may still contain this candidate.
        let is_another = |(holder, _): &(CandidateId, Epoch)| *holder != self.candidacy.candidate;
        let leader = properties
            .and_then(|properties| properties.leader())
            .filter(is_another);
        Answer::HeldByAnother(leader)
    }

    fn epoch_of(&self, lease_id: LeaseId) -> Option<Epoch> {
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        term.filter(|(held, _)| *held == lease_id)
            .map(|(_, epoch)| epoch)
    }
}

const ID_MISMATCH: &str = "LeaseIdMismatchWithLeaseOperation";
const BLOB_NOT_FOUND: &str = "BlobNotFound";
const CONTAINER_NOT_FOUND: &str = "ContainerNotFound";

/// Returns the last epoch in the blob's metadata.
fn last_epoch(properties: &Properties) -> Result<Option<Epoch>, String> {
    properties.epoch().map_err(|value| {
        format!(
            "the metadata \"tenureepoch\" is {value}, which is not an epoch: set it to the last epoch that \
             led, or to a greater number"
        )
    })
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn is_refused_with(answer: &Result<(), BlobClientError>, codes: &[&str]) -> bool {
    matches!(answer, Err(BlobClientError::Refused(refusal)) if codes.contains(&refusal.code.as_str()))
}

fn answer_to_error(error: &BlobClientError) -> Answer {
    match error {
        BlobClientError::Refused(refusal) => answer_to_refusal(refusal),
        error => Answer::Unknown(error.to_string()),
    }
}

fn answer_to_refusal(refusal: &AzureRefusal) -> Answer {
    match refusal.code.as_str() {
        "LeaseAlreadyPresent" => Answer::HeldByAnother(None),
        // The answer does not contain the remaining break period, so it may be over.
        "LeaseIsBrokenAndCannotBeRenewed" | "LeaseIsBreakingAndCannotBeAcquired" => {
            Answer::Broken {
                remaining: Duration::ZERO,
            }
        }
        ID_MISMATCH
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
        answer_to_refusal(&AzureRefusal {
            url: "http://127.0.0.1/c/b".into(),
            operation: "renewing the lease",
            status,
            code: code.into(),
            message: "No".into(),
            request_id: "7".into(),
        })
    }

    #[test]
    fn refusals_end_a_term_or_are_transient_or_definite() {
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
