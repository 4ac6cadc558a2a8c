//! Clients of many kinds, all at once. Their choices derive from the seed.

mod connection;
mod contender;
mod operator;
mod reader;
mod watcher;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_sim::sim::Rng;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::history::{Answer, Ask, Op, Outcome, Recorder, now};
use crate::rights::{ADMIN, CONTENDERS, OPERATOR, READERS};
use connection::Connection;

/// The first half of every lease id of a run: no event may contain it.
pub(crate) const SECRET: u64 = 0x5ec2_e71d_ca11_4bad;

/// The namespace of all leases.
pub(crate) const NAMESPACE: &str = "torture";

/// The tokens of clients, by the names of their principals.
pub(crate) type Tokens = BTreeMap<&'static str, String>;

/// The number of clients of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientCounts {
    pub(crate) contenders: usize,
    pub(crate) operators: usize,
    pub(crate) readers: usize,
}

/// The leases of a round, by the requests that they get. These have normal clients only.
pub(crate) const QUIET: [&str; 10] = [
    "quiet-0", "quiet-1", "quiet-2", "quiet-3", "quiet-4", "quiet-5", "quiet-6", "quiet-7",
    "quiet-8", "quiet-9",
];
/// Operators break these leases and hand them over.
pub(crate) const ROUGH: [&str; 2] = ["rough-0", "rough-1"];
/// These leases have no waiters, and operators delete them.
pub(crate) const SPARSE: [&str; 2] = ["sparse-0", "sparse-1"];

/// The shared state of a round's clients.
#[derive(Debug)]
pub(crate) struct RoundState {
    /// The store's address, and that of a proxy before it.
    pub(crate) routes: [SocketAddr; 2],
    pub(crate) recorder: Recorder,
    tokens: Tokens,
    connections: AtomicU64,
    phase: watch::Sender<Phase>,
    /// The latest attempts to acquire, as targets of hand-overs.
    attempts: Mutex<Vec<(&'static str, String)>>,
}

/// The phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients and faults are active.
    Running,
    /// Clients begin no more work.
    Over,
    /// All leases have been read once more; watchers catch up.
    Settled,
}

impl RoundState {
    pub(crate) fn new(routes: [SocketAddr; 2], tokens: Tokens) -> Self {
        Self {
            routes,
            recorder: Recorder::default(),
            tokens,
            connections: AtomicU64::default(),
            phase: watch::Sender::new(Phase::Running),
            attempts: Mutex::default(),
        }
    }

    /// Begins this phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    fn is_over(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }

    async fn wait_until_settled(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Settled).await;
    }

    async fn open(&self, route: usize) -> io::Result<Connection> {
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        Connection::open(self.routes[route], number).await
    }

    fn attempts(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, String)>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that may want this lease now.
    fn recent_holder(&self, lease: &str, dice: &mut Rng) -> Option<String> {
        let attempts = self.attempts();
        let mut interested: Vec<_> = attempts.iter().rev().filter(|one| one.0 == lease).collect();
        interested.truncate(6);
        let chosen = dice.below(interested.len() as u64) as usize;
        interested.get(chosen).map(|(_, holder)| holder.clone())
    }

    fn attempt(&self, lease: &'static str, holder: String) {
        let mut attempts = self.attempts();
        attempts.push((lease, holder));
        if attempts.len() > 100 {
            attempts.drain(..50);
        }
    }
}

/// Starts all clients of a round.
pub(crate) fn start(
    state: &Arc<RoundState>,
    counts: ClientCounts,
    seed: u64,
) -> Vec<JoinHandle<()>> {
    let session = |kind: &str, principals: &[&'static str], number: usize, stream: u64| {
        let dice = Rng::new(seed, stream + number as u64);
        let principal = principals[number % principals.len()];
        Session::new(state.clone(), format!("{kind}{number}"), principal, dice)
    };
    let mut tasks = Vec::new();
    for number in 0..counts.contenders {
        let session = session("c", &CONTENDERS, number, 1_000);
        tasks.push(tokio::spawn(contender::run(session, number as u64)));
    }
    for number in 0..counts.operators {
        let session = session("o", &[OPERATOR], number, 2_000);
        tasks.push(tokio::spawn(operator::run(session)));
    }
    for number in 0..counts.readers {
        let session = session("r", &READERS, number, 3_000).signs_in(number);
        tasks.push(tokio::spawn(reader::run(session)));
    }
    tasks
}

/// Starts the watchers.
pub(crate) fn start_watchers(state: &Arc<RoundState>, seed: u64) -> Vec<JoinHandle<()>> {
    let watched = watcher::WATCHED.into_iter().enumerate();
    let watchers = watched.map(|(number, (lease, renewed))| {
        let dice = Rng::new(seed, 4_000 + number as u64);
        let principal = READERS[number % READERS.len()];
        let session = Session::new(state.clone(), format!("w{number}"), principal, dice);
        tokio::spawn(watcher::run(session.signs_in(number), lease, renewed))
    });
    watchers.collect()
}

/// Reads everything once more, without faults.
pub(crate) async fn read_all(state: &Arc<RoundState>) {
    let mut session = Session::new(state.clone(), "last".into(), ADMIN, Rng::new(0, 0));
    session.routes = [0, 0];
    for lease in QUIET.into_iter().chain(ROUGH).chain(SPARSE) {
        for ask in [Ask::View, Ask::Terms] {
            session.ask(lease, None, ask, Duration::from_secs(5)).await;
        }
    }
    session
        .ask("", None, Ask::List, Duration::from_secs(5))
        .await;
}

/// A client: its connections and its random choices.
#[derive(Debug)]
struct Session {
    state: Arc<RoundState>,
    name: String,
    principal: &'static str,
    /// Whether the client uses sessions, and its present one.
    signs_in: bool,
    session: Option<String>,
    dice: Rng,
    /// The preferred route is the first.
    routes: [usize; 2],
    /// Open connections without a request.
    spare: Vec<Connection>,
}

/// The result of a request.
#[derive(Debug)]
enum RequestResult {
    Answered(Answer),
    /// The connection broke, or could not be opened.
    Broken,
    /// No answer came in time. The connection is still open, and the answer may come.
    Late(LateRequest),
}

/// A request that its client has given up.
#[derive(Debug)]
struct LateRequest {
    task: JoinHandle<io::Result<(Connection, Answer)>>,
}

impl Session {
    fn new(state: Arc<RoundState>, name: String, principal: &'static str, mut dice: Rng) -> Self {
        let first = dice.below(2) as usize;
        Self {
            state,
            name,
            principal,
            signs_in: false,
            session: None,
            dice,
            routes: [first, first],
            spare: Vec::new(),
        }
    }

    /// Lets every second client of a principal use sessions.
    fn signs_in(mut self, number: usize) -> Self {
        self.signs_in = number / READERS.len() % 2 == 1;
        self
    }

    /// The credential of a request, and whether it is a session.
    fn credential(&self) -> (String, bool) {
        match &self.session {
            Some(session) => (session.clone(), true),
            None => (self.state.tokens[self.principal].clone(), false),
        }
    }

    /// Makes a session, if the client uses sessions and has none.
    async fn sign_in(&mut self) {
        if !self.signs_in || self.session.is_some() {
            return;
        }
        if let Some(connection) = self.connection().await {
            let patience = Duration::from_secs(2);
            let asked = self.ask_over(connection, "", None, Ask::SignIn, patience);
            match asked.await {
                RequestResult::Answered(Answer::SignedIn(session)) => self.session = Some(session),
                RequestResult::Late(late) => late.give_up(),
                RequestResult::Answered(_) | RequestResult::Broken => {}
            }
        }
    }

    /// Forgets the session after an answer with the status of a wrong credential, which is 429 if
    /// the clients of this address have sent many.
    fn refused(&mut self, status: u16) {
        if matches!(status, 401 | 429) {
            self.session = None;
        }
    }

    fn millis(&mut self, least: u64, end: u64) -> Duration {
        Duration::from_millis(least + self.dice.below(end - least))
    }

    fn happens(&mut self, per_cent: u32) -> bool {
        self.dice.happens(per_cent * 10_000)
    }

    async fn pause(&mut self, least: u64, end: u64) {
        let pause = self.millis(least, end);
        sleep(pause).await;
    }

    /// An open connection, or a new one.
    async fn connection(&mut self) -> Option<Connection> {
        self.spare.retain(Connection::is_open);
        match self.spare.pop() {
            Some(connection) => Some(connection),
            None => self.new_connection().await,
        }
    }

    /// Opens spare connections, for repeated requests.
    async fn keep_spare(&mut self) {
        self.spare.retain(Connection::is_open);
        while self.spare.len() < 2 {
            match self.new_connection().await {
                Some(connection) => self.spare.push(connection),
                None => return,
            }
        }
    }

    async fn new_connection(&mut self) -> Option<Connection> {
        let route = self.routes[usize::from(self.happens(20))];
        match self.state.open(route).await {
            Ok(connection) => Some(connection),
            Err(_) => {
                self.pause(20, 100).await;
                None
            }
        }
    }

    /// Sends a request and returns the answer if it comes in time; otherwise closes the connection.
    async fn ask(
        &mut self,
        lease: &str,
        holder: Option<&str>,
        ask: Ask,
        patience: Duration,
    ) -> Option<Answer> {
        self.sign_in().await;
        let connection = self.connection().await?;
        match self
            .ask_over(connection, lease, holder, ask, patience)
            .await
        {
            RequestResult::Answered(answer) => {
                if let Answer::Refused(problem) = &answer {
                    self.refused(problem.status);
                }
                Some(answer)
            }
            RequestResult::Broken => None,
            RequestResult::Late(late) => {
                late.give_up();
                None
            }
        }
    }

    /// Sends a request over this connection, which becomes spare after an answer.
    async fn ask_over(
        &mut self,
        mut connection: Connection,
        lease: &str,
        holder: Option<&str>,
        ask: Ask,
        patience: Duration,
    ) -> RequestResult {
        let (credential, by_session) = self.credential();
        let number = self.state.recorder.begin(Op {
            client: self.name.clone(),
            principal: self.principal,
            by_session,
            connection: connection.number,
            lease: lease.to_owned(),
            holder: holder.map(str::to_owned),
            ask: ask.clone(),
            sent: now(),
            outcome: Outcome::Unknown {
                at: now(),
                why: "the round ended",
            },
        });
        let (state, lease) = (self.state.clone(), lease.to_owned());
        let holder = holder.map(str::to_owned);
        let mut task = tokio::spawn(async move {
            let answer = connection
                .ask(&credential, &lease, holder.as_deref(), &ask)
                .await;
            let at = now();
            let outcome = match &answer {
                Ok(answer) => Outcome::Answered {
                    at,
                    answer: answer.clone(),
                },
                Err(_) => Outcome::Unknown {
                    at,
                    why: "the connection broke",
                },
            };
            state.recorder.end(number, outcome);
            answer.map(|answer| (connection, answer))
        });
        match timeout(patience, &mut task).await {
            Ok(Ok(Ok((connection, answer)))) => {
                if self.spare.len() < 2 {
                    self.spare.push(connection);
                }
                RequestResult::Answered(answer)
            }
            Ok(_) => RequestResult::Broken,
            Err(_) => {
                let late = Outcome::Unknown {
                    at: now(),
                    why: "no answer in time",
                };
                self.state.recorder.end(number, late);
                RequestResult::Late(LateRequest { task })
            }
        }
    }

    /// Sends this request again, later, over another connection: a network may duplicate requests.
    fn repeat_later(&mut self, lease: &'static str, holder: &str, ask: Ask) {
        let after = self.millis(0, 1_500);
        let dice = Rng::new(self.dice.below(u64::MAX), 0);
        let name = format!("{}+", self.name);
        let mut session = Self::new(self.state.clone(), name, self.principal, dice);
        let holder = holder.to_owned();
        tokio::spawn(async move {
            sleep(after).await;
            if !session.state.is_over() {
                let patience = session.millis(20, 2_000);
                session.ask(lease, Some(&holder), ask, patience).await;
            }
        });
    }
}

impl LateRequest {
    /// Closes the connection.
    fn give_up(self) {
        self.task.abort();
    }

    /// Closes the connection after a while, unless an answer comes before.
    fn give_up_after(self, time: Duration) {
        let Self { mut task, .. } = self;
        tokio::spawn(async move {
            if timeout(time, &mut task).await.is_err() {
                task.abort();
            }
        });
    }
}

/// The lease id of this attempt of this client, after this many changes.
const fn lease_id(client: u64, attempt: u64, changes: u64) -> LeaseId {
    LeaseId::from_random_bits(SECRET, (client << 40) | (attempt << 8) | changes)
}
