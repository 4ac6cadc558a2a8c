//! The thread that does what the keeper says.
//!
//! It has its own async runtime, so that a task that blocks the application's runtime can stop
//! neither the renewals nor the watchdog that ends the term.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tenure_core::lease::keeper::{Answer, EndReason, Keeper, Output, Request, Standing, TaskEnd};
use tenure_core::{Epoch, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use crate::clock;
use crate::config::{Config, OnOverrun};
use crate::in_use::InUse;
use crate::random::OsRandom;
use crate::store::Transport;
use crate::term::TermState;

/// What the rest of the library asks of the driver.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compete; the term is sent when one begins.
    Campaign(Campaigner),
    /// Whoever campaigned has gone. If a term has begun for it meanwhile, that was dropped.
    GiveUp,
    /// End the term that is on, if there is one; answered when that is done.
    ResignAny(oneshot::Sender<()>),
    /// Answered when nothing is held and nobody campaigns.
    Settle(oneshot::Sender<()>),
    /// End this term, if it is still on.
    Resign { term: Epoch, reason: EndReason },
    /// The task of this term is gone.
    TaskEnded { term: Epoch, end: TaskEnd },
}

/// Whoever waits for a term to begin, or for why none can.
type Campaigner = oneshot::Sender<Result<InUse, String>>;

/// A way to the driver. When the last one is dropped the driver gives up what it holds, and ends.
#[derive(Clone, Debug)]
pub(crate) struct DriverHandle {
    pub(crate) config: Arc<Config>,
    /// The term that is on; closed when the driver has gone.
    pub(crate) terms: watch::Receiver<Option<Arc<TermState>>>,
    commands: mpsc::UnboundedSender<Command>,
}

impl DriverHandle {
    /// Sends a command; false if the driver has gone.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    pub(crate) fn downgrade(&self) -> WeakDriverHandle {
        WeakDriverHandle(self.commands.downgrade())
    }
}

/// A way to the driver that does not keep it.
#[derive(Clone, Debug)]
pub(crate) struct WeakDriverHandle(mpsc::WeakUnboundedSender<Command>);

impl WeakDriverHandle {
    /// Sends a command, if the driver is still there.
    pub(crate) fn command(&self, command: Command) {
        if let Some(commands) = self.0.upgrade() {
            let _ = commands.send(command);
        }
    }
}

/// Starts the thread.
pub(crate) fn spawn(config: Config, transport: Transport) -> std::io::Result<DriverHandle> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (sender, commands) = mpsc::unbounded_channel();
    let (publish_term, terms) = watch::channel(None);
    let config = Arc::new(config);
    let driver = Driver {
        keeper: Keeper::new(config.timings),
        config: config.clone(),
        transport: Arc::new(transport),
        commands: sender.downgrade(),
        in_flight: None,
        campaigner: None,
        resigners: Vec::new(),
        settlers: Vec::new(),
        term: None,
        publish_term,
        last_leader: None,
    };
    thread::Builder::new()
        .name("tenure-driver".into())
        .spawn(move || runtime.block_on(driver.run(commands)))?;
    Ok(DriverHandle {
        config,
        terms,
        commands: sender,
    })
}

/// A request under way, with the attempt that it is.
type InFlight = Pin<Box<dyn Future<Output = (u64, Answer)> + Send>>;

struct Driver {
    config: Arc<Config>,
    transport: Arc<Transport>,
    keeper: Keeper,
    /// At most one request, so that dropping it is all there is to giving it up.
    in_flight: Option<InFlight>,
    /// For the terms that begin; the driver does not keep itself.
    commands: mpsc::WeakUnboundedSender<Command>,
    campaigner: Option<Campaigner>,
    resigners: Vec<oneshot::Sender<()>>,
    settlers: Vec<oneshot::Sender<()>>,
    term: Option<Arc<TermState>>,
    /// The same for those who only look.
    publish_term: watch::Sender<Option<Arc<TermState>>>,
    last_leader: Option<String>,
}

/// If the driver goes, whatever takes it, nobody renews any more: the term is over.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(term) = &self.term {
            term.abandon();
        }
    }
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut open = true;
        loop {
            self.obey();
            // A campaign that was asked for while the last term was still ending.
            if self.campaigner.is_some() && self.keeper.standing(clock::now()) == Standing::Idle {
                self.keeper.campaign(clock::now(), &mut OsRandom);
                continue;
            }
            if !open && self.keeper.standing(clock::now()) == Standing::Idle {
                return;
            }
            let wake = self.keeper.poll_timeout();
            tokio::select! {
                command = commands.recv(), if open => match command {
                    Some(command) => self.handle_command(command),
                    // Whoever campaigned or used a term had a way to the driver, so they are gone.
                    None => {
                        open = false;
                        self.campaigner = None;
                        self.keeper.resign(clock::now(), EndReason::ShutDown, &mut OsRandom);
                    }
                },
                (attempt, answer) = next_answer(&mut self.in_flight) => {
                    self.in_flight = None;
                    self.keeper.handle_message(clock::now(), attempt, answer, &mut OsRandom);
                }
                () = sleep_until(wake) => {
                    self.keeper.handle_timeout(clock::now(), &mut OsRandom);
                }
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        let now = clock::now();
        match command {
            Command::Campaign(campaigner) => {
                self.campaigner = Some(campaigner);
            }
            Command::GiveUp => {
                self.campaigner = None;
                // Only a campaign: a term is in the hands of whoever uses it, and the task of an
                // earlier one may still be stopping.
                if self.keeper.standing(now) == Standing::Campaigning {
                    self.keeper.resign(now, EndReason::Resigned, &mut OsRandom);
                }
            }
            Command::ResignAny(done) => {
                self.resigners.push(done);
                if self.term.is_some() {
                    self.keeper.resign(now, EndReason::Resigned, &mut OsRandom);
                }
            }
            Command::Settle(done) => self.settlers.push(done),
            Command::Resign { term, reason } => {
                if self.is_current(term) {
                    self.keeper.resign(now, reason, &mut OsRandom);
                }
            }
            Command::TaskEnded { term, end } => {
                if self.is_current(term) {
                    self.keeper.task_ended(now, end, &mut OsRandom);
                }
            }
        }
    }

    fn is_current(&self, epoch: Epoch) -> bool {
        self.term.as_ref().is_some_and(|term| term.epoch == epoch)
    }

    /// Does what the keeper says, until it says nothing more.
    fn obey(&mut self) {
        self.publish();
        while let Some(output) = self.keeper.poll_output() {
            self.do_output(output);
            self.publish();
        }
        if self.term.is_none() {
            answer(&mut self.resigners);
        }
        if self.campaigner.is_none() && self.keeper.standing(clock::now()) == Standing::Idle {
            answer(&mut self.settlers);
        }
    }

    /// Lets the task see how the term stands.
    fn publish(&self) {
        if let Some(term) = &self.term {
            let valid_until = match self.keeper.standing(clock::now()) {
                Standing::Leading { until, .. } => Some(until),
                Standing::Idle | Standing::Campaigning | Standing::Ending => None,
            };
            term.update(valid_until, self.keeper.stop_by());
        }
    }

    fn do_output(&mut self, output: Output) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        match output {
            Output::Send {
                attempt,
                request,
                timeout,
            } => {
                debug!(%election, %candidate, attempt, request = name(&request), "request");
                let transport = self.transport.clone();
                self.in_flight = Some(Box::pin(async move {
                    (attempt, transport.send(request, timeout).await)
                }));
            }
            Output::Began(epoch) => self.begin(epoch),
            Output::AtRisk(at_risk) => {
                if let Some(term) = &self.term {
                    term.at_risk.send_replace(at_risk);
                }
            }
            Output::Cancel(reason) => {
                if let Some(term) = &self.term {
                    info!(%election, %candidate, epoch = %term.epoch, %reason, "stopping");
                    term.cancel(reason);
                }
            }
            Output::Abort => {
                if let Some(term) = &self.term {
                    warn!(%election, %candidate, epoch = %term.epoch,
                        "the task has not stopped within the stop grace and is aborted");
                    term.abort();
                }
            }
            Output::Overrun => self.overrun(),
            Output::Ended(epoch, reason) => {
                info!(%election, %candidate, %epoch, %reason, "leadership lost");
                if let Some(term) = self.term.take() {
                    term.update(None, None);
                    term.ended.send_replace(Some(reason));
                }
                self.publish_term.send_replace(None);
            }
            Output::Withdrawn => {}
            Output::Failed(why) => {
                error!(%election, %candidate, error = why, "the store refuses this candidate");
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Err(why));
                }
            }
            Output::SeenLeader(leader) => {
                let leader = leader.map(|(id, epoch)| format!("{id} (epoch {epoch})"));
                if self.last_leader != leader {
                    info!(%election, %candidate, leader, "following");
                    self.last_leader = leader;
                }
            }
            Output::Retrying(why) => warn!(%election, %candidate, error = why, "retrying"),
        }
    }

    fn begin(&mut self, epoch: Epoch) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        info!(%election, %candidate, %epoch, "leadership gained");
        self.last_leader = None;
        let term = Arc::new(TermState::new(epoch));
        self.term = Some(term.clone());
        self.publish();
        self.publish_term.send_replace(Some(term.clone()));
        match self.commands.upgrade() {
            Some(commands) => {
                let driver = DriverHandle {
                    config: self.config.clone(),
                    terms: self.publish_term.subscribe(),
                    commands,
                };
                let in_use = InUse::new(term, driver);
                // If nobody receives it any more it is dropped, and the term ends by that.
                if let Some(campaigner) = self.campaigner.take() {
                    let _ = campaigner.send(Ok(in_use));
                }
            }
            // Everybody has gone.
            None => self
                .keeper
                .task_ended(clock::now(), TaskEnd::Aborted, &mut OsRandom),
        }
    }

    fn overrun(&self) {
        let Some(term) = &self.term else { return };
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        error!(%election, %candidate, epoch = %term.epoch,
            "the task is still running after it was aborted; others may lead soon");
        match &self.config.on_overrun {
            OnOverrun::Report => {}
            OnOverrun::Exit => {
                error!(%election, %candidate, "exiting, so that the task ends");
                std::process::exit(OnOverrun::EXIT_CODE);
            }
            OnOverrun::Call(call) => {
                // Renewals and watchdog must survive it.
                let called = panic::catch_unwind(AssertUnwindSafe(|| call(term.epoch)));
                if called.is_err() {
                    error!(%election, %candidate, "the overrun policy has panicked");
                }
            }
        }
    }
}

const fn name(request: &Request) -> &'static str {
    match request {
        Request::Acquire { .. } => "acquire",
        Request::Renew(_) => "renew",
        Request::Release(_) => "release",
        Request::HandOver { .. } => "handover",
    }
}

fn answer(waiting: &mut Vec<oneshot::Sender<()>>) {
    for done in waiting.drain(..) {
        // Whoever waits no more needs no answer.
        let _ = done.send(());
    }
}

async fn next_answer(in_flight: &mut Option<InFlight>) -> (u64, Answer) {
    match in_flight {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep(wake.since(clock::now())).await,
        None => std::future::pending().await,
    }
}
