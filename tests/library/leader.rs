//! A process whose leader does not stop, for the tests of overruns. The environment is its
//! configuration. It appends a line to a file every millisecond while it acts.
//!
//! Arguments: the part of the task that acts (`task`, `future`, `closure`, `hold`, or `polite` for a
//! task that stops when it is asked to), and the file.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tenure::{Candidate, Config, Leadership};

const PACE: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [part, file] = &arguments[..] else {
        panic!("two arguments");
    };
    let config = Config::from_env().expect("a valid configuration");
    let candidate = Candidate::start(config).await.expect("a candidate");
    let shutdown = tenure::shutdown_signal().expect("signal handlers");
    let file = File::options().append(true).create(true).open(file);
    let file = file.expect("a file");
    let task = |leadership| lead(leadership, part.clone(), file.try_clone().expect("a file"));
    let run = candidate.run_while_leader(shutdown, task);
    run.await.expect("a driver");
}

async fn lead(leadership: Leadership, part: String, file: File) {
    let line = format!("{}\n", leadership.epoch());
    let act = Arc::new(move || (&file).write_all(line.as_bytes()).expect("a file"));
    let act_often = act.clone();
    let act_for_ever = move || {
        loop {
            act_often();
            thread::sleep(PACE);
        }
    };
    match &*part {
        "task" => act_for_ever(),
        "future" => drop(leadership.spawn(async move { act_for_ever() }).await),
        "closure" => drop(leadership.spawn_blocking(move |_| act_for_ever()).await),
        "hold" => {
            let hold = leadership.hold().expect("a term");
            thread::spawn(move || {
                let _hold = hold;
                act_for_ever()
            });
            leadership.lost().await;
        }
        "polite" => {
            while leadership.is_valid() {
                act();
                tokio::select! {
                    _ = leadership.lost() => break,
                    () = tokio::time::sleep(PACE) => {}
                }
            }
        }
        other => panic!("no part {other}"),
    }
}
