//! The page of a group of peers, which each member serves.

use std::fs;
use std::net::TcpStream;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

use crate::page::Page;

/// Three members of a group.
struct Group {
    _folder: TempDir,
    origins: Vec<String>,
    members: Vec<Process>,
}

impl Group {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        fs::write(&key, "a secret of the tests, long enough\n").expect("the key");
        let origins: Vec<String> = (0..3)
            .map(|_| format!("http://{}", free_address()))
            .collect();
        let peers = (1..).zip(&origins);
        let peers: Vec<String> = peers.map(|(node, url)| format!("{node}={url}")).collect();
        let member = |node: usize| {
            let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
            run.args(["--node", &node.to_string(), "--peers", &peers.join(",")])
                .args(["--lease-duration", "3s", "--key-file"])
                .arg(&key)
                .env(
                    "TENURE_BULLY_STATE_DIR",
                    folder.path().join(node.to_string()),
                )
                .env("TENURE_BULLY_MESSAGE_LIFETIME", "400ms")
                .args(["--", "sleep", "1000"]);
            Process::spawn(&mut run)
        };
        let members = (1..=3).map(member).collect();
        Self {
            _folder: folder,
            origins,
            members,
        }
    }
}

#[test]
fn the_page_of_a_group_shows_each_member_and_is_accessible_and_fits() {
    let Some(page) =
        Page::start("the_page_of_a_group_shows_each_member_and_is_accessible_and_fits")
    else {
        return;
    };
    let group = Group::start();
    wait_for("the third member", || {
        let address = group.origins[2].trim_start_matches("http://");
        TcpStream::connect(address).ok()
    });
    page.open(&group.origins[2], "/");
    let leading = "return document.querySelectorAll('tr[data-state=leading]').length === 1
        && document.querySelectorAll('tr[data-state=following]').length === 2";
    page.wait("one leader and two followers", leading);
    page.check("group");

    group.members[0].signal(Signal::SIGSTOP);
    page.wait_for_text("no answer within 1s");
    page.wait(
        "a leader among the other two",
        "return document.getElementById('agreement').dataset.state === 'partly'",
    );
    page.check("group-silent-member");
    group.members[0].signal(Signal::SIGCONT);

    page.expect_message("ERR_");
    group.members[2].signal(Signal::SIGKILL);
    page.wait_for_text("not connected");
    page.check("group-disconnected");
    page.finish();
}
