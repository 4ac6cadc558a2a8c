//! The requirements of tests on the machine, and messages for missing ones.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Uid;
use tempfile::TempDir;

/// Whether a test's requirement is met. If not, the test cannot run here and prints a message; in
/// CI it fails instead.
///
/// # Panics
///
/// If it is not met and `CI=true`.
#[must_use]
pub fn can_run(test: &str, needs: &str, is_met: bool) -> bool {
    if !is_met {
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "{test} needs {needs}"
        );
        skipped(test, &format!("it needs {needs}"));
    }
    is_met
}

/// Prints that a test was skipped, and why. It writes to stderr directly, since the captured output
/// of passing tests is not shown.
pub fn skipped(test: &str, why: &str) {
    // One write, so that lines of other tests do not get in between.
    let line = format!("SKIPPED {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A Python with the Python client of Kubernetes; `None` if the test cannot run.
#[must_use]
pub fn kubernetes_python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("TENURE_KUBERNETES_PYTHON").unwrap_or_else(|| "python3".into());
    let import = "import kubernetes.leaderelection.resourcelock.leaselock";
    let has_it = output_of(Command::new(&python).args(["-c", import])).is_some();
    let needs = "the packages of tests/kubernetes/requirements.txt, in a virtual environment whose \
                 python TENURE_KUBERNETES_PYTHON names";
    can_run(test, needs, has_it).then(|| python.into())
}

/// Whether this program can be started.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Raises the limit of open files of this process to this number. Returns whether that is possible.
#[must_use]
pub fn may_open(files: u64) -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return false;
    };
    soft >= files
        || setrlimit(Resource::RLIMIT_NOFILE, files.min(hard), hard).is_ok() && hard >= files
}

/// A command in namespaces of its own, in which it may mount and has its own network.
#[must_use]
pub fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
    command.arg("--mount-proc").stdin(Stdio::null());
    command
}

/// How long a program may take for a short output. `npx` may send a request to the network without
/// an answer. A first import of the Azure SDK can take half a minute on a busy machine, and in CI a
/// program that is not found in time fails its test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The output of this program, if it starts and ends successfully in time.
///
/// # Panics
///
/// If waiting for it fails.
#[must_use]
pub fn output_of(command: &mut Command) -> Option<String> {
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

/// A library for `LD_PRELOAD` of this program from a C source, in this folder; `None` if the test
/// cannot run. A program that is linked statically, as that of a release, loads no library: with it,
/// the test would pass without its fault.
///
/// # Panics
///
/// If the source does not compile.
#[must_use]
pub fn preload(test: &str, source: &str, folder: &Path, program: &Path) -> Option<PathBuf> {
    if cfg!(target_os = "linux") && !has_interpreter(&fs::read(program).expect("a program")) {
        let program = program.display();
        skipped(
            test,
            &format!("{program} is linked statically, and loads no library"),
        );
        return None;
    }
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

/// Whether a program in the 64-bit ELF format names the interpreter that loads its libraries.
fn has_interpreter(program: &[u8]) -> bool {
    const INTERPRETER: usize = 3;
    let number = |at: usize, bytes: usize| {
        let bytes = program.get(at..at + bytes)?.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let headers = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let (Some(first), Some(size), Some(count)) = headers else {
        return false;
    };
    (0..count).any(|header| number(first + header * size, 4) == Some(INTERPRETER))
}

/// A small disk; it is unmounted when this is dropped.
#[derive(Debug)]
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If there is no folder for it.
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

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Changes the size of the disk.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn grow(&self, kibibytes: u32) {
        let grown = Command::new("mount")
            .args(["-o", &format!("remount,size={kibibytes}k")])
            .arg(self.path())
            .status();
        assert!(grown.is_ok_and(|grown| grown.success()), "a larger disk");
    }

    /// Fills all free space with a file that can be removed.
    ///
    /// # Panics
    ///
    /// If the file cannot be created.
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
        // Lazily: a process that was just killed may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_shared_libraries_has_an_interpreter() {
        let shell = fs::read("/bin/sh").unwrap();
        assert!(has_interpreter(&shell) || !cfg!(target_os = "linux"));
        // The loader itself is a program without one.
        let folders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
        for loader in folders.iter().filter_map(|path| fs::read(path).ok()) {
            assert!(!has_interpreter(&loader));
        }
        assert!(!has_interpreter(b"#!/bin/sh"));
    }

    #[test]
    fn a_skipped_test_prints_a_message_even_if_output_is_captured() {
        let inner = "TENURE_TESTS_CAN_NOT_RUN";
        if std::env::var_os(inner).is_some() {
            assert!(!can_run("journey", "a moon", false));
            return;
        }
        // A test is named by its path within the crate. More than one crate contains this file.
        let module = module_path!().split_once("::").map(|(_, module)| module);
        let this = "a_skipped_test_prints_a_message_even_if_output_is_captured";
        let this = format!("{}::{this}", module.unwrap());
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests
            .args(["--exact", &this])
            .env(inner, "")
            .env_remove("CI");
        let output = tests.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let output_of = "SKIPPED journey: it needs a moon";
        assert!(stderr.lines().any(|line| line == output_of), "{output:?}");
    }
}
