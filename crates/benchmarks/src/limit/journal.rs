//! What was tried, on disk before it is tried.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Attempt;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// A search begins, or goes on: what is tried, but for the number of groups.
    Searches {
        /// The words of the command.
        command: String,
    },
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
    /// Opens the journal of searches by this command, or makes it. A line that was being written
    /// when the machine went down is taken away.
    ///
    /// # Errors
    ///
    /// If the file cannot be used, is no journal, or one of another command.
    pub fn open(path: &Path, command: &str) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut broken_off: Vec<u32> = vec![];
        let mut lines = text.lines().enumerate().peekable();
        let mut begun = None;
        while let Some((number, line)) = lines.next() {
            let entry = serde_json::from_str(line);
            match entry {
                Ok(Entry::Searches { command: searched }) if searched == command => {}
                Ok(Entry::Searches { command: searched }) => {
                    let what = format!(
                        "{} is of another search, {searched:?}: name another file",
                        path.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                Ok(Entry::Tries { groups }) => {
                    broken_off.extend(begun.replace(groups));
                }
                Ok(Entry::Ended(_)) => begun = None,
                Err(_) if lines.peek().is_none() && !text.ends_with('\n') => {}
                Err(error) => {
                    let what = format!("{}:{} is no entry: {error}", path.display(), number + 1);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
        broken_off.extend(begun);
        drop(lines);
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut journal = Journal { path: path.to_owned(), file, broken_off };
        journal.add(&Entry::Searches { command: command.to_owned() })?;
        Ok(journal)
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
        let mut journal = Journal::open(&path, "a").expect("it is made");
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
        let mut journal = Journal::open(&path, "a").expect("it opens");
        assert_eq!(journal.least_broken_off(), Some(8));
        journal.add(&Entry::Tries { groups: 6 }).expect("it is written");
        assert_eq!(Journal::open(&path, "a").expect("it opens").least_broken_off(), Some(6));
        let error = Journal::open(&path, "b").expect_err("another search").to_string();
        assert!(error.contains("another search, \"a\""), "{error}");
        std::fs::write(&path, "hello\n{}\n").expect("it is spoilt");
        let error = Journal::open(&path, "a").expect_err("it is none").to_string();
        assert!(error.contains(":1 is no entry"), "{error}");
        std::fs::remove_file(&path).expect("it goes");
    }
}
