//! Where full blocks go: to memory while there are few, then to a file without a name in the
//! folder for temporary files.
//!
//! All records of a run share one spool, and so one file. A block says where the next one of its
//! chain lies, for which room is kept as soon as it is known that there will be one: so a chain is
//! read from its first block, and nobody has to remember the others.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::SpooledTempFile;

/// The most bytes of a block, its head included.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Where the next block lies, and how many bytes are in this one.
const HEAD_BYTES: usize = 8 + 4;
/// What is kept in memory of all blocks before they go to a file.
pub(super) const MEMORY_BYTES_MAX: usize = 1 << 20;

/// What was observed of a run cannot be kept, or read again.
#[derive(Debug, thiserror::Error)]
#[error(
    "what was observed of the run cannot be {done} a temporary file in {}: {error}\n\
     hint: make room there, name another folder in TMPDIR, or observe a shorter run",
    folder.display()
)]
pub struct RecordError {
    /// "written to" or "read from".
    done: &'static str,
    /// Where temporary files are.
    folder: PathBuf,
    /// What the operating system says.
    error: io::Error,
}

impl RecordError {
    fn new(done: &'static str, error: io::Error) -> Self {
        RecordError { done, folder: tempfile::env::temp_dir(), error }
    }
}

/// What keeps bytes.
pub(super) trait Store: Read + Write + Seek + Send {
    /// How many of them are in memory.
    #[cfg(test)]
    fn held_bytes(&mut self) -> usize;
}

impl Store for SpooledTempFile {
    #[cfg(test)]
    fn held_bytes(&mut self) -> usize {
        if self.is_rolled() { 0 } else { self.seek(SeekFrom::End(0)).expect("memory") as usize }
    }
}

/// The blocks of all records of a run.
#[derive(Clone)]
pub struct Spool(Arc<Mutex<Blocks>>);

struct Blocks {
    store: Box<dyn Store>,
    /// Where nothing has a place yet.
    end: u64,
    /// Why a block could not be written; later ones are not tried.
    error: Option<io::Error>,
}

impl Default for Spool {
    fn default() -> Self {
        Spool::over(SpooledTempFile::new(MEMORY_BYTES_MAX))
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.lock();
        f.debug_struct("Spool").field("end", &blocks.end).field("error", &blocks.error).finish()
    }
}

impl Spool {
    /// Nothing yet, to be kept in this store.
    pub(super) fn over(store: impl Store + 'static) -> Self {
        Spool(Arc::new(Mutex::new(Blocks { store: Box::new(store), end: 0, error: None })))
    }

    /// Whether a block got lost.
    pub fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// That no block got lost.
    ///
    /// # Errors
    /// If one did; only the first time.
    pub fn check(&self) -> Result<(), RecordError> {
        let error = self.lock().error.take();
        error.map_or(Ok(()), |error| Err(RecordError::new("written to", error)))
    }

    /// One that has no folder for its file.
    #[cfg(test)]
    pub fn without_folder() -> Self {
        Spool::over(SpooledTempFile::new_in(MEMORY_BYTES_MAX, "/nonexistent/folder"))
    }

    /// What it takes of memory.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.lock().store.held_bytes()
    }

    /// How many bytes were written.
    #[cfg(test)]
    pub fn written_bytes(&self) -> u64 {
        self.lock().end
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blocks {
    /// Keeps room for so many bytes.
    fn reserve(&mut self, bytes: usize) -> u64 {
        let at = self.end;
        self.end += bytes as u64;
        at
    }

    fn write(&mut self, at: u64, block: &[u8]) {
        if self.error.is_none() {
            let written = self.store.seek(SeekFrom::Start(at));
            let written = written.and_then(|_| self.store.write_all(block));
            self.error = written.err();
        }
    }

    /// Reads a block without its head into `block`, and where the next one is.
    fn read(&mut self, at: u64, block: &mut Vec<u8>) -> io::Result<u64> {
        let mut next = [0; 8];
        let mut used = [0; 4];
        self.store.seek(SeekFrom::Start(at))?;
        self.store.read_exact(&mut next)?;
        self.store.read_exact(&mut used)?;
        let used = u32::from_le_bytes(used) as usize;
        if used > BLOCK_BYTES - HEAD_BYTES {
            return Err(io::Error::other(format!("a block of {used} bytes, which is too long")));
        }
        block.resize(used, 0);
        self.store.read_exact(block)?;
        Ok(u64::from_le_bytes(next))
    }
}

/// Where the first block of a chain lies.
pub(super) type Chain = u64;

/// The last block of a chain, to which bytes are appended.
#[derive(Debug)]
pub(super) struct ChainWriter {
    spool: Spool,
    first: Option<u64>,
    /// The place that is kept for this block.
    at: Option<u64>,
    block: Vec<u8>,
}

impl ChainWriter {
    pub fn new(spool: &Spool) -> Self {
        // Many queues hold little; doubled, this comes to the size of a block and not beyond.
        let mut block = Vec::with_capacity(BLOCK_BYTES / 64);
        block.resize(HEAD_BYTES, 0);
        ChainWriter { spool: spool.clone(), first: None, at: None, block }
    }

    /// The block, which has room for so many bytes. What is appended before this is called again
    /// stays together.
    pub fn room_for(&mut self, bytes: usize) -> &mut Vec<u8> {
        if self.block.len() + bytes > BLOCK_BYTES {
            self.write(true);
        }
        &mut self.block
    }

    /// The whole chain.
    pub fn finish(mut self) -> (Spool, Chain) {
        let first = self.write(false);
        (self.spool, first)
    }

    /// Writes the block, and begins another one if the chain goes on. Where the first block is.
    fn write(&mut self, goes_on: bool) -> u64 {
        let mut blocks = self.spool.lock();
        let at = self.at.unwrap_or_else(|| blocks.reserve(self.block.len()));
        self.at = goes_on.then(|| blocks.reserve(BLOCK_BYTES));
        let used = (self.block.len() - HEAD_BYTES) as u32;
        self.block[..8].copy_from_slice(&self.at.unwrap_or(0).to_le_bytes());
        self.block[8..HEAD_BYTES].copy_from_slice(&used.to_le_bytes());
        blocks.write(at, &self.block);
        self.block.truncate(HEAD_BYTES);
        *self.first.get_or_insert(at)
    }

    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.block.capacity()
    }
}

/// A block of a chain that is being read.
#[derive(Debug)]
pub(super) struct ChainReader {
    spool: Spool,
    next: u64,
    block: Vec<u8>,
    /// How far it is read.
    read: usize,
}

impl ChainReader {
    pub fn new(spool: &Spool, first: Chain) -> Self {
        ChainReader { spool: spool.clone(), next: first, block: Vec::new(), read: 0 }
    }

    /// What `entry` takes from the front of the bytes that follow, of which there must be some.
    pub fn read<T>(&mut self, entry: impl FnOnce(&mut &[u8]) -> T) -> Result<T, RecordError> {
        if self.read == self.block.len() {
            let next = self.spool.lock().read(self.next, &mut self.block);
            self.next = next.map_err(|error| RecordError::new("read from", error))?;
            self.read = 0;
        }
        let mut left = &self.block[self.read..];
        let taken = entry(&mut left);
        self.read = self.block.len() - left.len();
        Ok(taken)
    }
}
