//! A service that stores entries in a file and refuses entries from a leader that was replaced.
//!
//! ```text
//! cargo run -p tenure-examples --example fenced_receiver -- ledger.txt 127.0.0.1:8090
//! curl -i -H 'tenure-epoch: 7' -d 'from the old leader' http://127.0.0.1:8090/entries   # 204
//! curl -i -H 'tenure-epoch: 9' -d 'from the new leader' http://127.0.0.1:8090/entries   # 204
//! curl -i -H 'tenure-epoch: 7' -d 'late' http://127.0.0.1:8090/entries                  # 409
//! curl http://127.0.0.1:8090/entries
//! ```
//!
//! A leader adds its epoch with `tenure::fence::Fenced`; a script under `tenure run` with
//! `curl -H "tenure-epoch: $TENURE_EPOCH"`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::routing::post;
use tenure::Epoch;
use tenure::fence::{Admission, FenceLayer, Gate};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .context("usage: fenced_receiver FILE [ADDRESS:PORT]")?;
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());

    let (ledger, greatest) = Ledger::open(path.as_ref())?;
    // The gate starts at the greatest epoch in the file, so a restart accepts no stale epoch.
    let fence = FenceLayer::new(Gate::starting_at(greatest));
    let app = Router::new()
        // The fence protects writes only; reads need no epoch.
        .route("/entries", post(append).route_layer(fence).get(list))
        .with_state(Arc::new(ledger));
    let listener = TcpListener::bind(&listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let shutdown = tenure::shutdown_signal()?;
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown)
        .await?;
    Ok(())
}

type Answer = Result<StatusCode, (StatusCode, String)>;

async fn append(
    State(ledger): State<Arc<Ledger>>,
    Extension(admission): Extension<Admission>,
    entry: String,
) -> Answer {
    if entry.contains('\n') {
        return Err((StatusCode::BAD_REQUEST, "an entry is one line\n".into()));
    }
    spawn_blocking(move || ledger.append(&admission, &entry))
        .await
        .unwrap_or_else(|panic| Err((StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())))
}

async fn list(State(ledger): State<Arc<Ledger>>) -> Result<String, StatusCode> {
    let text = spawn_blocking(move || fs::read_to_string(&ledger.path)).await;
    let text = text.ok().and_then(Result::ok);
    text.ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A file with one entry per line, each preceded by the epoch under which it was written.
struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl Ledger {
    /// Opens the ledger and returns the greatest epoch in it.
    fn open(path: &Path) -> anyhow::Result<(Self, Epoch)> {
        let file = File::options().create(true).append(true).open(path)?;
        // Two receivers would have two gates, and neither would know the epochs of the other.
        file.try_lock()
            .context("another receiver uses this ledger")?;
        let text = fs::read_to_string(path)?;
        // A line without its end was interrupted by a crash and never acknowledged.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        file.set_len(whole.len().try_into()?)?;
        let epochs = whole.lines().filter_map(|line| {
            let (epoch, _) = line.split_once(' ')?;
            Epoch::new(epoch.parse().ok()?)
        });
        let greatest = epochs.max().or(Epoch::new(0)).context("no epoch")?;
        let (path, file) = (path.to_owned(), Mutex::new(file));
        Ok((Self { path, file }, greatest))
    }

    fn append(&self, admission: &Admission, entry: &str) -> Answer {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked again under the lock: a newer leader may have written since this request arrived.
        let epoch = admission
            .check()
            .map_err(|stale| (StatusCode::CONFLICT, stale.to_string()))?;
        writeln!(file, "{epoch} {entry}")
            .and_then(|()| file.sync_data())
            .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        Ok(StatusCode::NO_CONTENT)
    }
}
