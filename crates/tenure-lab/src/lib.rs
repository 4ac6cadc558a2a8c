//! Compares ways to elect a leader, and checks that they keep what they promise, in simulated time.
//!
//! What is elected with is the library's own code: the candidate of lease mode and the rules of the
//! store, the members of an election among peers, the failure detectors. A run has a seed and gives the
//! same result everywhere. For people the command `tenure compare` shows what comes of it.
//!
//! It says nothing about disks, sockets and threads as they are: that is for real processes, whose network
//! is cut and slowed down by a [`proxy`].

pub mod sim;

pub mod contestant;

pub mod baseline;

pub mod detector;

pub mod fault;

pub mod invariant;

pub mod check;

pub mod scenario;

pub mod measure;

pub mod paper;

pub mod report;

pub mod proxy;

/// The one of `known` that is most like `name`; what begins like it is liker.
///
/// # Panics
///
/// If nothing is known.
fn nearest(name: &str, known: impl IntoIterator<Item = String>) -> String {
    let alike = |known: &String| strsim::jaro_winkler(name, known);
    let nearest = known
        .into_iter()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)));
    nearest.expect("something that is known")
}
