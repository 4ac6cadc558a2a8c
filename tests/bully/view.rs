//! The status that members show, and the secrets that they never show.

use std::fs;
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_tests::process::{Process, command, output, run, stderr, stdout};
use tenure_tests::wait_for;

use super::three::{Group, free_addresses};

impl Group {
    fn peers(&self, flags: &[&str]) -> Output {
        let base = ["peers", "--election", "tests/job", "--peers", &self.peers];
        run(&[&base, flags].concat())
    }

    /// Waits until all members agree, and returns the leader.
    fn agreed(&self) -> Value {
        wait_for("agreement", || {
            let output = self.peers(&["--json"]);
            output
                .status
                .success()
                .then(|| serde_json::from_slice(&output.stdout).unwrap())
        })
    }
}

#[test]
fn peers_shows_all_views_and_its_exit_code_shows_whether_they_agree() {
    let group = Group::start();
    let (epoch, leader) = group.next_leader(0);
    let agreed = group.agreed();
    assert_eq!(
        (&agreed["leader"], &agreed["epoch"]),
        (&leader.into(), &epoch.into())
    );
    let members = agreed["members"].as_array().unwrap();
    assert_eq!(members.len(), 3);
    for member in members {
        let view = &member["view"];
        let leads = member["node"] == leader;
        assert_eq!(view["role"], if leads { "leading" } else { "following" });
        assert_eq!(
            (&view["strategy"], &view["quorum"]),
            (&"bully".into(), &true.into())
        );
        assert_eq!(
            (&view["incarnation"], &view["epoch"]),
            (&1.into(), &epoch.into())
        );
        // A leader may have got all its answers in responses to its own requests.
        let counter = |name: &str| view["counters"][name].as_u64();
        assert!(
            counter("taken").max(counter("answered")) > Some(0),
            "{member}"
        );
    }
    let table = stdout(&group.peers(&[]));
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains(&epoch.to_string()), "{table}");
    for node in 1..=3 {
        let address = format!("http://{}/", group.address(node));
        let row = table.lines().find(|row| row.contains(&address));
        assert!(
            row.is_some_and(|row| row.contains(" answered, ")),
            "{table}"
        );
    }

    // A member that is gone has a row with the reason; the others agree.
    let gone = if leader == 1 { 2 } else { 1 };
    group.members[&gone].signal(Signal::SIGKILL);
    wait_for("a row with the reason", || {
        let table = stdout(&group.peers(&[]));
        let row = table
            .lines()
            .find(|line| line.starts_with(&gone.to_string()))?;
        row.contains("can't reach it").then_some(())
    });
    assert_eq!(group.agreed()["leader"], leader);
    // Without a majority they agree that there is no leader.
    for member in group.members.values() {
        let _ = nix::sys::signal::kill(member.pid(), Signal::SIGSTOP);
    }
    let frozen = group.peers(&[]);
    assert_eq!(frozen.status.code(), Some(69), "{frozen:?}");
    assert!(stderr(&frozen).contains("no member answers"), "{frozen:?}");
}

#[test]
fn peers_reports_another_group_and_wrong_settings() {
    let group = Group::start();
    group.agreed();
    let peers = [
        "peers",
        "--peers",
        &group.peers,
        "--election",
        "tests/other",
    ];
    let other = run(&peers);
    assert_eq!(other.status.code(), Some(69));
    assert!(
        stdout(&other).contains("this is a member of job"),
        "{other:?}"
    );
    let none = run(&["peers", "--election", "tests/job"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("bully.peers is not set"), "{none:?}");
    // There is no store to send requests to.
    for asked in [&["status", "tests/job"][..], &["doctor"]] {
        let asked = output(command(asked).env("TENURE_STRATEGY", "bully"));
        assert_eq!(asked.status.code(), Some(2), "{asked:?}");
        assert!(stderr(&asked).contains("tenure peers"), "{asked:?}");
    }
    // From a configuration file, as for `tenure run`.
    let config = group.folder.path().join("tenure.toml");
    let text = format!(
        "election = \"tests/job\"\n[bully]\npeers = {:?}",
        group.peers
    );
    fs::write(&config, text).unwrap();
    // The last member may have just started, and know no leader yet.
    wait_for("agreement", || {
        let from_file = run(&["peers", "--config", config.to_str().unwrap()]);
        from_file.status.success().then_some(())
    });
}

#[test]
fn two_processes_with_one_node_id_both_refuse_to_lead_and_name_the_reason() {
    let mut group = Group::start();
    let led = group.next_leader(0);
    group.agreed();
    // A follower, which has no command to stop first.
    let node = if led.1 == 1 { 2 } else { 1 };
    let mut double = group.command(node, &[]);
    double
        .env(
            "TENURE_BULLY_STATE_DIR",
            group.folder.path().join("state-double"),
        )
        .env("TENURE_BULLY_LISTEN", &free_addresses(1)[0]);
    let mut double = Process::spawn(&mut double);
    let first = group.members.get_mut(&node).unwrap();
    // If the second process fails for another reason, its own words show it.
    for process in [&mut double, first] {
        let code = process.wait().code();
        assert_eq!(code, Some(3), "{}", process.stderr());
        let shown = wait_for("the reason", || {
            let shown = process.stderr();
            shown.contains("tenure: ").then_some(shown)
        });
        let words = [
            "this member takes no part in the election: member ".to_owned(),
            format!("two processes claim to be start 1 of member {node}"),
            "stop one of the two".to_owned(),
        ];
        assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
    }
    // The other members are not affected.
    assert_eq!(group.agreed()["leader"], led.1);
    assert_eq!(group.beats().last(), Some(&led));
}

const SECRET: &str = "a secret of the environment";

#[test]
fn a_key_in_the_environment_is_used_and_never_shown() {
    let show = output(command(&["config", "show"]).env("TENURE_BULLY_KEY", SECRET));
    assert!(stdout(&show).contains("TENURE_BULLY_KEY"), "{show:?}");
    let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
    let state = tempfile::tempdir().unwrap();
    let address = &free_addresses(1)[0];
    run.args(["--node", "1", "--peers", &format!("1=http://{address}")])
        .args(["--once", "--state-dir"])
        .arg(state.path())
        .args(["--", "true"])
        .env("TENURE_LOG", "trace")
        .env("TENURE_BULLY_LISTEN", address)
        .env("TENURE_BULLY_KEY", SECRET);
    let ran = output(&mut run);
    assert!(ran.status.success(), "{ran:?}");
    let key_file = state.path().join("key");
    fs::write(&key_file, SECRET).unwrap();
    let twice = output(run.env("TENURE_BULLY_KEY_FILE", &key_file));
    assert_eq!(twice.status.code(), Some(2));
    assert!(
        stderr(&twice).contains("leave one of the two out"),
        "{twice:?}"
    );
    let short = output(
        run.env_remove("TENURE_BULLY_KEY_FILE")
            .env("TENURE_BULLY_KEY", "short"),
    );
    assert!(stderr(&short).contains("at least 16"), "{short:?}");
    for output in [show, ran, twice, short] {
        let all = stdout(&output) + &stderr(&output);
        assert!(!all.contains(SECRET) && !all.contains("\"short\""), "{all}");
    }
}
