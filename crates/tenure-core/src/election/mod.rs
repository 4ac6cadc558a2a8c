//! What every way of electing has in common, so that one driver and one simulation serve them all.

mod end_reason;
mod output;
mod step_down;
mod term;

pub mod joint;

use crate::{Epoch, Instant, Random};

pub use end_reason::{EndReason, TaskEnd};
pub use output::{CampaignFailure, Output, TermEvent};

pub(crate) use output::Outputs;
pub(crate) use step_down::{Stage, StepDown};
pub(crate) use term::Term;

/// A candidate as a pure state machine: [`lease::candidate::LeaseCandidate`](crate::lease::candidate::LeaseCandidate)
/// competes for a lease in a store, [`bully::Node`](crate::bully::Node) among its peers, and
/// [`Both`](joint::Both) in both places at once.
///
/// - commands: [`Strategy::campaign`], [`Strategy::resign`], [`Strategy::hand_over`],
///   [`Strategy::task_ended`];
/// - inputs: [`Strategy::handle_message`], [`Strategy::handle_progress`], [`Strategy::handle_timeout`];
/// - outputs, to be drained after each of the above: [`Strategy::poll_output`], then
///   [`Strategy::poll_timeout`] for when to come back at the latest;
/// - getters, at any time: [`Strategy::standing`], [`Strategy::stop_by`].
///
/// `now` is read from a clock that goes on while the machine is suspended.
pub trait ElectionMachine {
    /// What may come in beside time.
    type Message;
    /// What the driver must do, beside what [`TermEvent`] says.
    type Effect;
    /// How the one is named to whom leadership may be handed over.
    type Peer;

    /// Command: compete. Without effect while it competes or leads already.
    fn campaign(&mut self, now: Instant, random: &mut dyn Random);

    /// Command: give up the campaign or the term.
    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random);

    /// Command: give up the term for the good of this one. Without effect unless it leads.
    fn hand_over(&mut self, now: Instant, to: Self::Peer);

    /// Command: the term's task is gone.
    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random);

    /// Input: something came.
    fn handle_message(&mut self, now: Instant, message: Self::Message, random: &mut dyn Random);

    /// Input: the term's task got on at `at`.
    fn handle_progress(&mut self, at: Instant);

    /// Input: time has passed. May be called at any time and any number of times.
    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random);

    /// Output: the next thing to do, until there is none.
    fn poll_output(&mut self) -> Option<Output<Self::Effect>>;

    /// Output: when to call [`Strategy::handle_timeout`] at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Where it stands at `now`.
    fn standing(&self, now: Instant) -> Standing;

    /// When the task of the current term is aborted at the latest, as things stand.
    fn stop_by(&self) -> Option<Instant>;
}

/// Where a candidate stands at a given now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not compete.
    Idle,
    /// It competes.
    Campaigning,
    /// It leads, until this instant at least: also while the task of a candidate that has resigned
    /// is still stopping, because its term is renewed until the task is gone.
    Leading {
        /// The term's number.
        epoch: Epoch,
        /// When it stops leading, unless a renewal succeeds.
        until: Instant,
    },
    /// It leads no more and its task is still going, or the term is being given up.
    Ending,
}
