//! A name service that goes silent while a candidate leads.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::network::is_in_own_network;
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

use super::{BEAT, Bench, candidate};

/// The name of the store, in a domain that is for tests.
const NAME: &str = "store.test";

/// The end of a question in the protocol: the type A and the class IN.
const ADDRESS_OF_4_BYTES: [u8; 4] = [0, 1, 0, 1];

/// Answers that each name has the address 127.0.0.1 for no time at all, until it is silent.
fn serve_names(is_silent: Arc<AtomicBool>) {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if is_silent.load(Ordering::SeqCst) {
                continue;
            }
            // The header has 12 bytes. The name ends with an empty label, and 4 bytes follow.
            let asked = &buffer[..length];
            let name = asked[12..].iter().position(|byte| *byte == 0).unwrap();
            let question = &asked[12..12 + name + 5];
            let has_answer = question.ends_with(&ADDRESS_OF_4_BYTES);
            let flags = [0x81, 0x80, 0, 1, 0, u8::from(has_answer), 0, 0, 0, 0];
            let mut answer = [&asked[..2], &flags, question].concat();
            if has_answer {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// The store starts again, so the leader must connect again.
#[test]
fn a_leader_keeps_its_term_when_the_name_service_is_silent_and_the_connection_breaks() {
    let test = "a_leader_keeps_its_term_when_the_name_service_is_silent_and_the_connection_breaks";
    if !is_in_own_network(test, &format!("names::{test}")) {
        return;
    }
    run(Command::new("ip").args(["link", "set", "lo", "up"]));
    let is_silent = Arc::new(AtomicBool::new(false));
    serve_names(is_silent.clone());
    let mut bench = Bench::new();
    // The second file leaves out other services of names.
    for (file, text) in [
        ("resolv.conf", "nameserver 127.0.0.1\n"),
        ("nsswitch.conf", "hosts: dns\n"),
    ] {
        let (ours, theirs) = (bench.folder.path().join(file), Path::new("/etc").join(file));
        fs::write(&ours, text).unwrap();
        run(Command::new("mount").arg("--bind").args([ours, theirs]));
    }

    let address = bench.store.address().to_string();
    let data = bench.folder.path().join("store");
    let mut serve = command(&["serve", "--listen", &address, "--data-dir"]);
    serve.arg(data).env("TENURE_ACCESS_HOSTS", NAME);
    let mut restart = |store: &mut Process| {
        store.signal(Signal::SIGKILL);
        store.wait();
        *store = Process::spawn(&mut serve);
    };
    restart(&mut bench.store.process);
    let url = format!("http://{NAME}:{}", bench.store.address().port());
    let flags = ["--lease-duration", "9s", "--server", &url];
    let journal = bench.journal_path();
    let program = ["sh", "-c", BEAT, journal.to_str().unwrap()];
    let leader = bench.run(&candidate("leader"), &flags, &program);
    let epoch = bench.next_epoch(0);
    is_silent.store(true, Ordering::SeqCst);
    restart(&mut bench.store.process);
    wait_for("the use of the last addresses", || {
        let line = format!("can't look up {NAME}, trying the last addresses");
        leader.stderr().contains(&line).then_some(())
    });
    // Longer than the lease: without a renewal the term would be over.
    thread::sleep(Duration::from_secs(12));
    assert_eq!(bench.status()["epoch"], epoch, "{}", leader.stderr());
    assert!(
        !leader.stderr().contains("leadership lost"),
        "{}",
        leader.stderr()
    );
}
