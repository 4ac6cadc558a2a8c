//! Tests of changes of access files.

use std::os::unix::fs::PermissionsExt;

use super::*;

use tempfile::TempDir;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let fixture = Self { folder };
        let mut edit = AccessFileEdit::create(&fixture.path()).unwrap();
        edit.add_principal("ada", &[grant("admin", "*")], &Secret::generate(), None)
            .unwrap();
        edit.save().unwrap();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("access.toml")
    }

    fn edit(&self) -> AccessFileEdit {
        AccessFileEdit::open(&self.path()).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Returns the names of the principals with the ids of their tokens.
    fn listed(&self) -> Vec<(String, Vec<String>)> {
        let content = self.edit().content().unwrap();
        let listed = content.principals().iter().map(|listed| {
            let ids = listed.secrets.iter().map(|secret| secret.id.to_string());
            (listed.principal.name.to_string(), ids.collect())
        });
        listed.collect()
    }
}

fn grant(role: &str, namespace: &str) -> GrantText {
    GrantText {
        role: role.into(),
        namespace: Some(namespace.into()),
        prefix: None,
    }
}

#[test]
fn principals_and_tokens_come_and_go() {
    let (fixture, one, two) = (Fixture::new(), Secret::generate(), Secret::generate());
    let mut edit = fixture.edit();
    edit.add_principal("worker", &[grant("candidate", "billing")], &one, None)
        .unwrap();
    edit.save().unwrap();
    let mut edit = fixture.edit();
    let expires = SystemTime::now() + Duration::from_secs(3600);
    edit.add_secret("worker", &two, Some(expires)).unwrap();
    edit.save().unwrap();
    let ids = [&one, &two].map(|secret| secret.id().to_string()).to_vec();
    assert_eq!(fixture.listed()[1], ("worker".into(), ids));
    assert!(fixture.text().contains("expires = 20"));

    let third = fixture
        .edit()
        .add_secret("worker", &Secret::generate(), None);
    let error = third.unwrap_err().to_string();
    assert!(error.contains(one.id().as_str()), "{error}");
    let mut edit = fixture.edit();
    assert_eq!(edit.remove_secret(one.id().as_str()).unwrap(), "worker");
    edit.save().unwrap();
    assert_eq!(fixture.listed()[1].1, [two.id().to_string()]);

    let mut edit = fixture.edit();
    edit.remove_principal("worker").unwrap();
    edit.save().unwrap();
    assert_eq!(fixture.listed().len(), 1);
    let mut edit = fixture.edit();
    assert!(edit.remove_principal("worker").is_err());
    assert!(edit.remove_secret(two.id().as_str()).is_err());
    let again = edit.add_principal("ada", &[], &Secret::generate(), None);
    assert!(again.unwrap_err().to_string().contains("rotate ada"));
}

#[test]
fn comments_the_mode_and_the_order_stay() {
    let fixture = Fixture::new();
    let text = fixture
        .text()
        .replace("[[principal]]", "# The owner.\n[[principal]]");
    let text = format!(
        "{text}\n# The end.\n[kubernetes]\naudience = \"tenure\"\n[[deny]]\nidentity = \"k8s:a/b\" # gone\n"
    );
    fs::write(fixture.path(), &text).unwrap();
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let mut edit = fixture.edit();
    edit.add_principal("worker", &[grant("read", "a")], &Secret::generate(), None)
        .unwrap();
    edit.save().unwrap();
    let after = fixture.text();
    for kept in [
        "# Access to the lease store",
        "# The owner.\n[[principal]]",
        "# The end.",
        "# gone",
    ] {
        assert!(after.contains(kept), "{after}");
    }
    let mode = fs::metadata(fixture.path()).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(fixture.listed().len(), 2);
    // The directory contains no other file.
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_wrong_is_not_changed() {
    let fixture = Fixture::new();
    let wrong = format!("{}\nnonsense = 1\n", fixture.text());
    fs::write(fixture.path(), &wrong).unwrap();
    let error = AccessFileEdit::open(&fixture.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("access.toml:") && error.contains("nonsense"),
        "{error}"
    );
    assert_eq!(fixture.text(), wrong);
    let mut edit = Fixture::new().edit();
    edit.add_principal("x", &[grant("boss", "a")], &Secret::generate(), None)
        .unwrap();
    assert!(edit.save().unwrap_err().to_string().contains("boss"));
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut edit = fixture.edit();
                let name = format!("worker-{number}");
                edit.add_principal(&name, &[], &Secret::generate(), None)
                    .unwrap();
                edit.save().unwrap();
            });
        }
    });
    assert_eq!(fixture.listed().len(), 9);
}
