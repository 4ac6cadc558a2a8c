//! Leader election in any network with faulty links: the algorithms aFLEU and aFLEA.
//!
//! [`ForestNode`] is a pure state machine for one process. A process sends and receives over its
//! own links only, which are its [`Port`]s. It knows the number of processes n and an upper bound f
//! on the number of faulty links. There is no clock and no bound on delays. A faulty link delivers
//! nothing, in one direction or in both; all faults are there before the start.
//!
//! Source: Matsumoto, Wakabayashi, Koide and Yoshida, "Fault-tolerant leader election in
//! distributed systems without unique identifiers" (2X-6). The paper has no pseudo-code;
//! `docs/links.md` lists its gaps and how they are closed here.
//!
//! **Growing.** Each initiator is the core of a fragment with a [`FragmentLabel`]. A fragment joins
//! a neighbour with a greater label; if both have the same level, the level of the result is one
//! higher. A dead link and a slow one look the same, so no process waits for a silent port.
//!
//! **Counting.** A core learns how many processes its tree has. The first core that counts a strict
//! majority is the leader, and its announcement is flooded.
//!
//! # What the caller must do
//!
//! Deliver the messages of each direction of a link in the order of sending, each at most once, or
//! none of them. Execute the outputs in their order. Give all processes the same n. The working
//! links must connect a majority of all processes; otherwise no process is elected.
//!
//! # Why there is at most one leader
//!
//! A core counts nodes of its own tree, each once, and wins with a strict majority. So two winners
//! share a node. That node has left the tree of the first one, and a fragment leaves its tree only
//! by a join that its core has ordered. A core that orders a join is *frozen*: it never wins under
//! this label, and afterwards it is no core. This needs the right n. It does not need f: if f is
//! too small, it is possible that no process is elected.
//!
//! # Why the forest has no cycle
//!
//! A fragment joins a greater label only. While it waits it is frozen, so its own label does not
//! change, and labels of others only grow. So the label at the other end stays greater, waits form
//! no circle, and the fragment at the end of a chain of waits is not frozen and lets the others in.
//!
//! # Why it goes on
//!
//! Take a state without messages, and the fragment with the least label that is not a whole
//! component. One of its nodes has a working port to another fragment, and its one `Test` is there.
//! An answer would have made the fragment join. A deferred answer needs a smaller label at the
//! other end, which does not exist. At such a state at most 2f ports are silent, so with 2f + 1
//! tokens every node has reported its part of the count.
//!
//! # Examples
//!
//! ```
//! use tenure_lab::links::*;
//!
//! // Two processes with one link; both begin.
//! let settings = ForestSettings::new(2, 0);
//! let process = |id| ForestNode::new(settings, CoreId(id), ForestRole::Initiator, 1);
//! let mut processes = [process(1), process(2)];
//! processes.each_mut().map(ForestNode::wake);
//! while let Some((from, message)) = (0..2).find_map(|it| Some((it, processes[it].poll_output()?))) {
//!     processes[1 - from].handle_message(Port(0), message.message);
//! }
//! let leaders = processes.each_ref().map(|it| it.leader().map(|leader| leader.id));
//! assert_eq!(leaders, [Some(CoreId(2)), Some(CoreId(2))]);
//! ```

mod label;
mod message;
mod settings;

mod ports;

mod node;

mod count;
mod grow;

pub use label::{CoreId, FragmentLabel};
pub use message::{ForestMessage, ForestOutput, Port};
pub use node::{ForestLeader, ForestNode};
pub use ports::PortState;
pub use settings::{ForestRole, ForestSettings};

#[cfg(test)]
mod tests;
