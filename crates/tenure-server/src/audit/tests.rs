//! Lines that are written, and logs that somebody has changed.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn entry(reason: &str) -> AuditEntry {
    AuditEntry::new(AuditKind::Break, "done").with_reason(Some(reason.into()))
}

struct Fixture(TempDir);

impl Fixture {
    fn path(&self) -> PathBuf {
        self.0.path().join("audit.jsonl")
    }

    fn open(&self) -> Audit {
        Audit::open(AuditTarget::File(self.path()), true).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// A log with this many lines, by two runs of the store.
    async fn with_lines(count: usize) -> Self {
        let fixture = Self(TempDir::new().unwrap());
        for range in [0..count / 2, count / 2..count] {
            let audit = fixture.open();
            for number in range {
                audit.record_now(entry(&format!("reason {number}"))).await;
            }
        }
        fixture
    }

    fn replace(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(), text).unwrap();
    }
}

#[tokio::test]
async fn lines_are_a_chain_also_after_a_restart() {
    let fixture = Fixture::with_lines(10).await;
    let lines = fixture.lines();
    assert_eq!(lines.len(), 10);
    for (index, line) in lines.iter().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], index + 1);
        assert_eq!(
            (&line["kind"], &line["outcome"]),
            (&"break".into(), &"done".into())
        );
    }
    let verified = verify(&[fixture.path()]).unwrap();
    assert_eq!(verified, Some(Verified { first: 1, last: 10 }));
}

#[tokio::test]
async fn a_log_that_was_changed_is_found_with_the_line() {
    let fixture = Fixture::with_lines(10).await;
    let whole = fixture.lines();
    let wrong = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = whole.clone();
        change(&mut lines);
        fixture.replace(&lines);
        verify(&[fixture.path()]).unwrap_err().to_string()
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
}

#[tokio::test]
async fn a_reason_can_not_forge_a_line() {
    let fixture = Fixture(TempDir::new().unwrap());
    let forged = "x\"}\n{\"seq\":2,\"kind\":\"start\",\"prev\":\"\"}";
    fixture.open().record_now(entry(forged)).await;
    let lines = fixture.lines();
    assert_eq!(lines.len(), 1);
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["reason"], forged);
}

#[tokio::test]
async fn a_file_that_is_renamed_or_deleted_is_made_again_and_the_chain_goes_on() {
    let fixture = Fixture(TempDir::new().unwrap());
    let audit = fixture.open();
    audit.record_now(entry("one")).await;
    let rotated = fixture.0.path().join("audit.1");
    fs::rename(fixture.path(), &rotated).unwrap();
    audit.record_now(entry("two")).await;
    audit.record_now(entry("three")).await;
    assert_eq!(fixture.lines().len(), 2);
    let verified = verify(&[rotated, fixture.path()]).unwrap();
    assert_eq!(verified, Some(Verified { first: 1, last: 3 }));
    fs::remove_file(fixture.path()).unwrap();
    audit.record_now(entry("four")).await;
    assert_eq!(fixture.lines().len(), 1);
}

#[tokio::test]
async fn lines_that_can_not_be_written_are_counted_and_operators_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs/audit.jsonl");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let audit = Audit::open(AuditTarget::File(path.clone()), true).unwrap();
    let lenient = Audit::open(AuditTarget::File(path.clone()), false).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    for audit in [&audit, &lenient] {
        assert!(audit.check().is_ok());
        audit.record_now(entry("lost")).await;
        assert_eq!(audit.lost(), 1);
    }
    assert_eq!(audit.check().unwrap_err().status, 503);
    assert!(lenient.check().is_ok());
    fs::create_dir(path.parent().unwrap()).unwrap();
    audit.record_now(entry("written")).await;
    assert!(audit.check().is_ok());
}

#[test]
fn a_file_that_is_no_audit_log_is_refused() {
    let fixture = Fixture(TempDir::new().unwrap());
    fs::write(fixture.path(), "something else\n").unwrap();
    assert!(Audit::open(AuditTarget::File(fixture.path()), false).is_err());
}
