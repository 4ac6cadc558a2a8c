//! What a test needs of the machine, and what it says where that is not there.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Whether what a test needs is there. If it is not the test can't run here, which it says; where
/// nobody reads that, it fails.
///
/// # Panics
///
/// Where `CI=true`, and it is not there.
#[must_use]
pub fn can_run(test: &str, needs: &str, is_there: bool) -> bool {
    if !is_there {
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "{test} needs {needs}"
        );
        skipped(test, &format!("it needs {needs}"));
    }
    is_there
}

/// Says that this was not tested, and why. It is seen also where the output of tests that pass is not:
/// that is what they print, not what the process writes.
pub fn skipped(test: &str, why: &str) {
    // One write, so that other tests don't write in between.
    let line = format!("SKIPPED {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether this program can be started.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// How long a program may take to say something short: `npx` may ask the network, and that may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// What this program says, if it can be started, and ends well and in time.
///
/// # Panics
///
/// If it can't be waited for.
#[must_use]
pub fn said(command: &mut Command) -> Option<String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    let until = Instant::now() + PATIENCE;
    while child.try_wait().expect("a process to wait for").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("a process that has ended");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// A library for `LD_PRELOAD` from a C source, in this folder; `None` where the test can't run.
///
/// # Panics
///
/// If the source can't be compiled.
#[must_use]
pub fn preload(test: &str, source: &str, folder: &Path) -> Option<PathBuf> {
    let can_compile = has_program("cc") && cfg!(target_os = "linux");
    if !can_run(test, "a C compiler (cc), on Linux", can_compile) {
        return None;
    }
    let library = folder.join("preload.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status();
    assert!(compiled.is_ok_and(|compiled| compiled.success()));
    Some(library)
}

/// A small disk; it is taken away when this is dropped.
#[derive(Debug)]
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one; `None` where the test can't run.
    ///
    /// # Panics
    ///
    /// If there can't be a folder for it.
    #[must_use]
    pub fn mount(test: &str, kibibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={kibibytes}k"))
            .arg("tenure-tests")
            .arg(folder.path())
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        can_run(test, "to mount a disk of its own (root)", is_mounted).then_some(Self(folder))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// From now on there is so much room.
    ///
    /// # Panics
    ///
    /// If there is not.
    pub fn grow(&self, kibibytes: u32) {
        let grown = Command::new("mount")
            .args(["-o", &format!("remount,size={kibibytes}k")])
            .arg(self.path())
            .status();
        assert!(grown.is_ok_and(|grown| grown.success()), "a larger disk");
    }

    /// Takes all the room that there is, with a file that can be removed.
    ///
    /// # Panics
    ///
    /// If there can't be another file.
    #[must_use]
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let mut file = File::create(&path).expect("a file");
        while file.write_all(&[0; 4_096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that was just killed may still have files there.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_can_not_run_says_so_where_output_is_captured() {
        let inner = "TENURE_TESTS_CAN_NOT_RUN";
        if std::env::var_os(inner).is_some() {
            assert!(!can_run("journey", "a moon", false));
            return;
        }
        let this = "needs::tests::a_test_that_can_not_run_says_so_where_output_is_captured";
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests
            .args(["--exact", this])
            .env(inner, "")
            .env_remove("CI");
        let output = tests.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said = "SKIPPED journey: it needs a moon";
        assert!(stderr.lines().any(|line| line == said), "{output:?}");
    }
}
