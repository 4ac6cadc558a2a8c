//! The thread that does what the machines say.
//!
//! It has its own async runtime, so that a task that blocks the application's runtime can stop
//! neither the renewals nor the watchdog that ends the term. Several candidates may share it; their
//! renewals then go to the store together.

mod command;
mod elector;
mod member;

#[cfg(feature = "peers")]
mod both;
mod lease;
mod outbox;

#[cfg(feature = "peers")]
pub(crate) mod peers;

#[cfg(all(test, feature = "peers"))]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tenure_core::Instant;
#[cfg(feature = "peers")]
use tenure_core::election;
use tokio::sync::{mpsc, watch};

#[cfg(feature = "peers")]
use both::Both;
use command::Message;
pub(crate) use command::{Command, DriverHandle, WeakDriverHandle};
use lease::{AsksStore, Lease};
use member::Member;
use outbox::Requests;
#[cfg(feature = "peers")]
use peers::Peers;

use crate::backend::SharedBackend;
use crate::clock::Clock;
use crate::config::Config;
use crate::post::Event;
use crate::term::TermState;

/// How much of what came from peers is heard before time is looked at.
const MAX_EVENTS: usize = 1024;

/// The driver's thread, from outside. It ends when this and all of its candidates are gone.
#[derive(Clone)]
pub(crate) struct Driver {
    clock: Clock,
    #[cfg_attr(
        not(feature = "peers"),
        expect(dead_code, reason = "members listen on it")
    )]
    runtime: tokio::runtime::Handle,
    members: Arc<AtomicUsize>,
    messages: mpsc::UnboundedSender<Message>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start(clock: Clock) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (messages, inbox) = mpsc::unbounded_channel();
        let of_thread = clock.clone();
        thread::Builder::new()
            .name("tenure-driver".into())
            .spawn(move || {
                let driver = Loop {
                    clock: of_thread,
                    seats: BTreeMap::new(),
                    requests: Requests::default(),
                };
                // Its members end their terms when they are dropped, and tell whoever waits for them.
                if catch_unwind(AssertUnwindSafe(|| runtime.block_on(driver.run(inbox)))).is_err() {
                    tracing::error!(
                        thread = "tenure-driver",
                        "the thread that renews has panicked: all terms of its candidates are over"
                    );
                }
            })?;
        Ok(Self {
            clock,
            runtime: handle,
            members: Arc::default(),
            messages,
        })
    }

    /// Calls `begin` in the thread's runtime, so that tasks that it spawns run there.
    #[cfg(feature = "peers")]
    pub(crate) fn enter<T>(&self, begin: impl FnOnce() -> T) -> T {
        let _runtime = self.runtime.enter();
        begin()
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Adds a candidate that competes for a lease.
    pub(crate) fn join(&self, config: Config, link: SharedBackend) -> DriverHandle {
        self.seat(config, |handle, publish_term| {
            let lease = Lease::new(handle.config.clone(), link);
            Seat::Lease(Member::new(handle, lease, publish_term).into())
        })
    }

    /// Adds a candidate that is elected among peers.
    #[cfg(feature = "peers")]
    pub(crate) fn join_peers(&self, config: Config, peers: Peers) -> DriverHandle {
        self.seat(config, |handle, publish_term| {
            Seat::Peers(Member::new(handle, peers, publish_term).into())
        })
    }

    /// Adds a candidate that is elected in both places.
    #[cfg(feature = "peers")]
    pub(crate) fn join_both(
        &self,
        config: Config,
        peers: Peers<election::joint::Joint>,
        link: SharedBackend,
    ) -> DriverHandle {
        self.seat(config, |handle, publish_term| {
            let both = Both::new(handle.config.clone(), peers, link);
            Seat::Both(Member::new(handle, both, publish_term).into())
        })
    }

    fn seat(
        &self,
        config: Config,
        seat: impl FnOnce(&DriverHandle, watch::Sender<Option<Arc<TermState>>>) -> Seat,
    ) -> DriverHandle {
        let number = self.members.fetch_add(1, Ordering::Relaxed);
        let (publish_term, terms) = watch::channel(None);
        let way = (number, self.messages.clone());
        let handle = DriverHandle::new(config, self.clock.clone(), terms, way);
        let seat = seat(&handle, publish_term);
        // If the thread has died, the first command will tell.
        let _ = self.messages.send(Message::Join(number, seat));
        handle
    }
}

/// A candidate on the thread.
enum Seat {
    Lease(Box<Member<Lease>>),
    #[cfg(feature = "peers")]
    Peers(Box<Member<Peers>>),
    #[cfg(feature = "peers")]
    Both(Box<Member<Both>>),
}

/// Calls a method of the member, whatever elects it.
macro_rules! member {
    ($seat:expr, $member:ident => $call:expr) => {
        match $seat {
            Seat::Lease($member) => $call,
            #[cfg(feature = "peers")]
            Seat::Peers($member) => $call,
            #[cfg(feature = "peers")]
            Seat::Both($member) => $call,
        }
    };
}

impl Seat {
    fn obey(&mut self) {
        member!(self, member => member.obey());
    }

    fn look(&mut self) {
        member!(self, member => member.look());
    }

    fn handle_command(&mut self, command: Command) {
        member!(self, member => member.handle_command(command));
    }

    fn is_done(&self) -> bool {
        member!(self, member => member.is_done())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        member!(self, member => member.poll_timeout())
    }

    /// The part of it that asks a store, if it has one.
    fn in_store(&mut self) -> Option<&mut dyn AsksStore> {
        match self {
            Self::Lease(member) => Some(member.elector()),
            #[cfg(feature = "peers")]
            Self::Both(member) => Some(member.elector()),
            #[cfg(feature = "peers")]
            Self::Peers(_) => None,
        }
    }

    /// What comes in next from peers. May be dropped while it waits.
    async fn next_event(&mut self) -> Event {
        match self {
            Self::Lease(_) => std::future::pending().await,
            #[cfg(feature = "peers")]
            Self::Peers(member) => member.elector().next().await,
            #[cfg(feature = "peers")]
            Self::Both(member) => member.elector().peers().next().await,
        }
    }

    #[cfg_attr(not(feature = "peers"), allow(unused_variables))]
    fn hear(&mut self, now: Instant, event: Event) {
        match self {
            Self::Lease(_) => {}
            #[cfg(feature = "peers")]
            Self::Peers(member) => member.elector().handle_event(now, event),
            #[cfg(feature = "peers")]
            Self::Both(member) => member.elector().peers().handle_event(now, event),
        }
    }
}

/// The driver's thread, from inside.
struct Loop {
    clock: Clock,
    seats: BTreeMap<usize, Seat>,
    requests: Requests,
}

impl Loop {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        let mut open = true;
        loop {
            let now = self.clock.now();
            self.obey();
            self.seats.retain(|_, seat| !seat.is_done());
            if !open && self.seats.is_empty() {
                return;
            }
            let wake = self.seats.values().filter_map(Seat::poll_timeout).min();
            self.clock.done(now);
            tokio::select! {
                message = inbox.recv(), if open => match message {
                    Some(message) => self.take(message),
                    None => open = false,
                },
                answers = self.requests.next() => for answer in answers {
                    let seat = self.seats.get_mut(&answer.member);
                    if let Some(seat) = seat.and_then(Seat::in_store) {
                        seat.handle_answer(self.clock.now(), answer.attempt, answer.answer);
                    }
                },
                (number, event) = next_event(&mut self.seats) => self.hear(number, event),
                () = self.clock.sleep_from(now, wake) => {
                    // After this thread stood still, what has come meanwhile is heard before time is:
                    // who has spoken is not down.
                    for _ in 0..MAX_EVENTS {
                        let event = next_event(&mut self.seats).now_or_never();
                        let Some((number, event)) = event else { break };
                        self.hear(number, event);
                    }
                    self.seats.values_mut().for_each(Seat::look);
                }
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Join(number, seat) => {
                self.seats.insert(number, seat);
            }
            Message::To(number, command) => {
                if let Some(seat) = self.seats.get_mut(&number) {
                    seat.handle_command(command);
                }
            }
        }
    }

    fn hear(&mut self, number: usize, event: Event) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.hear(self.clock.now(), event);
        }
    }

    /// Does what the machines say, and sends what they want to be sent.
    fn obey(&mut self) {
        self.seats.values_mut().for_each(Seat::obey);
        // One who renews takes those along who would follow soon, to the same store.
        let ways = self.seats.values_mut().filter_map(Seat::in_store);
        let links: Vec<_> = ways
            .map(AsksStore::way)
            .filter(|way| way.renews())
            .map(|way| way.link().clone())
            .collect();
        for seat in self.seats.values_mut() {
            if let Some(asks) = seat.in_store()
                && links
                    .iter()
                    .any(|link| link.shares_requests_with(asks.way().link().as_ref()))
            {
                asks.renew_early(self.clock.now());
                seat.obey();
            }
        }
        let seats = self.seats.iter_mut();
        let ways = seats.filter_map(|(&number, seat)| Some((number, seat.in_store()?.way())));
        self.requests.send(ways);
    }
}

/// What comes in next for those who are elected among peers. May be dropped while it waits.
async fn next_event(seats: &mut BTreeMap<usize, Seat>) -> (usize, Event) {
    let peers = seats
        .iter_mut()
        .filter(|(_, seat)| !matches!(seat, Seat::Lease(_)));
    let events =
        peers.map(|(&number, seat)| Box::pin(async move { (number, seat.next_event().await) }));
    let events: Vec<_> = events.collect();
    if events.is_empty() {
        return std::future::pending().await;
    }
    select_all(events).await.0
}
