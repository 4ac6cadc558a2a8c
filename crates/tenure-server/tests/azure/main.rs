//! The Azure Blob lease protocol, over HTTP.

#![allow(unreachable_pub)] // They are modules of a test.

#[path = "../common/mod.rs"]
mod common;

mod client;

mod access;
mod cells;
mod faces;
mod garbage;
mod kept;
mod secure;
mod wrong;
