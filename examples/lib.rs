//! Programs that use tenure as an application would. Each file here says at its top what it does;
//! run one with `cargo run -p tenure-examples --example smallest`.
//!
//! | example | shows |
//! |---|---|
//! | `smallest` | a task that runs on the leader |
//! | `log_rollup` | a job that writes to SQLite under its epoch |
//! | `axum_worker` | a web service that is a candidate, and forwards requests to the leader |
//! | `fenced_receiver` | a web service that rejects the requests of a stale leader |
//! | `graceful_handover` | a leader that finishes its work before the next one starts |
//! | `cron` | a program that runs once a period, on the leader only |
//! | `backup.sh` | a shell script under `tenure run` that uses its epoch |

/// The programs in the README compile with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
