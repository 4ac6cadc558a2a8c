//! Durable grants per second, compared with SQLite alone in the same folder.
//!
//! The baseline is SQLite alone: one thread that writes rows of the same shape, with the same
//! pragmas, in transactions of as many rows as there are clients. One variant writes only the rows
//! of leases. The other also writes a row for each term that a release ends, and keeps as many
//! terms as a store does.
//!
//! The store writes both kinds of rows. It also handles requests, decides on grants, maintains a
//! checksum of everything and wakes the requests that wait for the disk. It is measured in three
//! ways: without sockets (requests and answers as JSON through its router), over HTTP, and in
//! memory. In memory nothing waits for a disk, so that result is the cost of the requests alone.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection as Database, params};
use support::{
    Child, Connection, Kind, Local, Samples, acquire, folder, fresh, path, per_second, proof, table,
};
use tenure_server::{Store, StoreConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const CLIENTS: u64 = 64;

/// The same definition as the store's own table.
const TABLE: &str = "
    CREATE TABLE leases (
        namespace TEXT NOT NULL, lease TEXT NOT NULL, state TEXT NOT NULL, holder TEXT,
        epoch INTEGER, granted_at_ms INTEGER, duration_ms INTEGER, lease_id BLOB, break_ms INTEGER,
        lock_delay_ms INTEGER, metadata TEXT NOT NULL, reserved_for TEXT, reserved_ms INTEGER,
        retired BLOB NOT NULL, revision INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE terms (
        namespace TEXT NOT NULL, lease TEXT NOT NULL, epoch INTEGER NOT NULL, holder TEXT NOT NULL,
        began_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, end TEXT, reason TEXT,
        crc INTEGER NOT NULL, PRIMARY KEY (namespace, lease, epoch)
    ) STRICT, WITHOUT ROWID;";

const UPSERT: &str = "
    INSERT INTO leases (namespace, lease, state, holder, epoch, granted_at_ms, duration_ms,
        lease_id, break_ms, lock_delay_ms, metadata, reserved_for, reserved_ms, retired, revision,
        crc)
    VALUES ('bench', ?1, ?2, 'worker-0000001', ?3, ?3, 86400000, ?4, NULL, 0, '{}', NULL, NULL, ?5,
        ?3, 1234567890)
    ON CONFLICT (namespace, lease) DO UPDATE SET state = ?2, holder = 'worker-0000001', epoch = ?3,
        granted_at_ms = ?3, duration_ms = 86400000, lease_id = ?4, break_ms = NULL,
        lock_delay_ms = 0, metadata = '{}', reserved_for = NULL, reserved_ms = NULL, retired = ?5,
        revision = ?3, crc = 1234567890";

const INSERT_TERM: &str = "
    INSERT INTO terms (namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc)
    VALUES ('bench', ?1, ?2, 'worker-0000001', ?2, ?2, 'released', NULL, 1234567890)";

/// Deletes all but the last hundred terms, as a store does.
const FORGET_TERMS: &str = "
    DELETE FROM terms WHERE namespace = 'bench' AND lease = ?1 AND epoch <= (
        SELECT epoch FROM terms WHERE namespace = 'bench' AND lease = ?1
        ORDER BY epoch DESC LIMIT 1 OFFSET 100)";

/// The number of rows of leases after which old terms are deleted, and the number of pages after
/// which the write-ahead log is moved into the database. A store uses the same numbers.
const FORGET_AFTER_ROWS: u64 = 4_000;
const CHECKPOINT_AFTER_PAGES: u64 = 4_000;

/// The rows that SQLite alone writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Leases,
    LeasesAndTerms,
}

fn main() {
    support::serve_if_asked();
    let (rounds, length) = match support::quick() {
        true => (2, Duration::from_millis(200)),
        false => (7, Duration::from_millis(700)),
    };
    let folders: Vec<_> = (0..4).map(|_| folder()).collect();
    let runtime = Runtime::new().expect("a runtime");
    let client_runtime = Builder::new_current_thread().enable_all().build();
    let client_runtime = client_runtime.expect("a runtime");
    let mut leases = Alone::new(folders[0].path(), Rows::Leases);
    let mut terms = Alone::new(folders[3].path(), Rows::LeasesAndTerms);
    let store = |config| Local::new(Store::open(config).expect("a store"));
    let local = store(StoreConfig::embedded(folders[1].path()));
    let memory = store(StoreConfig::memory());
    let server = Child::start(Kind::Embedded, 0, folders[2].path());

    let mut rates: [Samples; 9] = Default::default();
    // The first round is a warm-up.
    for round in 0..=rounds {
        let measured = [
            leases.commit(CLIENTS, length),
            terms.commit(CLIENTS, length),
            runtime.block_on(local_pairs(&local, CLIENTS, length)),
            client_runtime.block_on(remote_pairs(&server, length)),
            runtime.block_on(local_pairs(&memory, CLIENTS, length)),
            leases.commit(1, length),
            terms.commit(1, length),
            runtime.block_on(local_pairs(&local, 1, length)),
            runtime.block_on(hand_overs(&local, length)),
        ];
        if round > 0 {
            for (samples, rate) in rates.iter_mut().zip(measured) {
                samples.push(rate);
            }
        }
    }
    let [
        leases,
        terms,
        here,
        behind,
        memory,
        single_leases,
        single_terms,
        single_here,
        handed,
    ] = rates;
    let row = |name: &str, rate: &Samples, bases: &[&Samples]| {
        let ratios = bases.iter().map(|base| rate.over(base).text(2));
        [name.to_owned(), rate.text(0)]
            .into_iter()
            .chain(ratios)
            .collect::<Vec<_>>()
    };
    let head = |cells: &[&str]| cells.iter().copied().map(String::from).collect();
    let bases = [&leases, &terms];
    let rows = [
        head(&[
            "",
            "durable changes per second",
            "over leases alone",
            "over leases and terms",
        ]),
        row("SQLite alone, 64 leases per transaction", &leases, &bases),
        row("SQLite alone, leases and ended terms", &terms, &bases),
        row("the store, 64 clients, no sockets", &here, &bases),
        row("the store, 64 clients over HTTP", &behind, &bases),
        row("in memory, 64 clients, no sockets", &memory, &bases),
    ];
    table(
        "Acquire and release of 64 leases (target: over SQLite alone with the same content, which is leases \
         and terms, at least 0.8)",
        &rows,
    );
    let bases = [&single_leases, &single_terms, &single_here];
    let rows = [
        head(&[
            "",
            "per second",
            "over leases alone",
            "over leases and terms",
            "over one client",
        ]),
        row(
            "SQLite alone, one lease per transaction",
            &single_leases,
            &bases,
        ),
        row(
            "SQLite alone, the lease and its ended term",
            &single_terms,
            &bases,
        ),
        row("the store, changes of one client", &single_here, &bases),
        row("the store, hand-overs among 64 clients", &handed, &bases),
    ];
    table(
        "One lease with 64 waiters (target: over SQLite alone at least 0.8)",
        &rows,
    );
}

/// SQLite without a store.
struct Alone {
    database: Database,
    rows: Rows,
    revision: u64,
}

impl Alone {
    fn new(folder: &Path, rows: Rows) -> Self {
        let database = Database::open(folder.join("alone.db")).expect("a database");
        let mode = database.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        mode.expect("a write-ahead log");
        let pragmas = "PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;
            PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;";
        database.execute_batch(pragmas).expect("pragmas");
        let pages = database.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_AFTER_PAGES);
        pages.expect("a pragma");
        database.execute_batch(TABLE).expect("a table");
        Self {
            database,
            rows,
            revision: 0,
        }
    }

    /// Commits transactions of `changes` changes each. Returns the changes per second.
    fn commit(&mut self, changes: u64, length: Duration) -> f64 {
        let began = Instant::now();
        let (mut written, mut unforgotten) = (0, 0);
        while began.elapsed() < length {
            let transaction = self.database.unchecked_transaction();
            let transaction = transaction.expect("a transaction");
            for _ in 0..changes {
                self.revision += 1;
                write(&transaction, self.revision, self.rows);
            }
            transaction.commit().expect("a commit");
            written += changes;
            unforgotten += changes;
            if self.rows == Rows::LeasesAndTerms && unforgotten >= FORGET_AFTER_ROWS {
                unforgotten = 0;
                self.forget_terms();
            }
        }
        per_second(written, began.elapsed())
    }

    fn forget_terms(&self) {
        let transaction = self.database.unchecked_transaction();
        let transaction = transaction.expect("a transaction");
        for number in 0..CLIENTS {
            let mut forget = transaction.prepare_cached(FORGET_TERMS).expect("one");
            forget.execute([lease(number)]).expect("old terms");
        }
        transaction.commit().expect("a commit");
    }
}

/// Writes a lease that is alternately acquired and released, and keeps its last ids.
fn write(database: &Database, revision: u64, rows: Rows) {
    let (id, retired) = ([7_u8; 16], [9_u8; 16 * 32]);
    let lease = lease(revision % CLIENTS);
    let is_held = (revision / CLIENTS).is_multiple_of(2);
    let state = if is_held { "leased" } else { "available" };
    let mut upsert = database.prepare_cached(UPSERT).expect("a statement");
    let number = revision as i64;
    let written = upsert.execute(params![
        lease,
        state,
        number,
        id.as_slice(),
        retired.as_slice()
    ]);
    written.expect("a row");
    if rows == Rows::LeasesAndTerms && !is_held {
        let mut insert = database.prepare_cached(INSERT_TERM).expect("a statement");
        insert.execute(params![lease, number]).expect("a row");
    }
}

fn lease(number: u64) -> String {
    format!("lease-{number:07}")
}

/// Returns the changes per second of clients that acquire and release, each its own lease.
async fn local_pairs(local: &Local, clients: u64, length: Duration) -> f64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let mut local = local.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < length {
                let id = fresh();
                let acquired = local.post(&path(client, "acquire"), acquire(id, 0)).await;
                assert_eq!(acquired, 200);
                let released = local.post(&path(client, "release"), proof(id)).await;
                assert_eq!(released, 200);
                done += 2;
            }
            done
        });
    }
    let done = tasks.join_all().await.iter().sum();
    per_second(done, began.elapsed())
}

/// Returns the same over HTTP, with the store in another process.
async fn remote_pairs(server: &Child, length: Duration) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Connection::open(server.address).await);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (client, mut connection) in (0..).zip(connections) {
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < length {
                let id = fresh();
                let acquired = connection
                    .post(&path(client, "acquire"), &acquire(id, 0))
                    .await;
                assert_eq!(acquired, 200);
                let released = connection.post(&path(client, "release"), &proof(id)).await;
                assert_eq!(released, 200);
                done += 2;
            }
            done
        });
    }
    let done = tasks.join_all().await.iter().sum();
    per_second(done, began.elapsed())
}

/// Returns how many times per second a lease passes from its holder to the next waiter.
async fn hand_overs(local: &Local, length: Duration) -> f64 {
    const CONTENDED: u64 = 9_999_999;
    let grants = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut local, grants) = (local.clone(), Arc::clone(&grants));
        tasks.spawn(async move {
            while began.elapsed() < length {
                let id = fresh();
                let acquired = local
                    .post(&path(CONTENDED, "acquire"), acquire(id, 60_000))
                    .await;
                assert_eq!(acquired, 200);
                grants.fetch_add(1, Ordering::Relaxed);
                let released = local.post(&path(CONTENDED, "release"), proof(id)).await;
                assert_eq!(released, 200);
            }
        });
    }
    tasks.join_all().await;
    per_second(grants.load(Ordering::Relaxed), began.elapsed())
}
