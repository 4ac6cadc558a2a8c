//! Answers of members, before they are checked.

use reqwest::Response;
use serde::Deserialize;
use tenure_core::NodeId;

use crate::http::builder::read_body;
use crate::peers::wire::envelope::{Answerer, MAX_ANSWER_BYTES};
use crate::peers::wire::mac::{MAC_HEADER, Mac, RequestMac};
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};

/// An answer that is not checked yet.
#[derive(Debug)]
pub(super) struct RawAnswer {
    pub(super) status: u16,
    pub(super) mac: Option<String>,
    pub(super) body: Vec<u8>,
}

/// The part that acceptances and refusals share.
#[derive(Deserialize)]
struct Origin {
    member: Option<Answerer>,
    code: Option<PeerErrorCode>,
}

impl RawAnswer {
    pub(super) async fn read(response: Response) -> reqwest::Result<Self> {
        let mac = response.headers().get(MAC_HEADER);
        Ok(Self {
            status: response.status().as_u16(),
            mac: mac.map(|mac| mac.to_str().unwrap_or_default().to_owned()),
            // If the body is too long, it is empty here, and the MAC is wrong.
            body: (read_body(response, MAX_ANSWER_BYTES).await?).unwrap_or_default(),
        })
    }

    /// Returns whether a member gave this answer to this request.
    pub(super) fn is_authentic(&self, request: &RequestMac) -> bool {
        let expected = request.of_answer(self.status, &self.body);
        Mac::is_good(expected.as_deref(), self.mac.as_deref())
    }

    /// Returns the refusal in this answer.
    pub(super) fn problem(&self) -> Option<PeerProblem> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns this answer if `to` gave it to this request, otherwise the reason that it contains.
    /// That reason is for people only, because a process without the key may have written it.
    pub(super) fn of_receiver(self, to: NodeId, request: &RequestMac) -> Result<Self, String> {
        let by = self.origin().and_then(|origin| origin.member);
        if self.is_authentic(request) && by.is_some_and(|by| by.node == to) {
            return Ok(self);
        }
        let reason = self.problem().map(|problem| problem.detail);
        Err(reason.unwrap_or_else(|| format!("status {}", self.status)))
    }

    /// Returns whether the receiver refuses this copy of a request because it has accepted another
    /// copy, or a newer request.
    pub(super) fn is_of_a_copy(&self) -> bool {
        let code = self.origin().and_then(|origin| origin.code);
        code == Some(PeerErrorCode::Replayed)
    }

    fn origin(&self) -> Option<Origin> {
        serde_json::from_slice(&self.body).ok()
    }
}
