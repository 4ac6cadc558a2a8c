//! The errors of the start of a member.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tenure_core::NodeId;

use super::http_error::HttpClientError;

/// The format of the state of a member that this version writes and reads.
pub(crate) const STATE_FORMAT: u32 = 1;

/// The reason why a member can't listen for the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is in use, or does not belong to this machine.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The HTTP client can't be set up.
    #[error(transparent)]
    Client(#[from] HttpClientError),
}

/// The reason why a member's state can't be used. The member must not take part. The path names the
/// directory or the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The path is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Another process uses the directory. Each member needs its own directory.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// There was a record, and it is missing. Restore it. If it is lost, remove this member from
    /// the group and add another member with a new node id and an empty directory.
    #[error(
        "{} is missing, and with it the promises of this member; restore it, or give the member a \
         new node id and an empty directory",
        .0.display()
    )]
    Missing(PathBuf),
    /// The content of the file has changed; the text is the reason. Proceed as for
    /// [`Missing`](Self::Missing).
    #[error(
        "{} is damaged ({}); restore its content, or give the member a new node id and an empty \
         directory",
        .0.display(), .1
    )]
    Damaged(PathBuf, String),
    /// The state belongs to another member. Configure the correct directory.
    #[error(
        "{} is the state of member {found_node} of {found_cluster}, and this is member {node} of \
         {cluster}",
        path.display()
    )]
    AnotherMember {
        /// The file.
        path: PathBuf,
        /// The member to which the file belongs.
        found_node: NodeId,
        /// The group of that member.
        found_cluster: String,
        /// This member.
        node: NodeId,
        /// The group of this member.
        cluster: String,
    },
    /// A member of a group with a fallback had other settings when it last ran. Members with former
    /// settings may still lead, and the quorums of the two settings may have no voter in common.
    #[error(
        "{} is of a group with other settings ({former}), and this member has: {current}; two \
         leaders would be possible. Restore the settings, or stop all members, and start each of \
         them once with --accept-changes",
        path.display()
    )]
    OtherSettings {
        /// The directory.
        path: PathBuf,
        /// The settings at the last start.
        former: String,
        /// The settings now.
        current: String,
    },
    /// The group uses another store than the configured one.
    #[error(
        "{} is of a group that uses the store {former}, and the configured store is {current}: two \
         members with two stores could both lead. Correct the configuration; or, if the store was \
         replaced for good, stop all members, and start each of them once with --accept-changes",
        path.display()
    )]
    OtherStore {
        /// The directory.
        path: PathBuf,
        /// The store that the member remembers.
        former: String,
        /// The configured store.
        current: String,
    },
    /// A newer version has written the file in this format. Run that version.
    #[error("{} has format {}, and this version knows {STATE_FORMAT}", .0.display(), .1)]
    Newer(PathBuf, u32),
    /// The operating system returned an error, for instance because of missing permission, a full
    /// disk or a defective disk. The earlier content still exists.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
}

impl StateError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| Self::Io(path, error)
    }
}
