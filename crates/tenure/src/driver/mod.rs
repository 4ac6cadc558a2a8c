//! The thread that does what the keepers say.
//!
//! It has its own async runtime, so that a task that blocks the application's runtime can stop
//! neither the renewals nor the watchdog that ends the term. Several candidates may share it; their
//! renewals then go to the store together.

mod command;
mod outbox;

mod member;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tenure_core::lease::keeper::Request;
use tokio::sync::{mpsc, watch};

use command::Message;
pub(crate) use command::{Command, DriverHandle, WeakDriverHandle};
use member::Member;
use outbox::Requests;

use crate::clock::Clock;
use crate::config::Config;
use crate::store::Link;

/// The driver's thread, from outside. It ends when this and all of its candidates are gone.
#[derive(Clone)]
pub(crate) struct Driver {
    clock: Clock,
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
        let (messages, inbox) = mpsc::unbounded_channel();
        let of_thread = clock.clone();
        thread::Builder::new()
            .name("tenure-driver".into())
            .spawn(move || {
                let driver = Loop {
                    clock: of_thread,
                    members: BTreeMap::new(),
                    requests: Requests::default(),
                };
                runtime.block_on(driver.run(inbox));
            })?;
        Ok(Self {
            clock,
            members: Arc::default(),
            messages,
        })
    }

    /// Adds a candidate.
    pub(crate) fn join(&self, config: Config, link: Link) -> DriverHandle {
        let number = self.members.fetch_add(1, Ordering::Relaxed);
        let (publish_term, terms) = watch::channel(None);
        let way = (number, self.messages.clone());
        let handle = DriverHandle::new(config, self.clock.clone(), terms, way);
        let member = Member::new(&handle, Arc::new(link), publish_term);
        // If the thread has died, the first command will tell.
        let _ = self.messages.send(Message::Join(number, member.into()));
        handle
    }
}

/// The driver's thread, from inside.
struct Loop {
    clock: Clock,
    members: BTreeMap<usize, Member>,
    requests: Requests,
}

impl Loop {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        let mut open = true;
        loop {
            let now = self.clock.now();
            self.obey();
            self.members.retain(|_, member| !member.is_done());
            if !open && self.members.is_empty() {
                return;
            }
            let wake = self.members.values().filter_map(Member::poll_timeout).min();
            self.clock.done(now);
            tokio::select! {
                message = inbox.recv(), if open => match message {
                    Some(message) => self.take(message),
                    None => open = false,
                },
                answers = self.requests.next() => for answer in answers {
                    if let Some(member) = self.members.get_mut(&answer.member) {
                        member.handle_answer(answer.attempt, answer.answer);
                    }
                },
                () = self.clock.sleep_from(now, wake) => {
                    self.members.values_mut().for_each(Member::look);
                }
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Join(number, member) => {
                self.members.insert(number, *member);
            }
            Message::To(number, command) => {
                if let Some(member) = self.members.get_mut(&number) {
                    member.handle_command(command);
                }
            }
        }
    }

    /// Does what the keepers say, and sends what they want to be sent.
    fn obey(&mut self) {
        let mut outbox = Vec::new();
        for (&number, member) in &mut self.members {
            member.obey(&mut outbox, number);
        }
        // One who renews takes those along who would follow soon, to the same store.
        let renews = |outgoing: &&outbox::Outgoing| matches!(outgoing.request, Request::Renew(_));
        let links: Vec<Arc<Link>> = outbox
            .iter()
            .filter(renews)
            .filter_map(|outgoing| Some(self.members.get(&outgoing.member)?.link().clone()))
            .collect();
        for (&number, member) in &mut self.members {
            if links.iter().any(|link| link.is_same_store(member.link())) {
                member.renew_early();
                member.obey(&mut outbox, number);
            }
        }
        let members = &mut self.members;
        self.requests.send(outbox, |number, with| {
            if let Some(member) = members.get_mut(&number) {
                with(member);
            }
        });
    }
}
