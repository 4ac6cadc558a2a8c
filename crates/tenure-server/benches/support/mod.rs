//! The common parts of the benchmarks: servers in their own processes, a client that costs little,
//! and tables of results.
//!
//! A benchmark starts its own binary again as a server, so that the processor time of the server is
//! measured separately from that of the load.

#![allow(dead_code, unreachable_pub, unused_imports)] // Each benchmark uses its part.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::lease::LeaseId;

mod client;
mod local;
mod process;
mod report;

pub use client::{Connection, Stream};
pub use local::Local;
pub use process::{Child, Kind, cpu, serve_if_asked, serve_if_asked_with};
pub use report::{Samples, per_second, table};

/// The allocator of the `tenure` command, so that the benchmarks measure the same program. The
/// baseline servers use it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns whether `--quick` was given: fewer rounds and smaller numbers, to test the benchmark
/// itself.
pub fn quick() -> bool {
    std::env::args().any(|argument| argument == "--quick")
}

/// Returns the path of a call on the lease with this number.
pub fn path(number: u64, verb: &str) -> String {
    format!("/v1/namespaces/bench/leases/lease-{number:07}/{verb}")
}

/// Returns the lease id with this number. It has as few repeated bytes as a random one: a log
/// compresses its batches.
pub fn id(number: u64) -> String {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let bits = [number, !number].map(|it| it.wrapping_mul(ODD));
    LeaseId::from_random_bits(bits[0], bits[1])
        .to_wire()
        .to_string()
}

/// Returns the body of an acquire for a day, which may wait.
pub fn acquire(number: u64, wait_ms: u64) -> String {
    format!(
        r#"{{"holder":"worker-{number:07}","duration_ms":86400000,"lease_id":"{}","wait_ms":{wait_ms}}}"#,
        id(number)
    )
}

/// Returns the number of a lease id that was never used: an id that was used is retired.
pub fn fresh() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(1);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Returns the body of a renewal or a release.
pub fn proof(number: u64) -> String {
    format!(r#"{{"lease_id":"{}"}}"#, id(number))
}

/// Pseudorandom numbers, the same ones in each run.
pub struct Jumps(u64);

impl Jumps {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Creates a folder on the disk of the build directory. Dropping it deletes it.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}
