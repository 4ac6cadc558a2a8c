//! The Azure Blob lease protocol, over HTTP.

#![allow(unreachable_pub)] // They are modules of a test.

#[path = "../common/mod.rs"]
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
