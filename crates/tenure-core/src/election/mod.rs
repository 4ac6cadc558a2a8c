//! The common interface of all election machines, for one driver and one simulator.

mod end_reason;
mod output;
mod term;

pub mod fallback;
pub mod joint;

mod any;

use crate::{CandidateId, Epoch, Instant, Random};

pub use any::AnyMachine;
pub use end_reason::{EndReason, SUSPENSION, TaskEnd};
pub use output::{CampaignFailure, Output, TermEvent};

pub(crate) use output::Outputs;
pub(crate) use term::Term;

/// A candidate as a pure state machine. [`LeaseCandidate`](crate::lease::candidate::LeaseCandidate)
/// competes for a lease in a store, [`PeerCandidate`](crate::bully::PeerCandidate) is elected among
/// its peers, and [`Joint`](joint::Joint) needs both. [`AnyMachine`] is any of them.
///
/// - commands: [`campaign`](Self::campaign), [`resign`](Self::resign),
///   [`hand_over`](Self::hand_over), [`task_ended`](Self::task_ended);
/// - inputs: [`handle_message`](Self::handle_message), [`handle_progress`](Self::handle_progress),
///   [`handle_timeout`](Self::handle_timeout);
/// - outputs, to be drained after each of the above: [`poll_output`](Self::poll_output), then
///   [`poll_timeout`](Self::poll_timeout) for the next call of `handle_timeout`;
/// - getters, at any time: [`standing`](Self::standing), [`stop_by`](Self::stop_by),
///   [`overrun_at`](Self::overrun_at).
///
/// All `now` arguments come from a clock that also counts while the machine is suspended.
pub trait ElectionMachine {
    /// An input other than time.
    type Message;
    /// An action that the driver must execute.
    type Effect;

    /// Command: compete. It has no effect while the candidate competes or leads.
    fn campaign(&mut self, now: Instant, random: &mut dyn Random);

    /// Command: give up the campaign or the term. A leader keeps its term until its task is gone.
    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random);

    /// Command: give up the term in favour of this candidate. It has no effect unless the candidate
    /// leads, and, among peers, this candidate is a member.
    fn hand_over(&mut self, now: Instant, to: CandidateId);

    /// Command: the task of the term is gone.
    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random);

    /// Input: a message.
    fn handle_message(&mut self, now: Instant, message: Self::Message, random: &mut dyn Random);

    /// Input: the task of the term showed progress at `at`.
    fn handle_progress(&mut self, at: Instant);

    /// Input: time has passed. The driver may call it at any time and any number of times.
    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random);

    /// Output: the next output; `None` if there is none.
    fn poll_output(&mut self) -> Option<Output<Self::Effect>>;

    /// Output: when to call [`handle_timeout`](Self::handle_timeout) at the latest.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns the candidate's standing at `now`.
    fn standing(&self, now: Instant) -> Standing;

    /// Returns the latest time at which the task of the current term is aborted. Each successful
    /// renewal moves it, until the term is ending.
    fn stop_by(&self) -> Option<Instant>;

    /// Returns the time at which work of the current term is an overrun if no renewal succeeds
    /// before. Others may lead soon after it.
    fn overrun_at(&self) -> Option<Instant>;
}

/// The state of a candidate at a given `now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The candidate does not compete.
    Idle,
    /// The candidate competes.
    Campaigning,
    /// The candidate leads, at least until this instant. This includes the time in which the task
    /// of a resigned leader stops, because the term is renewed until the task is gone.
    Leading {
        /// The epoch of the term.
        epoch: Epoch,
        /// The instant at which the candidate stops leading unless a renewal succeeds.
        until: Instant,
    },
    /// The candidate no longer leads and its task still runs, or the lease is being released.
    Ending,
}
