//! HTTP routes with a candidate's state, for load balancers, probes and clients that search for the
//! leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tenure_core::{CandidateId, Epoch};
use tokio::sync::watch;

use crate::api::candidate::Candidate;
use crate::api::fence::EPOCH_HEADER;
use crate::api::observe::Observer;
use crate::base::observed::Observed;
use crate::config::Config;
use crate::election::term::TermState;

/// The HTTP header with the leader's address, if its metadata contain one.
pub const LEADER_HEADER: &str = "tenure-leader";

/// The key of a candidate's address in its [metadata](crate::Config::with_metadata).
pub const ADDRESS: &str = "address";

impl Candidate {
    /// Returns routes that show this candidate's state. Merge them into the routes of a service, or
    /// serve them separately:
    ///
    /// | route | answer |
    /// |---|---|
    /// | `GET` or `HEAD` `/leader` | 200 on the leader, 503 elsewhere: for a load balancer that sends everything to the leader |
    /// | `GET /livez` | 200 while the process answers |
    /// | `GET /readyz` | 200 while the candidate's thread works, else 503; whether it leads does not matter |
    ///
    /// The body of `/leader`; `leader` is null if there is no known leader:
    ///
    /// ```json
    /// {
    ///   "election": "billing/nightly", "candidate": "worker-2", "leading": false,
    ///   "leader": {
    ///     "candidate": "worker-1", "epoch": 1795230310385, "address": "http://10.0.0.7:8080",
    ///     "metadata": {"address": "http://10.0.0.7:8080"}
    ///   }
    /// }
    /// ```
    ///
    /// With a [fallback](Config::with_fallback), the body of the leader also has `carried_by`: the
    /// `kind` of the quorum (`store` or `members`), `further_losses` and `store_silent_since`.
    ///
    /// If the leader is known, the header [`EPOCH_HEADER`] has its epoch, and [`LEADER_HEADER`] its
    /// address if its metadata contain one under [`ADDRESS`]. A `HEAD` request is enough for both.
    ///
    /// **200 means that this process leads at this instant**, according to its own clock. The
    /// router knows other leaders from watching the election, which may be outdated.
    ///
    /// The router does not keep the candidate alive: `/readyz` fails after it is dropped. If a
    /// service has routes with these names, nest it:
    /// `Router::new().nest("/tenure", candidate.router())`.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, because a task watches the election until the router is
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use axum::routing::get;
    /// use tenure::{Candidate, Config};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let candidate = Candidate::start(Config::load("tenure.toml")?).await?;
    /// let app = axum::Router::new()
    ///     .route("/", get(async || "hello"))
    ///     .merge(candidate.router());
    /// let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
    /// axum::serve(listener, app).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn router(&self) -> Router {
        let view = View {
            config: self.driver.config.clone(),
            terms: self.driver.terms.clone(),
            seen: follow(self.observe()),
        };
        Router::new()
            .route("/leader", get(leader))
            .route("/livez", get(async || "alive\n"))
            .route("/readyz", get(readyz))
            .with_state(view)
    }
}

/// The state of the routes. It does not keep the candidate alive.
#[derive(Clone)]
struct View {
    config: Arc<Config>,
    terms: watch::Receiver<Option<Arc<TermState>>>,
    seen: watch::Receiver<Observed>,
}

#[derive(Serialize)]
struct LeaderBody {
    election: String,
    candidate: String,
    leading: bool,
    leader: Option<Leader>,
}

#[derive(Serialize)]
struct Leader {
    candidate: String,
    epoch: u64,
    address: Option<String>,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    carried_by: Option<CarriedBy>,
}

/// The voters that carry the term of this process, with a fallback.
#[derive(Serialize)]
struct CarriedBy {
    kind: &'static str,
    further_losses: usize,
    store_silent_since: Option<String>,
}

impl Leader {
    fn new(candidate: &CandidateId, epoch: Epoch, metadata: BTreeMap<String, String>) -> Self {
        Self {
            candidate: candidate.to_string(),
            epoch: epoch.get(),
            address: metadata.get(ADDRESS).cloned(),
            metadata,
            carried_by: None,
        }
    }
}

#[cfg(feature = "peers")]
fn carrier_of(term: &TermState) -> Option<CarriedBy> {
    let quorum = (*term.quorum.borrow())?;
    Some(CarriedBy {
        kind: quorum.kind.as_str(),
        further_losses: quorum.further_losses,
        store_silent_since: quorum.store_silent_since.map(crate::base::clock::rfc3339),
    })
}

#[cfg(not(feature = "peers"))]
fn carrier_of(_: &TermState) -> Option<CarriedBy> {
    None
}

impl View {
    /// Returns this process if it leads now.
    fn own(&self) -> Option<Leader> {
        let term = self.terms.borrow().clone()?;
        let config = &self.config;
        (!term.until(&term.valid_until).is_zero()).then(|| {
            let metadata = term.proclaimed.borrow().clone();
            let metadata = metadata.unwrap_or_else(|| config.metadata.clone());
            Leader {
                carried_by: carrier_of(&term),
                ..Leader::new(&config.candidate, term.epoch, metadata)
            }
        })
    }

    /// Returns another leader, if one is known.
    fn other(&self) -> Option<Leader> {
        match &*self.seen.borrow() {
            // The store may still name this candidate for a moment after its term. A client that is
            // redirected here would be redirected again.
            Observed::Leader { candidate, .. } if *candidate == self.config.candidate => None,
            Observed::Leader {
                candidate,
                epoch,
                metadata,
            } => Some(Leader::new(candidate, *epoch, metadata.clone())),
            Observed::NoLeader | Observed::Unknown(_) => None,
        }
    }
}

async fn leader(State(view): State<View>) -> Response {
    let own = view.own();
    let leading = own.is_some();
    let leader = own.or_else(|| view.other());
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(leader) = &leader {
        headers.insert(EPOCH_HEADER, leader.epoch.into());
        // Another process has chosen this text. If it is not a valid header value, only the body
        // contains it.
        let address = leader.address.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(address)) = address {
            headers.insert(LEADER_HEADER, address);
        }
    }
    let status = if leading {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = LeaderBody {
        election: view.config.election.to_string(),
        candidate: view.config.candidate.to_string(),
        leading,
        leader,
    };
    (status, headers, Json(body)).into_response()
}

async fn readyz(State(view): State<View>) -> (StatusCode, &'static str) {
    // The candidate's thread closes this channel when it ends, for any reason.
    if view.terms.has_changed().is_ok() {
        (StatusCode::OK, "ready\n")
    } else {
        let why = "the candidate's thread has ended\n";
        (StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

/// Keeps the last observed state until the receiver is dropped.
fn follow(mut observer: Observer) -> watch::Receiver<Observed> {
    let (sender, seen) = watch::channel(Observed::Unknown("not asked yet".into()));
    tokio::spawn(async move {
        let follow = async {
            loop {
                sender.send_replace(observer.next().await);
            }
        };
        tokio::select! {
            () = follow => {}
            () = sender.closed() => {}
        }
    });
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use std::sync::Weak;
    use std::time::Duration;
    use tenure_core::{CandidateId, Epoch};

    fn view(term: Option<TermState>, seen: Observed) -> View {
        let own: CandidateId = "worker-1".parse().unwrap();
        let config = Config::new("web/coordinator".parse().unwrap()).with_candidate(own);
        View {
            config: Arc::new(config),
            terms: watch::channel(term.map(Arc::new)).1,
            seen: watch::channel(seen).1,
        }
    }

    fn led_by(candidate: &str) -> Observed {
        Observed::Leader {
            candidate: candidate.parse().unwrap(),
            epoch: Epoch::new(7).unwrap(),
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn clients_are_not_sent_to_a_candidate_that_does_not_lead_by_its_own_clock() {
        let others = |seen| view(None, seen).other().map(|leader| leader.candidate);
        assert_eq!(others(led_by("worker-2")).as_deref(), Some("worker-2"));
        assert_eq!(others(led_by("worker-1")), None);
        assert_eq!(others(Observed::NoLeader), None);
        assert_eq!(others(Observed::Unknown("cut off".into())), None);
    }

    #[test]
    fn a_leader_is_shown_until_its_term_s_time_is_over() {
        let clock = Clock::system().unwrap();
        for (left, leads) in [(3_600, true), (0, false)] {
            let config = view(None, Observed::NoLeader).config;
            let epoch = Epoch::new(9).unwrap();
            let term = TermState::new(epoch, None, config, clock.clone(), Weak::new());
            term.update(Some(clock.now() + Duration::from_secs(left)), None);
            let own = view(Some(term), led_by("worker-1")).own();
            assert_eq!(own.map(|leader| leader.epoch), leads.then_some(9));
        }
    }
}
