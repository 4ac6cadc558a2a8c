//! The Azure Blob lease protocol, over HTTP.

#![allow(unreachable_pub)] // The modules belong to a test.

#[path = "../../../tenure-server/tests/common/mod.rs"]
mod common;
#[path = "../../../tenure-server/tests/common/signer.rs"]
mod signer;

mod client;

mod access;
mod batch;
mod blocks;
mod both_protocols;
mod cells;
mod durability;
mod errors;
mod hosts;
mod owners;
mod requests;
#[cfg(feature = "client")]
mod resume;
mod sdks;
mod secure;
