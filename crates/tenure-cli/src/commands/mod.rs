//! The commands: each module has the arguments and the code of one command.

pub(crate) mod serve;

pub(crate) mod run;

pub(crate) mod list;
pub(crate) mod status;

pub(crate) mod history;
pub(crate) mod watch;

pub(crate) mod break_lease;
pub(crate) mod handover;

pub(crate) mod cluster;
pub(crate) mod peers;

pub(crate) mod backup;
pub(crate) mod restore;
mod store_place;

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod context;
pub(crate) mod dashboard;
pub(crate) mod init;
pub(crate) mod token;

pub(crate) mod config;
pub(crate) mod doctor;

pub(crate) mod demo;

pub(crate) mod completions;
pub(crate) mod man;
