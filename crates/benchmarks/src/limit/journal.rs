//! What was tried, on disk before it is tried.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Attempt;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// An attempt begins.
    Tries {
        /// With so many groups.
        groups: u32,
    },
    /// It has ended.
    Ended(Attempt),
}

/// A file of lines of JSON.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Attempts that began and never ended: the machine went down, or the search was killed.
    broken_off: Vec<u32>,
}

impl Journal {
    /// Opens a journal, or makes it.
    ///
    /// # Errors
    ///
    /// If the file cannot be used, or is no journal.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut broken_off: Vec<u32> = vec![];
        let mut lines = BufReader::new(&file).lines().enumerate().peekable();
        let mut begun = None;
        while let Some((number, line)) = lines.next() {
            let entry = serde_json::from_str(&line?);
            match entry {
                Ok(Entry::Tries { groups }) => {
                    broken_off.extend(begun.replace(groups));
                }
                Ok(Entry::Ended(_)) => begun = None,
                // The line that was being written when the machine went down.
                Err(_) if lines.peek().is_none() => {}
                Err(error) => {
                    let what = format!("{}:{} is no entry: {error}", path.display(), number + 1);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
        broken_off.extend(begun);
        drop(lines);
        Ok(Journal { path: path.to_owned(), file, broken_off })
    }

    /// The least number of groups whose attempt was broken off.
    pub fn least_broken_off(&self) -> Option<u32> {
        self.broken_off.iter().copied().min()
    }

    /// Adds a line, and returns when it is on disk.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        self.file.write_all(line.as_bytes()).map_err(named)?;
        self.file.sync_data().map_err(named)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn what_was_begun_and_never_ended_is_remembered() {
        let path = std::env::temp_dir().join(format!("schedlab-journal-{}", std::process::id()));
        let ended = |groups| {
            Entry::Ended(Attempt {
                groups,
                outcome: Outcome::Completed,
                wall_ns: 5,
                said: "".into(),
            })
        };
        let mut journal = Journal::open(&path).expect("it is made");
        assert_eq!(journal.least_broken_off(), None);
        for entry in [Entry::Tries { groups: 4 }, ended(4), Entry::Tries { groups: 8 }] {
            journal.add(&entry).expect("it is written");
        }
        drop(journal);
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"event\":\"en"))
            .expect("half a line");
        assert_eq!(Journal::open(&path).expect("it opens").least_broken_off(), Some(8));
        std::fs::write(&path, "hello\n{}\n").expect("it is spoilt");
        let error = Journal::open(&path).expect_err("it is none").to_string();
        assert!(error.contains(":1 is no entry"), "{error}");
        std::fs::remove_file(&path).expect("it goes");
    }
}
