//! The state that a member keeps on disk.

mod dir;
mod file;

pub(crate) use file::StateFile;
