//! The smallest leader task: one of several processes prints the time.
//!
//! Start a store with `tenure serve`, then any number of instances:
//! `cargo run -p tenure-examples --example smallest`

use std::time::Duration;

use tenure::{Candidate, Config, Leadership};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let candidate = Candidate::start(Config::new("clock".parse()?)).await?;
    let shutdown = tenure::shutdown_signal()?;
    candidate.run_while_leader(shutdown, print_the_time).await?;
    Ok(())
}

async fn print_the_time(leadership: Leadership) {
    while leadership.is_valid() {
        println!(
            "{}: it is {:?}",
            leadership.epoch(),
            std::time::SystemTime::now()
        );
        tokio::select! {
            _ = leadership.lost() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}
