//! The Azure Blob lease protocol, over HTTP.

#![allow(unreachable_pub)] // They are modules of a test.

#[path = "../../../tenure-server/tests/common/mod.rs"]
mod common;

mod client;

mod access;
mod batch;
mod blocks;
mod both_protocols;
mod cells;
mod durability;
mod errors;
mod garbage;
mod hosts;
mod requests;
mod sdks;
mod secure;
