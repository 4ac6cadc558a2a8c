//! A server of a cluster: the driver of the log, and a store while the server is active.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::lease::Stored;
use tenure_core::lease::candidate::Timings;
use tenure_core::ownership::OwnershipTimings;
use tenure_core::{Instant, NodeId};
use tenure_server::simulation::{ClusterServer, Driver, SimulatedClock, SimulatedOwner};

use super::log_home::HomeLink;
use super::store::Store;
use super::{Payload, RequestId};
use crate::sim::{
    Context, DurableState, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
};

/// The hosts of the servers. The host of the log's home is that of the store.
pub const SERVERS: [NodeId; 3] = [NodeId(101), NodeId(102), NodeId(103)];

/// The shortest ownership duration.
const SHORTEST: Duration = Duration::from_secs(1);

/// The key of the metadata with the number of a change.
const CHANGE: &str = "change";

/// Returns the timings of the servers. Their ownership lasts for a fifth of a lease, as by default,
/// so that leaders keep their terms while another server takes over.
pub(super) fn ownership_timings(term: &Timings) -> OwnershipTimings {
    let ownership = (term.lease_duration() / 5).max(SHORTEST);
    OwnershipTimings::new(ownership).expect("a fifth of a lease that was checked")
}

#[derive(Debug)]
pub(super) struct Server {
    node: NodeId,
    incarnation: u64,
    /// The host of the log's home.
    home: NodeId,
    term: Timings,
    link: HomeLink,
    driver: Driver,
    shared: Rc<RefCell<Shared>>,
    owned: Option<Owned>,
    /// The number of the last change.
    changes: u64,
    /// The time at which the server exits at the latest, after it was told to.
    exits: Option<Instant>,
    /// The time at which the driver can do more.
    due: Option<Instant>,
}

/// The store of one generation. It is dropped when the ownership is over.
#[derive(Debug)]
struct Owned {
    generation: u64,
    store: Store,
    /// The lease as of the last durable change.
    durable: Option<Stored>,
}

/// The interface between the process and the driver's future.
#[derive(Debug, Default)]
struct Shared {
    /// The change that is to be committed next.
    pending: Option<PendingChange>,
    /// Whether the server gives the log up.
    resigns: bool,
    events: Vec<OwnershipEvent>,
}

/// The lease after some writes of the store.
#[derive(Clone, Debug)]
struct PendingChange {
    id: u64,
    lease: Stored,
    writes: u32,
}

#[derive(Debug)]
enum OwnershipEvent {
    /// The server owns the log: the generation, the last revision and the lease.
    Took(u64, u64, Option<Stored>),
    /// A change has this revision.
    Committed(u64, PendingChange),
    Undone(PendingChange),
    /// The ownership is over.
    Over,
}

/// Follows the log and owns it, again and again.
async fn run(
    mut server: ClusterServer,
    shared: Rc<RefCell<Shared>>,
    clock: Arc<SimulatedClock>,
    pause: Duration,
) {
    loop {
        let owned = server.follow(async |owner| {
            let _ = own(owner, &shared, &clock).await;
            shared.borrow_mut().events.push(OwnershipEvent::Over);
        });
        if owned.await.is_err() {
            clock.wait_until(clock.now() + pause).await;
        }
    }
}

/// Commits the changes of the store, as its queue of commits does.
async fn own(
    mut owner: SimulatedOwner,
    shared: &RefCell<Shared>,
    clock: &SimulatedClock,
) -> Result<(), String> {
    let lease = owner.lease.take();
    {
        let mut shared = shared.borrow_mut();
        (shared.pending, shared.resigns) = (None, false);
        let took = OwnershipEvent::Took(owner.generation, owner.revision, lease);
        shared.events.push(took);
    }
    loop {
        let mut upkeep = pin!(clock.wait_until(clock.now() + owner.keep_up_within()));
        let change = poll_fn(|context| {
            let mut shared = shared.borrow_mut();
            match shared.pending.take() {
                Some(change) => Poll::Ready(Some(change)),
                None if shared.resigns => Poll::Ready(None),
                None => upkeep.as_mut().poll(context).map(|()| None),
            }
        });
        if let Some(change) = change.await {
            let committed = owner.commit(change.lease.clone()).await;
            let mut shared = shared.borrow_mut();
            match committed {
                Ok(true) => {
                    let committed = OwnershipEvent::Committed(owner.revision, change);
                    shared.events.push(committed);
                }
                Ok(false) => {
                    // The store begins again, without what it has changed since.
                    shared.pending = None;
                    shared.events.push(OwnershipEvent::Undone(change));
                }
                Err(over) => return Err(over),
            }
        } else if shared.borrow().resigns {
            owner.leave().await;
            return Ok(());
        }
        owner.keep_up().await?;
    }
}

impl Server {
    pub(super) fn start(
        (node, incarnation): (NodeId, u64),
        home: NodeId,
        term: Timings,
        context: &mut Context<'_>,
    ) -> Self {
        let timings = ownership_timings(&term);
        let (clock, ownership) = (Arc::default(), timings.ownership());
        let link = HomeLink::new(&clock, timings.attempt());
        let shared = Rc::<RefCell<Shared>>::default();
        let files = Arc::new(link.clone());
        let driver = Driver::new(files, &format!("server-{node}"), ownership, &clock, |it| {
            Box::pin(run(it, Rc::clone(&shared), Arc::clone(&clock), ownership))
        });
        let mut server = Self {
            node,
            incarnation,
            home,
            term,
            link,
            driver,
            shared,
            owned: None,
            changes: 0,
            exits: None,
            due: None,
        };
        server.run(context);
        server
    }

    /// Returns whether the server accepts requests. A process handles an input at one instant, so
    /// the look at the lease and this check can't be apart.
    fn serves(&self) -> bool {
        self.owned.is_some() && !self.shared.borrow().resigns && self.driver.serves()
    }

    /// Hands an input to the store. Its writes are committed later.
    fn drive(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        let Some(owned) = &mut self.owned else {
            return;
        };
        let effects = context.collect(|context| owned.store.handle(context, input));
        for effect in effects {
            let written = match &effect {
                ProcessEffect::Write(state) => state.downcast_ref::<Stored>(),
                _ => None,
            };
            let Some(stored) = written else {
                context.emit(effect);
                continue;
            };
            self.changes += 1;
            let id = u64::from(self.node.0) << 48 | self.incarnation << 32 | self.changes;
            let mut lease = stored.clone();
            lease.metadata.insert(CHANGE.into(), id.to_string());
            let pending = &mut self.shared.borrow_mut().pending;
            let writes = 1 + pending.as_ref().map_or(0, |it| it.writes);
            *pending = Some(PendingChange { id, lease, writes });
        }
    }

    fn handle_event(&mut self, context: &mut Context<'_>, event: OwnershipEvent) {
        match event {
            OwnershipEvent::Took(generation, revision, lease) => {
                let id = lease.as_ref().and_then(|it| it.metadata.get(CHANGE));
                context.record(HistoryEventKind::Loaded {
                    generation,
                    revision,
                    change: id.and_then(|id| id.parse().ok()).unwrap_or_default(),
                });
                self.owned = Some(self.owned(context, generation, lease));
            }
            OwnershipEvent::Committed(revision, change) => {
                context.record(HistoryEventKind::Acknowledged {
                    revision,
                    change: change.id,
                });
                if let Some(owned) = &mut self.owned {
                    owned.durable = Some(change.lease);
                }
                for _ in 0..change.writes {
                    self.drive(context, ProcessInput::Written);
                }
            }
            OwnershipEvent::Undone(change) => {
                context.record(HistoryEventKind::Undone(change.id));
                if let Some(owned) = self.owned.take() {
                    let owned = self.owned(context, owned.generation, owned.durable);
                    self.owned = Some(owned);
                }
            }
            OwnershipEvent::Over => {
                self.owned = None;
                if self.exits.is_some() {
                    context.emit(ProcessEffect::Exit);
                }
            }
        }
    }

    /// Makes the store of a generation. All leases count as renewed now.
    fn owned(&self, context: &mut Context<'_>, generation: u64, durable: Option<Stored>) -> Owned {
        let lease = durable.clone().map(|lease| Rc::new(lease) as DurableState);
        Owned {
            generation,
            store: Store::start(&self.term, lease.as_ref(), context),
            durable,
        }
    }

    /// Lets the driver and the store do all that they can do now.
    fn run(&mut self, context: &mut Context<'_>) {
        self.driver.set_time(context.now, context.wall);
        loop {
            if self.serves() {
                self.drive(context, ProcessInput::Wake);
            }
            self.due = self.driver.poll();
            for (attempt, call) in self.link.unsent() {
                let id = RequestId {
                    incarnation: self.incarnation,
                    attempt,
                };
                context.send(self.home, Payload::HomeCall { id, call });
            }
            let events = std::mem::take(&mut self.shared.borrow_mut().events);
            if events.is_empty() {
                break;
            }
            for event in events {
                self.handle_event(context, event);
            }
        }
        if self.exits.is_some_and(|at| at <= context.now) {
            context.emit(ProcessEffect::Exit);
        }
    }
}

impl Process for Server {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        self.driver.set_time(context.now, context.wall);
        match &input {
            ProcessInput::Message { from, payload, .. } => match payload.downcast_ref() {
                Some(Payload::HomeAnswer { id, answer }) if id.incarnation == self.incarnation => {
                    self.link.handle_answer(id.attempt, answer);
                }
                Some(Payload::StoreRequest { id, .. }) if !self.serves() => {
                    context.send(*from, Payload::NotActive { id: *id });
                }
                Some(Payload::StoreRequest { .. }) => {
                    if let Some(owned) = &self.owned {
                        context.record(HistoryEventKind::Accepted(owned.generation));
                    }
                    self.drive(context, input);
                }
                Some(Payload::CloseConnection { .. }) => self.drive(context, input),
                _ => {}
            },
            ProcessInput::Break(_) if self.serves() => self.drive(context, input),
            ProcessInput::Refused(node) if *node == self.home => self.link.handle_loss(),
            ProcessInput::Refused(_) => self.drive(context, input),
            ProcessInput::Leave | ProcessInput::Resign(_) => {
                self.shared.borrow_mut().resigns |= self.owned.is_some();
                if matches!(input, ProcessInput::Leave) {
                    // A server that follows has nothing to hand over.
                    let time = match &self.owned {
                        Some(_) => ownership_timings(&self.term).ownership(),
                        None => Duration::ZERO,
                    };
                    self.exits = Some(context.now + time);
                }
            }
            _ => {}
        }
        self.run(context);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let owned = self.owned.as_ref().filter(|_| self.serves());
        let store = owned.and_then(|it| it.store.poll_timeout());
        [self.due, store, self.exits].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        None
    }
}
