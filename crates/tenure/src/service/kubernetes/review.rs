//! Whether the account of a candidate has the rights that it needs, as the API server reviews them.
//!
//! A refusal alone does not tell: quotas, policies, webhooks and namespaces that end refuse requests
//! with the same status as a missing right, and a candidate that waits does not write.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tracing::warn;

use super::client::{ApiClient, ApiError, ROLE, shortened};
use super::object::API_GROUP;

/// The time after which a review that failed is repeated. The API server may not review rights.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The last review of the rights of this candidate.
#[derive(Debug, Default)]
pub(super) struct Review(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The right that is missing, if any; `None` before the first review, and after one that failed.
    outcome: Option<Option<String>>,
    /// The last failure, and its time.
    failure: Option<(String, Instant)>,
}

impl Review {
    /// Asks for another review if it may have another outcome than the last one, and returns the
    /// right that is missing. `was_refused` says whether the API server has refused a request since.
    pub(super) async fn missing_right(
        &self,
        client: &ApiClient,
        exists: bool,
        was_refused: bool,
        timeout: Duration,
    ) -> Option<String> {
        if self.is_due(was_refused) {
            let reviewed = client.missing_right(exists, Instant::now() + timeout).await;
            self.note(reviewed);
        }
        self.lock().outcome.clone().flatten()
    }

    fn is_due(&self, was_refused: bool) -> bool {
        let state = self.lock();
        match (&state.outcome, &state.failure) {
            (Some(Some(_)), _) => true,
            (Some(None), _) => was_refused,
            (None, Some((_, failed))) => failed.elapsed() >= AFTER_FAILURE,
            (None, None) => true,
        }
    }

    fn note(&self, reviewed: Result<Option<String>, ApiError>) {
        let mut state = self.lock();
        let reviewed = reviewed.map_err(|error| error.to_string());
        if let Err(error) = &reviewed {
            let last = state.failure.replace((error.clone(), Instant::now()));
            if last.is_none_or(|(last, _)| last != *error) {
                warn!(%error, "can't review the rights of this candidate, which goes on without it");
            }
        }
        state.outcome = reviewed.ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApiClient {
    /// Asks the API server whether this account may read and write the object, and create it if it
    /// does not exist. Returns the first right that is missing, as text.
    ///
    /// # Errors
    ///
    /// If the API server does not review rights, or could not review these.
    pub(super) async fn missing_right(
        &self,
        exists: bool,
        until: Instant,
    ) -> Result<Option<String>, ApiError> {
        const REVIEWS: &str = "authorization.k8s.io/v1";
        let (namespace, name) = (self.lease.namespace(), self.lease.name());
        let url = format!("{}/apis/{REVIEWS}/selfsubjectaccessreviews", self.server);
        for verb in ["get", "update", "create"] {
            let (mut attributes, object) = match verb {
                "create" if exists => continue,
                // The name of a new object is in the body, so no rule of a Role can name it.
                "create" => (json!({}), String::new()),
                _ => (json!({ "name": name }), format!(" {name:?}")),
            };
            attributes["namespace"] = namespace.into();
            attributes["verb"] = verb.into();
            attributes["group"] = API_GROUP.into();
            attributes["resource"] = "leases".into();
            let review = json!({
                "apiVersion": REVIEWS,
                "kind": "SelfSubjectAccessReview",
                "spec": { "resourceAttributes": attributes },
            });
            let review = self.post(&url, &review, until).await?;
            let status = &review["status"];
            let failure = status["evaluationError"].as_str().unwrap_or_default();
            match status["allowed"].as_bool() {
                Some(true) => {}
                // An authorizer of the API server has failed, and might have allowed it.
                Some(false) if !failure.is_empty() => {
                    let reason = format!("the review of rights failed: {}", shortened(failure));
                    return Err(ApiError::Malformed { url, reason });
                }
                Some(false) => {
                    let user = self.user(until).await;
                    return Ok(Some(format!(
                        "{user} cannot {verb} resource leases.{API_GROUP}{object} in the namespace \
                         {namespace:?}, as the review of {url} says{ROLE}"
                    )));
                }
                None => {
                    let reason = "the answer is no review of rights".into();
                    return Err(ApiError::Malformed { url, reason });
                }
            }
        }
        Ok(None)
    }

    /// Returns the account of the token, as far as the API server tells it.
    async fn user(&self, until: Instant) -> String {
        const REVIEWS: &str = "authentication.k8s.io/v1";
        let url = format!("{}/apis/{REVIEWS}/selfsubjectreviews", self.server);
        let review = json!({ "apiVersion": REVIEWS, "kind": "SelfSubjectReview" });
        let review = self.post(&url, &review, until).await.unwrap_or_default();
        match review["status"]["userInfo"]["username"].as_str() {
            Some(user) => format!("user {:?}", shortened(user)),
            None => "the account of the token".into(),
        }
    }
}
