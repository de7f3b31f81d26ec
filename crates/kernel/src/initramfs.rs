//! A guest's first file system, made in memory: same files, same bytes.
//!
//! The archive is a `newc` cpio, which the kernel unpacks by itself
//! (Documentation/driver-api/early-userspace/buffer-format.rst). Names are sorted, times are zero
//! and owners are root, because under a deterministic clock one different byte gives another run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files for a guest, by their paths there.
#[derive(Clone, Debug, Default)]
pub struct Initramfs {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    content: Vec<u8>,
}

/// Why a file cannot be put in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitramfsError {
    /// A file of this machine cannot be read.
    #[error("cannot read {path} for the guest: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// A path that means nothing in a guest.
    #[error("{0:?} cannot be a path in the guest: it must begin with / and have no .. in it")]
    Path(String),
    /// A file that the archive's format has no room for.
    #[error("{path} is {length} bytes long, too long for a guest's initramfs")]
    TooLong {
        /// The path in the guest.
        path: String,
        /// Its length in bytes.
        length: usize,
    },
}

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl Initramfs {
    /// One with the directories and the console that a first process needs.
    pub fn new() -> Initramfs {
        let mut made = Initramfs::default();
        for directory in ["dev", "proc", "sys", "tmp"] {
            made.entries.insert(directory.to_owned(), Entry::directory());
        }
        made.entries.insert(
            "dev/console".to_owned(),
            Entry { mode: CHARACTER_DEVICE, device: (5, 1), content: vec![] },
        );
        made
    }

    /// Puts `content` at the absolute path `to`, with directories above it; replaces what is there.
    pub fn file(
        &mut self,
        to: &str,
        content: impl Into<Vec<u8>>,
        executable: bool,
    ) -> Result<&mut Self, InitramfsError> {
        let content = content.into();
        let parts: Vec<&str> = to.strip_prefix('/').unwrap_or_default().split('/').collect();
        if parts
            .iter()
            .any(|part| part.is_empty() || [".", ".."].contains(part) || part.contains('\0'))
        {
            return Err(InitramfsError::Path(to.to_owned()));
        }
        if u32::try_from(content.len()).is_err() {
            return Err(InitramfsError::TooLong { path: to.to_owned(), length: content.len() });
        }
        for depth in 1..parts.len() {
            self.entries.entry(parts[..depth].join("/")).or_insert_with(Entry::directory);
        }
        let mode = REGULAR | if executable { 0o755 } else { 0o644 };
        self.entries.insert(parts.join("/"), Entry { mode, device: (0, 0), content });
        Ok(self)
    }

    /// Puts a copy of this machine's file `from` at `to`; it stays executable if it is.
    pub fn copy(&mut self, from: &Path, to: &str) -> Result<&mut Self, InitramfsError> {
        let failed = |cause| InitramfsError::Read { path: from.display().to_string(), cause };
        let mode = fs::metadata(from).map_err(failed)?.permissions().mode();
        self.file(to, fs::read(from).map_err(failed)?, mode & 0o111 != 0)
    }

    /// The archive. O(bytes of all files).
    pub fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        // Sorted, a directory comes before what is in it.
        for (inode, (name, entry)) in self.entries.iter().enumerate() {
            append(&mut archive, inode + 1, name, entry);
        }
        let end = Entry { mode: 0, device: (0, 0), content: vec![] };
        append(&mut archive, 0, "TRAILER!!!", &end);
        archive
    }

    /// The same files as a tar, for a guest that has booted. O(bytes of all files).
    ///
    /// # Errors
    ///
    /// If a path is too long for a tar.
    pub fn tar(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        // Directories come with what is in them.
        let files = self.entries.iter().filter(|(_, entry)| entry.mode & !0o777 == REGULAR);
        for (name, entry) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(entry.content.len() as u64);
            header.set_mode(entry.mode & 0o777);
            archive.append_data(&mut header, name, entry.content.as_slice())?;
        }
        archive.into_inner()
    }
}

impl Entry {
    fn directory() -> Entry {
        Entry { mode: DIRECTORY, device: (0, 0), content: vec![] }
    }
}

fn append(archive: &mut Vec<u8>, inode: usize, name: &str, entry: &Entry) {
    let nr_links = if entry.mode == DIRECTORY { 2 } else { 1 };
    let (major, minor) = entry.device;
    let name_bytes = name.len() + 1;
    // Inode, mode, owner, group, links, time, length, device it lies on, device it is, name, check.
    let fields = [
        inode,
        entry.mode as usize,
        0,
        0,
        nr_links,
        0,
        entry.content.len(),
        0,
        0,
        major as usize,
        minor as usize,
        name_bytes,
        0,
    ];
    let mut header = String::from("070701");
    for field in fields {
        write!(header, "{field:08X}").expect("writing to a string does not fail");
    }
    archive.extend(header.as_bytes());
    archive.extend(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend(&entry.content);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    const ALIGNMENT: usize = 4;
    archive.resize(archive.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn example() -> Initramfs {
        let mut made = Initramfs::new();
        made.file("/init", b"#!/bin/true\n", true).unwrap();
        made.file("/lib/deep/odd", vec![7; 4097], false).unwrap();
        made.file("/empty", "", false).unwrap();
        made
    }

    #[test]
    fn the_order_of_making_does_not_matter_and_the_last_content_stays() {
        let mut other = Initramfs::new();
        other.file("/empty", "something", true).unwrap();
        other.file("/empty", "", false).unwrap();
        other.file("/lib/deep/odd", vec![7; 4097], false).unwrap();
        other.file("/init", b"#!/bin/true\n", true).unwrap();
        assert_eq!(other.archive(), example().archive());
    }

    #[test]
    fn a_tar_has_the_files_and_makes_their_directories() {
        let directory = tempfile::tempdir().unwrap();
        let tar = example().tar().unwrap();
        tar::Archive::new(tar.as_slice()).unpack(directory.path()).unwrap();
        let at = |name: &str| directory.path().join(name);
        assert_eq!(fs::read(at("lib/deep/odd")).unwrap(), vec![7; 4097]);
        assert_eq!(fs::read(at("empty")).unwrap(), b"");
        assert_eq!(fs::metadata(at("init")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!at("dev").exists());
    }

    #[test]
    fn a_path_must_stay_inside() {
        for path in ["init", "", "/", "/../x", "/a//b", "/a/", "/a/./b", "/a\0b"] {
            assert!(Initramfs::new().file(path, "", false).is_err(), "{path:?}");
        }
    }

    /// `cpio` reads what we write. Skipped, and said so, where it is not installed.
    #[test]
    fn cpio_lists_and_extracts_what_was_put_in() {
        let cpio = |arguments: &[&str], directory: &Path| {
            let archive = directory.join("archive");
            fs::write(&archive, example().archive()).unwrap();
            Command::new("cpio")
                .args(arguments)
                .current_dir(directory)
                .stdin(fs::File::open(archive).unwrap())
                .stderr(Stdio::null())
                .output()
        };
        let directory = tempfile::tempdir().unwrap();
        let Ok(listed) = cpio(&["-t"], directory.path()) else {
            eprintln!("skipped: cpio is not installed");
            return;
        };
        let names = String::from_utf8(listed.stdout).unwrap();
        let expected =
            "dev\ndev/console\nempty\ninit\nlib\nlib/deep\nlib/deep/odd\nproc\nsys\ntmp\n";
        assert_eq!(names, expected);
        let wanted = ["-id", "--no-preserve-owner", "init", "lib/deep/odd", "empty"];
        assert!(cpio(&wanted, directory.path()).unwrap().status.success());
        let at = |name: &str| directory.path().join(name);
        assert_eq!(fs::read(at("lib/deep/odd")).unwrap(), vec![7; 4097]);
        assert_eq!(fs::read(at("empty")).unwrap(), b"");
        assert_eq!(fs::metadata(at("init")).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
