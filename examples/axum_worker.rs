//! A web service on several machines whose leader hands out unique, increasing ticket numbers,
//! without a database. Every instance accepts requests; followers redirect to the leader.
//!
//! Start a store with `tenure serve`, then several instances:
//!
//! ```text
//! export TENURE_ELECTION=web/tickets
//! cargo run -p tenure-examples --example axum_worker -- 127.0.0.1:8081
//! cargo run -p tenure-examples --example axum_worker -- 127.0.0.1:8082
//! curl -L -X POST http://127.0.0.1:8081/tickets   # prints 1795230310385-1
//! curl -i http://127.0.0.1:8082/leader            # 200 on the leader, 503 elsewhere
//! ```
//!
//! Behind a proxy, or when listening on 0.0.0.0, pass the address under which others reach the
//! instance as the second argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use tenure::observe::{Observed, Observer};
use tenure::router::ADDRESS;
use tenure::{Candidate, CandidateId, Config, Leadership};
use tokio::net::TcpListener;
use tokio::sync::watch;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(&listen).await?;
    let here = format!("http://{}", listener.local_addr()?);
    println!("listening on {here}");

    // Metadata of the leader: followers redirect clients to this address.
    let address = arguments.next().unwrap_or(here);
    let config = Config::from_env()?.with_metadata([(ADDRESS.into(), address)].into());
    let candidate = Arc::new(Candidate::start(config).await?);

    let state = AppState {
        leader: watch_address(candidate.observe(), candidate.id().clone()),
        candidate: candidate.clone(),
        tickets: Arc::default(),
    };
    let app = Router::new()
        .route("/tickets", post(issue_ticket))
        .with_state(state)
        .merge(candidate.router());
    // The server and the campaign both stop on SIGTERM and Ctrl-C.
    let (stop_serving, stop_leading) = (tenure::shutdown_signal()?, tenure::shutdown_signal()?);
    let serve = async {
        let serve = axum::serve(listener, app).with_graceful_shutdown(stop_serving);
        serve.await.map_err(anyhow::Error::from)
    };
    let campaign = async {
        let lead = candidate.run_while_leader(stop_leading, lead);
        lead.await.map_err(anyhow::Error::from)
    };
    // If one of the two fails, the process ends: monitoring should see that this worker is down.
    tokio::try_join!(serve, campaign)?;
    Ok(())
}

/// The handlers do the work, so the task only holds the term.
async fn lead(leadership: Leadership) {
    println!(
        "tickets are handed out here, under epoch {}",
        leadership.epoch()
    );
    leadership.lost().await;
}

#[derive(Clone)]
struct AppState {
    candidate: Arc<Candidate>,
    tickets: Arc<AtomicU64>,
    /// The address of the leader, unless this process leads.
    leader: watch::Receiver<Option<String>>,
}

async fn issue_ticket(State(state): State<AppState>) -> Response {
    // Checked for each request: the answer to an earlier check may be out of date.
    if let Some(leadership) = state.candidate.leadership() {
        // No other term has this epoch, so no other leader issues this ticket, even if this process
        // is frozen here and another leader exists when it continues.
        let number = state.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        return format!("{}-{number}\n", leadership.epoch()).into_response();
    }
    match &*state.leader.borrow() {
        // 307: the client repeats the same request there.
        Some(address) => Redirect::temporary(&format!("{address}/tickets")).into_response(),
        None => {
            let later = [(RETRY_AFTER, "1")];
            (StatusCode::SERVICE_UNAVAILABLE, later, "no leader\n").into_response()
        }
    }
}

/// Keeps the address of the leader up to date; `None` if there is none or this process leads.
fn watch_address(mut observer: Observer, own: CandidateId) -> watch::Receiver<Option<String>> {
    let (sender, leader) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            sender.send_replace(match observer.next().await {
                Observed::Leader {
                    candidate,
                    metadata,
                    ..
                } if candidate != own => metadata.get(ADDRESS).cloned(),
                _ => None,
            });
        }
    });
    leader
}
