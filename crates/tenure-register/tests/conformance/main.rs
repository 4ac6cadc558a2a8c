//! The checks that each home must pass, whatever keeps its values.

#[cfg(feature = "bucket")]
mod bucket;
mod checks;
#[cfg(unix)]
mod etcd;
mod memory;
mod mistakes;
#[cfg(unix)]
mod postgres;

/// Real services, as processes.
#[cfg(unix)]
#[expect(dead_code, reason = "other tests use the rest")]
#[expect(unreachable_pub, reason = "it is public in another crate")]
#[path = "../../../../tests/support"]
mod support {
    pub mod etcd;
    pub mod needs;
    pub mod ports;
    pub mod postgres;
    pub mod postgres_proxy;
}
