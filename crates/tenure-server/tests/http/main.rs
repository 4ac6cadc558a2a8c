//! A store over real sockets.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/signer.rs"]
mod signer;

mod access;
mod api;
mod audit;
mod backup;
mod bad_input;
mod batch;
mod certificates;
mod events;
mod history;
mod jwt;
mod openapi;
mod overview;
mod restart;
mod resume;
mod routes;
mod shutdown;
mod tls;
mod waiting;
