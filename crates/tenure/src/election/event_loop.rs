//! The event loop on the driver's thread.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tokio::sync::mpsc;

use super::candidate_runner::{CandidateRunner, Slots};
use super::requests::Requests;
use super::term::Command;
use crate::base::clock::Clock;

/// The greatest number of inputs that are handled before the time.
const MAX_INPUTS: usize = 1024;

/// A message to the driver's thread.
pub(super) enum RuntimeMessage {
    Join(usize, Box<CandidateRunner>),
    To(usize, Command),
}

pub(super) struct EventLoop {
    clock: Clock,
    slots: Slots,
    requests: Requests,
}

impl EventLoop {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            slots: BTreeMap::new(),
            requests: Requests::default(),
        }
    }

    /// Runs until all candidates are done and no handle to them exists.
    pub(super) async fn run(mut self, mut messages: mpsc::UnboundedReceiver<RuntimeMessage>) {
        let mut is_open = true;
        loop {
            let now = self.clock.now();
            // Outputs.
            self.slots.values_mut().for_each(|slot| slot.execute());
            // Requests.
            self.requests.send(self.clock.now(), &mut self.slots);
            self.slots.retain(|_, slot| !slot.is_done());
            if !is_open && self.slots.is_empty() {
                return;
            }
            // Timers.
            let slots = self.slots.values_mut();
            let wake = slots.filter_map(|slot| slot.io.poll_timeout()).min();
            self.clock.done(now);
            // Inputs.
            tokio::select! {
                message = messages.recv(), if is_open => match message {
                    Some(message) => self.handle_message(message),
                    None => is_open = false,
                },
                answers = self.requests.next() => for (number, attempt, reply) in answers {
                    if let Some(slot) = self.slots.get_mut(&number) {
                        slot.io.handle_reply(self.clock.now(), attempt, reply);
                    }
                },
                () = receive(&mut self.slots) => {}
                () = self.clock.sleep_from(now, wake) => self.handle_timeout(),
            }
        }
    }

    fn handle_message(&mut self, message: RuntimeMessage) {
        match message {
            RuntimeMessage::Join(number, slot) => {
                self.slots.insert(number, slot);
            }
            RuntimeMessage::To(number, command) => {
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.handle_command(command);
                }
            }
        }
    }

    fn handle_timeout(&mut self) {
        // If this thread was frozen, it handles the inputs that have arrived meanwhile before it
        // handles the time, because a member that has sent a message is not down.
        for _ in 0..MAX_INPUTS {
            if receive(&mut self.slots).now_or_never().is_none() {
                break;
            }
        }
        self.slots
            .values_mut()
            .for_each(|slot| slot.handle_timeout());
    }
}

/// Waits for an input for any candidate, and handles it. This function is cancel safe: no input is
/// lost.
async fn receive(slots: &mut Slots) {
    let receiving = slots.values_mut().filter_map(|slot| slot.io.receive());
    let receiving: Vec<_> = receiving.collect();
    if receiving.is_empty() {
        return std::future::pending().await;
    }
    select_all(receiving).await;
}
