//! Tests of lines that are written, lines that are lost, and logs that were changed.

use std::fs;
use std::iter;
use std::os::unix::fs::symlink;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn entry(reason: &str) -> AuditEntry {
    AuditEntry::new(AuditKind::Break, "done").with_reason(Some(reason.into()))
}

fn verified(first: u64, last: u64) -> Option<Verified> {
    Some(Verified {
        first,
        last,
        ..Verified::default()
    })
}

struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("audit.jsonl")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self) -> Audit {
        self.open_as(true)
    }

    fn open_as(&self, is_required: bool) -> Audit {
        let config = AuditConfig::new(AuditTarget::File(self.path()));
        Audit::open(AuditConfig {
            is_required,
            ..config
        })
        .unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    fn values(&self) -> Vec<Value> {
        let lines = self.lines().into_iter();
        lines
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    }

    /// Creates a log with this number of lines, written by two runs of the store.
    async fn with_lines(count: usize) -> Self {
        let fixture = Self::new();
        for range in [0..count / 2, count / 2..count] {
            let audit = fixture.open();
            for number in range {
                assert!(audit.record_now(entry(&format!("reason {number}"))).await);
            }
        }
        fixture
    }

    fn replace(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(), text).unwrap();
    }

    /// Returns the error of a check of this log.
    fn wrong(&self) -> String {
        verify(&[self.path()]).unwrap_err().to_string()
    }

    /// Makes every later write fail because the disk is full.
    fn fill_disk(&self) {
        fs::rename(self.path(), self.at("before")).unwrap();
        symlink("/dev/full", self.path()).unwrap();
    }

    /// Makes later writes succeed, and later syncs fail.
    fn fail_syncs(&self) {
        fs::rename(self.path(), self.at("before")).unwrap();
        symlink("/dev/null", self.path()).unwrap();
    }

    /// Makes writes to the previous file succeed again.
    fn free_disk(&self) {
        fs::rename(self.at("before"), self.path()).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn root_opens_no_log_behind_a_link_of_another_user() {
    use std::os::unix::fs::lchown;
    use std::path::Path;

    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("folder")).unwrap();
    symlink(fixture.at("made"), fixture.path()).unwrap();
    symlink(fixture.at("folder"), fixture.at("link")).unwrap();
    let opened = |path: &Path| {
        let target = AuditTarget::File(path.into());
        Log::open(target).map(drop)
    };
    opened(&fixture.path()).expect("a link of root at the end");
    fs::remove_file(fixture.at("made")).unwrap();
    for link in [fixture.path(), fixture.at("link")] {
        lchown(&link, Some(60_123), Some(60_123)).unwrap();
    }
    for path in [fixture.path(), fixture.at("link/audit.jsonl")] {
        let error = opened(&path).unwrap_err().to_string();
        assert!(error.contains("a link of another user"), "{error}");
    }
    assert!(!fixture.at("made").exists());
    assert_eq!(fs::read_dir(fixture.at("folder")).unwrap().count(), 0);
}

#[tokio::test]
async fn lines_are_a_chain_also_after_a_restart() {
    let fixture = Fixture::with_lines(10).await;
    let lines = fixture.values();
    assert_eq!(lines.len(), 10);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], index + 1);
        assert_eq!(
            (&line["kind"], &line["outcome"]),
            (&"break".into(), &"done".into())
        );
    }
    assert_eq!(verify(&[fixture.path()]).unwrap(), verified(1, 10));
}

#[tokio::test]
async fn a_log_that_was_changed_is_found_with_the_line() {
    let fixture = Fixture::with_lines(10).await;
    let whole = fixture.lines();
    let wrong = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = whole.clone();
        change(&mut lines);
        fixture.replace(&lines);
        fixture.wrong()
    };
    let edited = wrong(&|lines| lines[4] = lines[4].replace("reason 4", "reason X"));
    assert!(
        edited.contains(":6: line 6 does not follow line 5"),
        "{edited}"
    );
    let removed = wrong(&|lines| drop(lines.remove(4)));
    assert!(
        removed.contains(":5: line 6 does not follow line 4"),
        "{removed}"
    );
    let swapped = wrong(&|lines| lines.swap(4, 5));
    assert!(
        swapped.contains(":5: line 6 does not follow line 4"),
        "{swapped}"
    );
    let cut = wrong(&|lines| lines[9].truncate(20));
    assert!(cut.contains(":10: this is not an audit line"), "{cut}");
    let unreadable = wrong(&|lines| lines[4].truncate(20));
    assert!(
        unreadable.contains(":5: this is not an audit line"),
        "{unreadable}"
    );
    let first = wrong(&|lines| lines[0].truncate(20));
    assert!(first.contains(":1: this is not an audit line"), "{first}");
    for added in [
        r#"{"at":"2026-11-22T05:00:00.000Z","kind":"break","outcome":"done"}"#,
        r#"{"seq":"6","prev":1}"#,
        r#" {"kind":"break"} rest"#,
        r#"{"event":"break","x":NaN}"#,
        r#"{"seq":6,"event":"break","x":NaN}"#,
        r#"{"seq":6,"event":"break",}"#,
        r#"{"seq":6,'event':"break""#,
        r#"{"event":"break""#,
        "\u{feff}{\"seq\":6",
        "break",
        "[]",
        "7",
    ] {
        let added = wrong(&|lines| lines.insert(5, added.to_owned()));
        assert!(added.contains(":6: this is not an audit line"), "{added}");
    }
    let feed = wrong(&|lines| lines[4].push('\r'));
    assert!(feed.contains(":6: line 6 does not follow line 5"), "{feed}");
}

#[tokio::test]
async fn a_reason_shows_all_of_its_characters_and_the_chain_goes_on() {
    let fixture = Fixture::new();
    let audit = fixture.open();
    let reason = "a\u{202e}b\u{200b}c\u{2028}d\u{85}\u{7f}\u{e0041}\né";
    for reason in [reason, "plain"] {
        assert!(audit.record_now(entry(reason)).await);
    }
    let shown = r#""reason":"a\u202eb\u200bc\u2028d\u0085\u007f\udb40\udc41\né""#;
    assert!(fixture.lines()[0].contains(shown), "{}", fixture.lines()[0]);
    assert_eq!(fixture.values()[0]["reason"], reason);
    assert_eq!(verify(&[fixture.path()]).unwrap(), verified(1, 2));
}

#[tokio::test]
async fn every_changed_byte_is_found_in_its_line_or_by_the_next_one() {
    let fixture = Fixture::with_lines(4).await;
    let whole = fs::read(fixture.path()).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    for position in 0..last_line {
        for bit in [0x01, 0x20, 0x80] {
            let mut bytes = whole.clone();
            bytes[position] ^= bit;
            fs::write(fixture.path(), &bytes).unwrap();
            let line = whole[..position]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            let wrong = fixture.wrong();
            let is_found = [line, line + 1]
                .iter()
                .any(|line| wrong.contains(&format!("audit.jsonl:{line}: ")));
            assert!(is_found, "byte {position} of line {line}: {wrong}");
        }
    }
}

#[tokio::test]
async fn a_file_that_was_cut_within_a_line_is_found_and_one_between_two_files_too() {
    let fixture = Fixture::with_lines(6).await;
    let whole = fs::read(fixture.path()).unwrap();
    let end = whole.len() - 1;
    for length in end - 30..end {
        fs::write(fixture.path(), &whole[..length]).unwrap();
        let wrong = fixture.wrong();
        assert!(wrong.contains(":6: this is not an audit line"), "{wrong}");
    }
    let lines = fixture.lines();
    let rest = fixture.at("rest");
    fs::write(&rest, format!("{}\n", lines[4])).unwrap();
    fixture.replace(&lines[..3]);
    let wrong = verify(&[fixture.path(), rest]).unwrap_err().to_string();
    assert!(
        wrong.contains("rest:1: line 5 does not follow line 3"),
        "{wrong}"
    );
}

#[tokio::test]
async fn a_line_that_a_kill_cut_short_is_named_and_the_chain_goes_on_after_it() {
    let line = r#"{"seq":3,"at":"2026-11-22T05:40:01.120Z","kind":"break","out"#;
    for cut in 1..line.len() {
        let fixture = Fixture::with_lines(2).await;
        let mut bytes = fs::read(fixture.path()).unwrap();
        bytes.extend(&line.as_bytes()[..cut]);
        fs::write(fixture.path(), bytes).unwrap();
        let wrong = fixture.wrong();
        assert!(wrong.contains(":3: this is not an audit line"), "{wrong}");
        let audit = fixture.open();
        for reason in ["after", "and again"] {
            assert!(audit.record_now(entry(reason)).await);
        }
        let found = verify(&[fixture.path()]).unwrap().unwrap();
        assert_eq!((found.first, found.last), (1, 4));
        let path = fixture.path();
        assert_eq!(found.cut, [CutLine { path, line: 3 }]);
    }
}

#[tokio::test]
async fn a_reason_can_not_forge_a_line() {
    let fixture = Fixture::new();
    let forged = "x\"}\r\n{\"seq\":2,\"kind\":\"start\",\"prev\":\"\"}\u{2028}\u{0}\\\"";
    fixture.open().record_now(entry(forged)).await;
    let lines = fixture.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(fixture.values()[0]["reason"], forged);
}

#[tokio::test]
async fn a_file_that_is_renamed_or_deleted_is_made_again_and_the_chain_goes_on() {
    let fixture = Fixture::new();
    let audit = fixture.open();
    audit.record_now(entry("one")).await;
    let rotated = fixture.at("audit.1");
    fs::rename(fixture.path(), &rotated).unwrap();
    audit.record_now(entry("two")).await;
    audit.record_now(entry("three")).await;
    assert_eq!(fixture.lines().len(), 2);
    let found = verify(&[rotated, fixture.path()]).unwrap();
    assert_eq!(found, verified(1, 3));
    fs::remove_file(fixture.path()).unwrap();
    audit.record_now(entry("four")).await;
    assert_eq!(fixture.lines().len(), 1);
    assert_eq!(verify(&[fixture.path()]).unwrap(), verified(4, 4));
}

#[tokio::test]
async fn lines_that_found_a_full_disk_are_counted_in_the_next_one_that_is_written() {
    let fixture = Fixture::new();
    let audit = fixture.open();
    assert!(audit.record_now(entry("one")).await);
    fixture.fill_disk();
    for lost in 1..=3 {
        assert!(!audit.record_now(entry("lost")).await);
        assert_eq!(audit.lost(), lost);
    }
    fixture.free_disk();
    assert!(audit.record_now(entry("two")).await);
    assert!(audit.record_now(entry("three")).await);
    let lines = fixture.values();
    assert_eq!(lines.len(), 3);
    let lost = lines.iter().map(|line| line["lost"].as_u64());
    assert_eq!(lost.collect::<Vec<_>>(), [None, Some(3), None]);
    let found = verify(&[fixture.path()]).unwrap().unwrap();
    assert_eq!((found.last, found.lost), (3, 3));
}

#[tokio::test]
async fn an_answer_waits_until_its_line_is_synced() {
    let fixture = Fixture::new();
    let audit = fixture.open();
    assert!(audit.record_now(entry("on disk")).await);
    fixture.fail_syncs();
    assert!(!audit.record_now(entry("not on disk")).await);
    assert_eq!(audit.lost(), 1);
    assert!(audit.check().is_err());
}

#[tokio::test]
async fn lines_that_can_not_be_written_are_counted_and_operators_are_refused() {
    for is_required in [true, false] {
        let fixture = Fixture::new();
        let audit = fixture.open_as(is_required);
        assert!(audit.record_now(entry("one")).await);
        assert!(audit.check().is_ok());
        fixture.fill_disk();
        audit.record_now(entry("lost")).await;
        let refusal = audit.check().err().map(|problem| problem.status);
        assert_eq!(refusal, is_required.then_some(503));
        fixture.free_disk();
        // The refused change is recorded, so the log recovers without other acts.
        audit.record_now(entry("refused")).await;
        assert!(audit.check().is_ok());
    }
}

/// Creates a log whose writer never runs, so that its lines stay in the queue.
fn stuck(level: AuditLevel) -> (Audit, std::sync::mpsc::Receiver<Line>) {
    let (lines, received) = sync_channel(2 * QUEUE);
    let shared = Shared {
        lines,
        level,
        is_required: true,
        state: Arc::default(),
    };
    (Audit(Some(Arc::new(shared))), received)
}

fn principal(name: &str) -> Tenant {
    Tenant::of(Some(&tenure_core::lease::Owner::new(name)), None)
}

#[test]
fn changes_never_wait_for_a_slow_disk_and_leave_room_for_other_lines() {
    let (audit, received) = stuck(AuditLevel::Changes);
    let shared = audit.0.clone().unwrap();
    let began = Instant::now();
    let (mut queued, mut lost) = (0, 0);
    // Each principal leaves half of the rest to others.
    for (name, expected) in [("a", QUEUE / 2), ("b", QUEUE / 4), ("c", QUEUE / 8)] {
        for _ in 0..QUEUE {
            shared.send_change(&principal(name), entry("a grant"));
        }
        queued += expected;
        lost += QUEUE - expected;
        assert_eq!(audit.lost(), lost as u64, "{name}");
    }
    // A call that waited would wait for ever.
    assert!(began.elapsed() < WRITE_TIME);
    assert!(audit.check().is_ok(), "operators are not concerned");
    for _ in queued..2 * QUEUE {
        audit.record(entry("an operator"));
    }
    assert_eq!(audit.lost(), lost as u64);
    assert!(audit.check().is_ok());
    audit.record(entry("one more"));
    assert_eq!(audit.lost(), lost as u64 + 1);
    assert!(audit.check().is_err());
    assert_eq!(received.try_iter().count(), 2 * QUEUE);
    shared.send_change(&principal("a"), entry("the lines before are written"));
    assert_eq!(audit.lost(), lost as u64 + 1);
}

#[test]
fn an_operator_whose_lines_wait_leaves_acts_to_others() {
    let (audit, received) = stuck(AuditLevel::Operators);
    let [ada, grace] = ["ada", "grace"].map(principal);
    let all: Vec<_> = iter::from_fn(|| audit.begin_act(&ada).ok()).collect();
    assert_eq!(all.len(), ACTS / 2);
    let refused = audit.begin_act(&ada).unwrap_err();
    assert!(
        refused
            .detail
            .contains("\"ada\" has 1024 acts of operators")
    );
    assert!(audit.begin_act(&grace).is_ok());
    drop((all, received));
    assert!(audit.begin_act(&ada).is_ok());
}

#[tokio::test]
async fn an_answer_waits_a_limited_time_for_a_disk_that_hangs() {
    let (audit, received) = stuck(AuditLevel::Operators);
    let answered = timeout(10 * WRITE_TIME, audit.record_now(entry("never written")));
    assert!(!answered.await.expect("an answer"));
    assert!(audit.check().is_err());
    drop(received);
}

#[test]
fn a_file_that_is_no_audit_log_is_refused() {
    let fixture = Fixture::new();
    fs::write(fixture.path(), "something else\n").unwrap();
    for path in [fixture.path(), "/dev/null".into(), "/dev/full".into()] {
        let target = AuditTarget::File(path);
        assert!(Audit::open(AuditConfig::new(target)).is_err());
    }
}
