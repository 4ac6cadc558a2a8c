//! The Azure Blob lease protocol, over HTTP.

#![allow(unreachable_pub)] // They are modules of a test.

#[path = "../../../tenure-server/tests/common/mod.rs"]
mod common;

mod client;

mod access;
mod batch;
mod blocks;
mod cells;
mod faces;
mod garbage;
mod kept;
mod sdks;
mod secure;
mod wrong;
