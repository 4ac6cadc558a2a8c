//! Tests of the destinations of a token: the token is sent to the addresses of the store, never
//! unencrypted beyond this machine, and never to the target of a redirect.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tenure_tests::needs::can_run;
use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;

use crate::Place;
use crate::tokens::create;

/// A listener that only records whether a client connects.
struct Trap(TcpListener);

impl Trap {
    fn at(ip: IpAddr) -> Self {
        let listener = TcpListener::bind((ip, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener");
        Self(listener)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// Returns a connection that a client has opened, if there is one.
    fn connection(&self) -> Option<TcpStream> {
        match self.0.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns an address of this machine that is not a loopback address. No packet is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified() && !ip.is_loopback()).then_some(ip)
}

#[test]
fn no_byte_goes_to_a_plain_address_beyond_loopback_if_a_token_is_set() {
    let test = "no_byte_goes_to_a_plain_address_beyond_loopback_if_a_token_is_set";
    let own = own_address();
    if !can_run(test, "an address beyond loopback", own.is_some()) {
        return;
    }
    let trap = Trap::at(own.expect("an address"));
    let place = Place::new();
    place.init();
    let token = create(&place, "worker");
    let text = crate::read(token.as_ref());
    let url = format!("http://{}", trap.address());
    // Without a token the same command connects, which shows that the trap works.
    let list = Process::spawn(&mut place.command(&["list", "--server", &url]));
    wait_for("a connection without a token", || trap.connection());
    drop(list);

    let (file, bundle) = (place.text("etc/access.toml"), place.text("bundle.toml"));
    place.succeed(&[
        "token",
        "create",
        "other",
        "--role",
        "candidate",
        "--namespace",
        "tests",
        "--bundle",
        &bundle,
        "--server",
        &url,
        "--file",
        &file,
    ]);
    let by_flag = ["--server", &url, "--token-file", &token];
    let by_config = ["--config", &bundle];
    // The check covers every address, and not only one of them.
    let both = [
        &["--server", "https://localhost:1", "--server", &url][..],
        &["--token-file", &token],
    ]
    .concat();
    for target in [&by_flag[..], &by_config, &both] {
        for command in [
            &["list"][..],
            &["status", "tests/job"],
            &["history", "tests/job"],
            &["watch", "tests/job"],
            &["break", "tests/job"],
            &["handover", "tests/job", "--to", "x"],
        ] {
            let error = place.fail(2, &[command, target].concat());
            assert!(error.contains("unencrypted"), "{command:?}: {error}");
        }
        let run = [&["run", "--election", "tests/job"], target, &["--", "true"]].concat();
        let error = place.fail(2, &run);
        assert!(error.contains("unencrypted"), "{error}");
        let doctor = [&["doctor"], target].concat();
        assert!(!place.run(&doctor).status.success());
    }
    for (name, value) in [("TENURE_TOKEN", text.trim()), ("TENURE_TOKEN_FILE", &token)] {
        let mut list = place.command(&["list", "--server", &url]);
        let ran = output(list.env(name, value));
        assert_eq!(ran.status.code(), Some(2), "{name}: {ran:?}");
    }
    place.succeed(&["token", "list", "--file", &file]);
    let context = place.run(&["context", "add", "plain", &bundle]);
    if context.status.success() {
        place.fail(2, &["list", "--context", "plain"]);
    }
    assert!(trap.connection().is_none(), "a client has connected");
}

/// Answers every request with a redirect to this address, and keeps the requests.
fn redirect(status: u16, to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&requests);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            kept.lock()
                .expect("requests")
                .push(String::from_utf8_lossy(&head).into_owned());
            let answer = format!(
                "HTTP/1.1 {status} See There\r\nlocation: http://{to}/v1/limits\r\n\
                 content-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, requests)
}

#[test]
fn a_redirect_gets_no_token_at_its_target() {
    let place = Place::new();
    place.init();
    let token = create(&place, "worker");
    let text = crate::read(token.as_ref());
    let trap = Trap::at(Ipv4Addr::LOCALHOST.into());
    for status in [301, 302, 303, 307, 308] {
        let (address, requests) = redirect(status, trap.address());
        let url = format!("http://{address}");
        let target = ["--server", &url, "--token-file", &token];
        let list = place.run(&[&["list"], &target[..]].concat());
        let stderr = String::from_utf8_lossy(&list.stderr);
        let names_it = stderr.contains(&status.to_string());
        assert!(!list.status.success() && names_it, "{status}: {stderr}");
        let first = requests.lock().expect("requests")[0].to_lowercase();
        let header = format!("authorization: bearer {}", text.trim().to_lowercase());
        assert!(first.contains(&header), "the store itself gets the token");
        if status == 302 || status == 307 {
            let run = [
                &["run", "--election", "tests/job"],
                &target[..],
                &["--", "true"],
            ];
            let run = Process::spawn(&mut place.command(&run.concat()));
            wait_for("requests of a candidate", || {
                (requests.lock().expect("requests").len() >= 3).then_some(())
            });
            drop(run);
        }
    }
    assert!(
        trap.connection().is_none(),
        "a client has followed a redirect"
    );
}
