//! Things that one would really write with tenure. Each file beside this one is a program that says
//! at its top what it does: `cargo run -p tenure-examples --example smallest`.
//!
//! | example | what it shows |
//! |---|---|
//! | `smallest` | a task that runs on the leader |
//! | `log_rollup` | a job that writes to SQLite under its epoch |
//! | `axum_worker` | a web service that is a candidate, and sends requests on to the leader |
//! | `fenced_receiver` | a web service that refuses what a stale leader sends |
//! | `graceful_handover` | a leader that finishes what it has begun before the next one starts |
//! | `cron` | a program run once a period, on the leader only |
//! | `backup.sh` | a shell script under `tenure run` that uses its epoch |
