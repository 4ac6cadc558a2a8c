//! The disk under the store's folder: the existing one, a small one, or one whose power can be cut.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_tests::needs::{SmallDisk, has_program};

/// The size of a small disk: twice the log of a flooded store, which has up to 80 MiB with the
/// reserved space, until its next snapshot is made.
const SMALL_KIB: u32 = 160 * 1_024;

/// The size of a disk whose power can be cut.
const LOOP_MIB: u64 = 160;

/// The disk under the store's folder.
#[derive(Debug)]
pub(crate) enum Disk {
    /// The existing disk, which has no faults.
    Plain(PathBuf),
    /// A disk that can be filled.
    Small {
        disk: SmallDisk,
        ballast: Option<PathBuf>,
    },
    /// A disk whose power can be cut.
    Ext4(Ext4),
}

/// An ext4 file system in a file, on a loop device.
#[derive(Debug)]
pub(crate) struct Ext4 {
    image: PathBuf,
    folder: PathBuf,
    /// The program that cuts the power.
    cutter: PathBuf,
}

impl Disk {
    /// The existing disk.
    pub(crate) fn plain(folder: &Path) -> io::Result<Self> {
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        Ok(Self::Plain(data))
    }

    /// A small disk; `None` if none can be mounted.
    pub(crate) fn small() -> Option<Self> {
        let disk = SmallDisk::mount("torture of a full disk", SMALL_KIB)?;
        Some(Self::Small {
            disk,
            ballast: None,
        })
    }

    /// The folder for the store's data.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Self::Plain(folder) => folder.join("store"),
            Self::Small { disk, .. } => disk.path().join("store"),
            Self::Ext4(ext4) => ext4.folder.join("store"),
        }
    }

    /// Fills the free space.
    pub(crate) fn fill(&mut self) {
        if let Self::Small { disk, ballast } = self {
            *ballast = Some(disk.fill());
        }
    }

    /// Frees the space again.
    pub(crate) fn make_room(&mut self) {
        if let Self::Small { ballast, .. } = self
            && let Some(ballast) = ballast.take()
        {
            let _ = fs::remove_file(ballast);
        }
    }

    /// Copies the store's folder to a place that survives the disk.
    pub(crate) fn keep(&self, to: &Path) {
        if !matches!(self, Self::Plain(_)) {
            let _ = run(Command::new("cp").arg("-a").arg(self.folder()).arg(to));
        }
    }
}

impl Ext4 {
    /// Creates one in this folder.
    pub(crate) fn make(folder: &Path) -> Result<Self, String> {
        if !["mkfs.ext4", "mount", "cc"].into_iter().all(has_program) {
            return Err("mkfs.ext4, mount and cc are needed".into());
        }
        let ext4 = Self {
            image: folder.join("disk"),
            folder: folder.join("mounted"),
            cutter: folder.join("power"),
        };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/torture/power.c");
        run(Command::new("cc").arg("-o").arg(&ext4.cutter).arg(source))?;
        let made = fs::File::create(&ext4.image).and_then(|file| file.set_len(LOOP_MIB << 20));
        made.and_then(|()| fs::create_dir_all(&ext4.folder))
            .map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").arg("-qF").arg(&ext4.image))?;
        ext4.mount()?;
        Ok(ext4)
    }

    /// Cuts the power. From now on, users of the disk get errors.
    pub(crate) fn cut(&self) -> Result<(), String> {
        run(Command::new(&self.cutter).arg(&self.folder))
    }

    /// Mounts the file system again, with the data that is on its disk. It must not be in use.
    ///
    /// It mounts a copy of the disk: another process of the machine with mounts of its own may still
    /// have the old file system, and the kernel would mount that one again, without power.
    pub(crate) fn restore(&self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.folder))?;
        let copy = self.image.with_extension("copy");
        fs::copy(&self.image, &copy)
            .and_then(|_| fs::rename(&copy, &self.image))
            .map_err(|error| format!("can't copy the disk: {error}"))?;
        self.mount()
    }

    fn mount(&self) -> Result<(), String> {
        let mut mount = Command::new("mount");
        run(mount
            .args(["-o", "loop"])
            .arg(&self.image)
            .arg(&self.folder))
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(&self.folder));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}", stderr.trim()))
    }
}
