//! Tests of a store under a supervisor: the protocol of systemd, health checks, and commands that
//! run at each start of a container.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::process::{Process, output, tenure};
use tenure_tests::{PATIENCE, wait_for};

use crate::{Place, read, started};

/// The socket on which systemd hears from a service.
struct Notifications(UnixDatagram);

impl Notifications {
    fn new(place: &Place) -> Self {
        let socket = UnixDatagram::bind(place.path("notify")).expect("a socket");
        let timeout = socket.set_read_timeout(Some(PATIENCE));
        timeout.expect("a timeout");
        Self(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("a report of the store");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Returns the next report other than a sign of life.
    fn next_change(&self) -> String {
        let mut reports = std::iter::repeat_with(|| self.next());
        let change = reports.find(|report| report.trim_end() != "WATCHDOG=1");
        change.expect("a change")
    }
}

#[test]
fn a_store_reports_readiness_reloads_signs_of_life_and_its_end_to_systemd() {
    let place = Place::new();
    place.init();
    let systemd = Notifications::new(&place);
    let config = place.text("etc/tenure.toml");
    let mut serve = place.command(&["serve", "--config", &config]);
    serve
        .env("NOTIFY_SOCKET", place.path("notify"))
        .env("WATCHDOG_USEC", "600000");
    let mut store = started(&mut serve);
    let ready = systemd.next_change();
    assert!(ready.contains("READY=1"), "{ready}");
    assert!(ready.contains("STATUS=listening on https://"), "{ready}");
    TcpStream::connect(("127.0.0.1", place.port)).expect("a store that is ready");
    for _ in 0..3 {
        assert_eq!(systemd.next().trim_end(), "WATCHDOG=1");
    }
    store.signal(Signal::SIGHUP);
    let reload = systemd.next_change();
    assert!(reload.contains("RELOADING=1"), "{reload}");
    assert!(reload.contains("MONOTONIC_USEC="), "{reload}");
    assert_eq!(systemd.next_change().trim_end(), "READY=1");
    store.signal(Signal::SIGTERM);
    assert_eq!(systemd.next_change().trim_end(), "STOPPING=1");
    assert!(store.wait().success());
}

#[test]
fn a_store_that_does_not_start_is_never_ready() {
    let place = Place::new();
    let systemd = Notifications::new(&place);
    let mut serve = place.command(&["serve", "--listen", "0.0.0.0:0"]);
    serve.env("NOTIFY_SOCKET", place.path("notify"));
    assert_eq!(output(&mut serve).status.code(), Some(2));
    systemd.0.set_nonblocking(true).expect("a socket");
    assert!(systemd.0.recv(&mut [0; 64]).is_err());
}

/// Returns `tenure` with this listener as systemd passes it: as file 3, or as files 3 and 4.
fn with_socket(place: &Place, listener: &TcpListener, count: u8, arguments: &[&str]) -> Command {
    let files = match count {
        1 => "exec 3<&0 0</dev/null",
        _ => "exec 3<&0 4<&0 0</dev/null",
    };
    let script = format!("{files}; LISTEN_FDS={count} LISTEN_PID=$$ exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(tenure());
    let listener = listener.try_clone().expect("a listener");
    command
        .args(arguments)
        .env("XDG_CONFIG_HOME", place.path("home"))
        .current_dir(place.folder.path())
        .stdin(Stdio::from(OwnedFd::from(listener)));
    command
}

#[test]
fn connections_wait_in_the_socket_of_systemd_while_the_store_restarts() {
    let place = Place::new();
    place.init();
    let listener = TcpListener::bind(("0.0.0.0", place.port)).expect("the port of the store");
    let config = place.text("etc/tenure.toml");
    let start = || {
        Process::spawn(&mut with_socket(
            &place,
            &listener,
            1,
            &["serve", "--config", &config],
        ))
    };
    let mut store = start();
    place.succeed(&["list"]);
    store.signal(Signal::SIGKILL);
    store.wait();
    thread::scope(|scope| {
        // Without the socket this would be refused at once.
        let list = scope.spawn(|| place.run(&["list"]));
        thread::sleep(Duration::from_millis(300));
        assert!(!list.is_finished(), "{:?}", list.join());
        store = start();
        let list = list.join().expect("a list");
        assert!(list.status.success(), "{list:?}");
    });
    assert!(!store.has_ended());
}

#[test]
fn the_rules_for_a_start_are_those_of_the_address_of_the_socket() {
    let place = Place::new();
    let beyond = TcpListener::bind("0.0.0.0:0").expect("a port");
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let refused = output(&mut with_socket(&place, &beyond, 1, &arguments));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is not a loopback address"), "{stderr}");

    let refused = output(&mut with_socket(&place, &beyond, 2, &arguments));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("LISTEN_FDS passes 2 sockets"), "{stderr}");
}

#[test]
fn the_probe_asks_the_store_of_its_own_settings() {
    let place = Place::new();
    place.init();
    let config = place.text("etc/tenure.toml");
    let probe = ["doctor", "--probe", "--config", &config];
    let error = place.fail(69, &probe);
    assert!(error.contains("not reachable"), "{error}");
    // A certificate for other names than the address that the probe uses.
    place.succeed(&[
        "init",
        "--renew",
        "--name",
        "store.example",
        "--dir",
        &place.text("etc"),
    ]);
    let store = place.serve();
    let printed = place.succeed(&probe);
    let url = format!("https://127.0.0.1:{}/readyz: ready", place.port);
    assert_eq!(printed.trim_end(), url);
    // A store that accepts connections and does not answer is not ready.
    store.signal(Signal::SIGSTOP);
    place.fail(69, &probe);
    store.signal(Signal::SIGCONT);
    wait_for("an answer", || {
        place.run(&probe).status.success().then_some(())
    });
}

#[test]
fn commands_at_each_start_of_a_container_change_nothing_the_second_time() {
    let place = Place::new();
    let (dir, data, file) = (
        place.text("etc"),
        place.text("data"),
        place.text("etc/access.toml"),
    );
    let init = [
        "init",
        "--if-missing",
        "--name",
        "localhost",
        "--dir",
        &dir,
        "--data-dir",
        &data,
    ];
    let token = [
        "token",
        "create",
        "worker",
        "--if-missing",
        "--role",
        "candidate",
        "--namespace",
        "tests",
        "--output",
        "worker.token",
        "--file",
        &file,
    ];
    place.succeed(&init);
    place.succeed(&token);
    let files = [
        "etc/tenure.toml",
        "etc/access.toml",
        "etc/tls/ca.pem",
        "etc/tls/store.key",
        "worker.token",
    ];
    let contents = || files.map(|name| read(&place.path(name)));
    let before = contents();
    for command in [&init[..], &token[..]] {
        let printed = place.succeed(command);
        assert!(printed.contains("nothing was changed"), "{printed}");
    }
    assert_eq!(contents(), before);

    // A part of the files is an error: the rest would not fit to it.
    std::fs::remove_file(place.path("etc/tls/store.key")).expect("a file");
    place.fail(2, &init);
    // A principal whose token is lost is an error, too.
    std::fs::remove_file(place.path("worker.token")).expect("a file");
    let error = place.fail(2, &token);
    assert!(error.contains("exists already"), "{error}");
}
