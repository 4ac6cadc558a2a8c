//! Clients of many kinds, all at once: each one's choices come from the seed.

mod contender;
mod line;
mod operator;
mod reader;
mod watcher;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::lease::LeaseId;
use tenure_lab::sim::Rng;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::history::{Answer, Ask, Op, Outcome, Recorder, now};
use line::Line;

/// The first half of every lease id of a run: an event that has it in its text tells a secret.
pub(crate) const SECRET: u64 = 0x5ec2_e71d_ca11_4bad;

/// How many clients of each kind there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) contenders: usize,
    pub(crate) operators: usize,
    pub(crate) readers: usize,
}

/// The leases of a round, by what is done to them.
pub(crate) const QUIET: [&str; 10] = [
    "quiet-0", "quiet-1", "quiet-2", "quiet-3", "quiet-4", "quiet-5", "quiet-6", "quiet-7",
    "quiet-8", "quiet-9",
];
/// Operators break these and hand them over.
pub(crate) const ROUGH: [&str; 2] = ["rough-0", "rough-1"];
/// Nobody waits for these, and operators delete them.
pub(crate) const SPARSE: [&str; 2] = ["sparse-0", "sparse-1"];

/// What the clients of a round share.
#[derive(Debug)]
pub(crate) struct World {
    /// The store, and a proxy before it.
    pub(crate) routes: [SocketAddr; 2],
    pub(crate) recorder: Recorder,
    connections: AtomicU64,
    phase: watch::Sender<Phase>,
    /// The attempts that were begun last, for those who hand a lease over.
    attempts: Mutex<Vec<(&'static str, String)>>,
}

/// How far a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients and faults are at work.
    Running,
    /// Clients begin nothing new.
    Over,
    /// Everything has been looked at once more; those who follow events catch up.
    Settled,
}

impl World {
    pub(crate) fn new(routes: [SocketAddr; 2]) -> Self {
        Self {
            routes,
            recorder: Recorder::default(),
            connections: AtomicU64::default(),
            phase: watch::Sender::new(Phase::Running),
            attempts: Mutex::default(),
        }
    }

    /// From now on it is this phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    fn is_over(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }

    async fn settled(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Settled).await;
    }

    async fn open(&self, route: usize) -> io::Result<Line> {
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        Line::open(self.routes[route], number).await
    }

    fn attempts(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, String)>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who may want this lease now.
    fn somebody(&self, lease: &str, dice: &mut Rng) -> Option<String> {
        let attempts = self.attempts();
        let mut wanting: Vec<_> = attempts.iter().rev().filter(|one| one.0 == lease).collect();
        wanting.truncate(6);
        let chosen = dice.below(wanting.len() as u64) as usize;
        wanting.get(chosen).map(|(_, holder)| holder.clone())
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
pub(crate) fn start(world: &Arc<World>, crowd: Crowd, seed: u64) -> Vec<JoinHandle<()>> {
    let session = |kind: &str, number: usize, stream: u64| {
        let dice = Rng::new(seed, stream + number as u64);
        Session::new(world.clone(), format!("{kind}{number}"), dice)
    };
    let mut tasks = Vec::new();
    for number in 0..crowd.contenders {
        let session = session("c", number, 1_000);
        tasks.push(tokio::spawn(contender::run(session, number as u64)));
    }
    for number in 0..crowd.operators {
        tasks.push(tokio::spawn(operator::run(session("o", number, 2_000))));
    }
    for number in 0..crowd.readers {
        tasks.push(tokio::spawn(reader::run(session("r", number, 3_000))));
    }
    tasks
}

/// Starts those who follow events.
pub(crate) fn start_watchers(world: &Arc<World>, seed: u64) -> Vec<JoinHandle<()>> {
    let watched = watcher::WATCHED.into_iter().enumerate();
    let watchers = watched.map(|(number, (lease, renewed))| {
        let dice = Rng::new(seed, 4_000 + number as u64);
        let session = Session::new(world.clone(), format!("w{number}"), dice);
        tokio::spawn(watcher::run(session, lease, renewed))
    });
    watchers.collect()
}

/// Looks at everything once more, when no faults are left.
pub(crate) async fn look_at_all(world: &Arc<World>) {
    let mut session = Session::new(world.clone(), "last".into(), Rng::new(0, 0));
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

/// One client: its connections and its choices.
#[derive(Debug)]
struct Session {
    world: Arc<World>,
    name: String,
    dice: Rng,
    /// It prefers the first.
    routes: [usize; 2],
    /// Connections that are open and have nothing to do.
    spare: Vec<Line>,
}

/// What came of asking.
#[derive(Debug)]
enum Asked {
    Answered(Answer),
    /// The connection broke, or there was none.
    Broken,
    /// No answer came in time. The connection is still open, and the answer may come.
    Late(Late),
}

/// A request that its client has given up.
#[derive(Debug)]
struct Late {
    task: JoinHandle<io::Result<(Line, Answer)>>,
}

impl Session {
    fn new(world: Arc<World>, name: String, mut dice: Rng) -> Self {
        let first = dice.below(2) as usize;
        Self {
            world,
            name,
            dice,
            routes: [first, first],
            spare: Vec::new(),
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

    /// A connection that is there already, or a new one.
    async fn line(&mut self) -> Option<Line> {
        self.spare.retain(Line::is_open);
        match self.spare.pop() {
            Some(line) => Some(line),
            None => self.new_line().await,
        }
    }

    /// Has connections that are open and have nothing to do, so that it can ask again over one of them.
    async fn keep_spare(&mut self) {
        self.spare.retain(Line::is_open);
        while self.spare.len() < 2 {
            match self.new_line().await {
                Some(line) => self.spare.push(line),
                None => return,
            }
        }
    }

    async fn new_line(&mut self) -> Option<Line> {
        let route = self.routes[usize::from(self.happens(20))];
        match self.world.open(route).await {
            Ok(line) => Some(line),
            Err(_) => {
                self.pause(20, 100).await;
                None
            }
        }
    }

    /// Asks, and gives the answer if one comes in time; if not, the connection is closed.
    async fn ask(
        &mut self,
        lease: &str,
        holder: Option<&str>,
        ask: Ask,
        patience: Duration,
    ) -> Option<Answer> {
        let line = self.line().await?;
        match self.ask_over(line, lease, holder, ask, patience).await {
            Asked::Answered(answer) => Some(answer),
            Asked::Broken => None,
            Asked::Late(late) => {
                late.give_up();
                None
            }
        }
    }

    /// Asks over this connection, which is spare again after an answer.
    async fn ask_over(
        &mut self,
        mut line: Line,
        lease: &str,
        holder: Option<&str>,
        ask: Ask,
        patience: Duration,
    ) -> Asked {
        let number = self.world.recorder.begin(Op {
            client: self.name.clone(),
            connection: line.number,
            lease: lease.to_owned(),
            holder: holder.map(str::to_owned),
            ask: ask.clone(),
            sent: now(),
            outcome: Outcome::Unknown {
                at: now(),
                why: "the round ended",
            },
        });
        let (world, lease) = (self.world.clone(), lease.to_owned());
        let holder = holder.map(str::to_owned);
        let mut task = tokio::spawn(async move {
            let answer = line.ask(&lease, holder.as_deref(), &ask).await;
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
            world.recorder.end(number, outcome);
            answer.map(|answer| (line, answer))
        });
        match timeout(patience, &mut task).await {
            Ok(Ok(Ok((line, answer)))) => {
                if self.spare.len() < 2 {
                    self.spare.push(line);
                }
                Asked::Answered(answer)
            }
            Ok(_) => Asked::Broken,
            Err(_) => {
                let late = Outcome::Unknown {
                    at: now(),
                    why: "no answer in time",
                };
                self.world.recorder.end(number, late);
                Asked::Late(Late { task })
            }
        }
    }

    /// Sends this once more, later, over another connection: a network may repeat what was sent.
    fn repeat_later(&mut self, lease: &'static str, holder: &str, ask: Ask) {
        let after = self.millis(0, 1_500);
        let dice = Rng::new(self.dice.below(u64::MAX), 0);
        let mut session = Self::new(self.world.clone(), format!("{}+", self.name), dice);
        let holder = holder.to_owned();
        tokio::spawn(async move {
            sleep(after).await;
            if !session.world.is_over() {
                let patience = session.millis(20, 2_000);
                session.ask(lease, Some(&holder), ask, patience).await;
            }
        });
    }
}

impl Late {
    /// Closes the connection.
    fn give_up(self) {
        self.task.abort();
    }

    /// Closes the connection after a while, if no answer comes until then.
    fn give_up_after(self, while_: Duration) {
        let Self { mut task, .. } = self;
        tokio::spawn(async move {
            if timeout(while_, &mut task).await.is_err() {
                task.abort();
            }
        });
    }
}

/// The lease id of this attempt of this client, after so many changes.
const fn lease_id(client: u64, attempt: u64, changes: u64) -> LeaseId {
    LeaseId::from_random_bits(SECRET, (client << 40) | (attempt << 8) | changes)
}
