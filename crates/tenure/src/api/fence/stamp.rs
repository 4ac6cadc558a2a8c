//! Requests that contain the leader's epoch.

use reqwest::RequestBuilder;
use reqwest::header::{HeaderMap, HeaderValue};

use super::{ELECTION_HEADER, EPOCH_HEADER};
use crate::api::leadership::Leadership;
use crate::election::error::NotLeading;

/// Adds the epoch of the leader to a request.
///
/// This crate implements it for `reqwest`. You can implement it for the requests of other HTTP
/// clients.
pub trait Fenced: Sized {
    /// Adds the headers [`EPOCH_HEADER`] and [`ELECTION_HEADER`] if this process leads now, and
    /// replaces existing values.
    ///
    /// Call this method last, right before you send the request. The request may still arrive after
    /// the term, so the receiver needs a fence.
    ///
    /// # Errors
    ///
    /// [`NotLeading`] if the term is over; no request was created, and the task should stop.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tenure::Leadership;
    /// use tenure::fence::Fenced;
    ///
    /// # async fn example(leadership: Leadership) -> Result<(), Box<dyn std::error::Error>> {
    /// let http = reqwest::Client::new();
    /// let request = http.post("http://10.0.0.9:8080/entries").body("42");
    /// let answer = request.fenced(&leadership)?.send().await?;
    /// if answer.status() == reqwest::StatusCode::CONFLICT {
    ///     return Err("another leader has written already".into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn fenced(self, leadership: &Leadership) -> Result<Self, NotLeading>;
}

impl Fenced for RequestBuilder {
    fn fenced(self, leadership: &Leadership) -> Result<Self, NotLeading> {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH_HEADER, leadership.check()?.get().into());
        // All characters of a name are valid in a header.
        if let Ok(election) = HeaderValue::try_from(leadership.election().to_string()) {
            headers.insert(ELECTION_HEADER, election);
        }
        Ok(self.headers(headers))
    }
}
