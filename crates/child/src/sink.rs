//! A file that exists in memory only, for another process to read or write by path.
//!
//! Not a pipe: a full pipe would hold up the machine's one thread, or be seen by a guest as a
//! busy line, and so let our own delays into a guest whose clock is to be deterministic.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// A file without a name. Its memory goes back to the system as it is read.
pub struct Sink {
    file: File,
    read_bytes: u64,
    freed_bytes: u64,
}

/// Where other processes of this user find a file that this one has open, whatever its name is.
pub fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Memory is given back in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;
/// Most that is read at once.
const READ_BYTES_MAX: u64 = 4 << 20;

impl Sink {
    /// A file with this content.
    pub fn with(content: &[u8]) -> io::Result<Sink> {
        let mut file = File::from(memfd_create("schedlab", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(content)?;
        Ok(Sink { file, read_bytes: 0, freed_bytes: 0 })
    }

    /// Where other processes of this user find it, as long as this one lives.
    pub fn path(&self) -> String {
        path_of(&self.file)
    }

    /// Another handle of it, for a child's output.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Appends to `to` what was written since the last call, or the first part of it. Gives the
    /// number of bytes.
    pub fn read_new(&mut self, to: &mut Vec<u8>) -> io::Result<usize> {
        let unread = self.file.metadata()?.len().saturating_sub(self.read_bytes);
        let start = to.len();
        to.resize(start + unread.min(READ_BYTES_MAX) as usize, 0);
        let length = self.file.read_at(&mut to[start..], self.read_bytes)?;
        to.truncate(start + length);
        self.read_bytes += length as u64;
        self.free()?;
        Ok(length)
    }

    /// Bytes that were read so far.
    pub fn length(&self) -> u64 {
        self.read_bytes
    }

    fn free(&mut self) -> io::Result<()> {
        let whole = self.read_bytes / PIECE_BYTES * PIECE_BYTES;
        if whole > self.freed_bytes {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let (start, length) = (self.freed_bytes as i64, (whole - self.freed_bytes) as i64);
            fallocate(&self.file, flags, start, length)?;
            self.freed_bytes = whole;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn what_another_writes_by_path_is_read_once_and_in_order() {
        let mut sink = Sink::with(b"").unwrap();
        let mut other = OpenOptions::new().write(true).open(sink.path()).unwrap();
        let mut read = Vec::new();
        let mut written = Vec::new();
        for round in 0..200u32 {
            let piece = round.to_le_bytes().repeat(20_000);
            other.write_all(&piece).unwrap();
            written.extend(piece);
            if round % 3 == 0 {
                while sink.read_new(&mut read).unwrap() > 0 {}
                assert!(read == written);
            }
        }
        while sink.read_new(&mut read).unwrap() > 0 {}
        assert!(read == written);
        // Memory in use, in blocks of 512 bytes: only what is not yet a whole piece.
        let blocks = std::os::unix::fs::MetadataExt::blocks(&sink.file.metadata().unwrap());
        assert!(blocks * 512 <= 2 * PIECE_BYTES, "{blocks}");
    }

    #[test]
    fn its_content_can_be_read_by_path() {
        let sink = Sink::with(b"content").unwrap();
        assert_eq!(std::fs::read(sink.path()).unwrap(), b"content");
    }
}
