//! Realistic programs that use tenure. Each file in this directory is a program whose first lines
//! describe it. Run one with `cargo run -p tenure-examples --example smallest`.
//!
//! | example | demonstrates |
//! |---|---|
//! | `smallest` | a task that runs on the leader only |
//! | `log_rollup` | a job that writes to SQLite under its epoch |
//! | `axum_worker` | a web service that is a candidate and redirects requests to the leader |
//! | `fenced_receiver` | a web service that refuses writes of a stale leader |
//! | `graceful_handover` | a leader that finishes its current work before the next one starts |
//! | `cron` | a program that the leader runs once per period |
//! | `work_rows` | a leader that hands out work in a table, and instances that take rows of it |
//! | `backup.sh` | a shell script under `tenure run` that checks its epoch |
//! | `azure_leader.py` | the leader election pattern with an Azure SDK, against a store or Azure |

/// The programs in the README and in the guides compile with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/tutorial.md")]
#[doc = include_str!("../docs/migrate-etcd.md")]
struct Readme;
