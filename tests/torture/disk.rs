//! What the store's folder lies on: the disk that is there, a small one, or one whose power can be cut.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_tests::needs::{SmallDisk, has_program};

/// How large a small disk is: room for a store with some thousand changes in its log.
const SMALL_KIB: u32 = 12 * 1_024;

/// How large a disk is whose power can be cut.
const LOOP_MIB: u64 = 96;

/// What a store's folder lies on.
#[derive(Debug)]
pub(crate) enum Disk {
    /// Nothing can be done to it.
    Plain(PathBuf),
    /// It can be filled.
    Small {
        disk: SmallDisk,
        ballast: Option<PathBuf>,
    },
    /// Its power can be cut.
    Ext4(Ext4),
}

/// An ext4 file system in a file, over a loop device.
#[derive(Debug)]
pub(crate) struct Ext4 {
    image: PathBuf,
    folder: PathBuf,
    /// A program that cuts the power.
    cutter: PathBuf,
}

impl Disk {
    /// The disk that is there already.
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

    /// Where the store may have its folder.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Self::Plain(folder) => folder.join("store"),
            Self::Small { disk, .. } => disk.path().join("store"),
            Self::Ext4(ext4) => ext4.folder.join("store"),
        }
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&mut self) {
        if let Self::Small { disk, ballast } = self {
            *ballast = Some(disk.fill());
        }
    }

    /// Gives the room back.
    pub(crate) fn make_room(&mut self) {
        if let Self::Small { ballast, .. } = self
            && let Some(ballast) = ballast.take()
        {
            let _ = fs::remove_file(ballast);
        }
    }

    /// Copies the store's folder to where it outlives the disk.
    pub(crate) fn keep(&self, to: &Path) {
        if !matches!(self, Self::Plain(_)) {
            let _ = run(Command::new("cp").arg("-a").arg(self.folder()).arg(to));
        }
    }
}

impl Ext4 {
    /// Makes one in this folder.
    pub(crate) fn make(folder: &Path) -> Result<Self, String> {
        if !["mkfs.ext4", "mount", "cc"].into_iter().all(has_program) {
            return Err("it needs mkfs.ext4, mount and cc".into());
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

    /// Cuts the power. What uses the disk has errors from now on.
    pub(crate) fn cut(&self) -> Result<(), String> {
        run(Command::new(&self.cutter).arg(&self.folder))
    }

    /// The power is back: the file system is as its disk is. Nothing may use it.
    pub(crate) fn restore(&self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.folder))?;
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
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}", said.trim()))
    }
}
