//! A policy's source with all headers of its own: what decides its object, and explains it.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::PolicyError;
use crate::error::io_error;

/// The text of a source, and after it that of each header that it names, and so on.
pub(crate) struct Texts {
    /// That of the source.
    pub source: String,
    /// All of them, the source's first.
    pub all: String,
    /// Whether every header was found; else a compiler finds what is not here.
    pub is_whole: bool,
}

impl Texts {
    /// Those of a source whose headers are of no concern.
    pub(crate) fn of(source: &str) -> Texts {
        Texts { source: source.to_owned(), all: source.to_owned(), is_whole: true }
    }

    /// Reads the source; a header in quotes is looked for beside the file that names it first.
    pub(crate) fn read(source: &Path, include_dirs: &[PathBuf]) -> Result<Texts, PolicyError> {
        let text = read_text(source).map_err(|cause| io_error("read", source, cause))?;
        let mut texts = Texts::of(&text);
        let mut read = vec![source.to_owned()];
        let mut waiting = vec![(source.to_owned(), text)];
        while let Some((includer, text)) = waiting.pop() {
            for included in text.lines().filter_map(included) {
                let beside = includer.parent().filter(|_| included.is_quoted);
                let folders = beside.into_iter().chain(include_dirs.iter().map(PathBuf::as_path));
                let paths = folders.map(|folder| folder.join(included.name));
                let Some(path) = paths.into_iter().find(|path| path.is_file()) else {
                    texts.is_whole = false;
                    continue;
                };
                if read.contains(&path) {
                    continue;
                }
                let header = read_text(&path).map_err(|cause| io_error("read", &path, cause))?;
                texts.all.push('\n');
                texts.all.push_str(&header);
                read.push(path.clone());
                waiting.push((path, header));
            }
        }
        Ok(texts)
    }

    /// Digest of the texts, and of how they are translated.
    pub(crate) fn digest(&self, flags: &[&str]) -> String {
        let mut hasher = Sha256::new();
        hasher.update(flags.join(" "));
        hasher.update([0]);
        hasher.update(&self.all);
        hex(&hasher.finalize())
    }
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_text(path: &Path) -> std::io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a line includes.
struct Included<'a> {
    /// Empty where only a compiler can tell.
    name: &'a str,
    is_quoted: bool,
}

/// What a line includes or embeds, if it does.
fn included(line: &str) -> Option<Included<'_>> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start();
    let word = directive.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    let operand = directive[word.len()..].trim_start();
    let closed = |open, close| {
        let (name, _) = operand.strip_prefix(open)?.split_once(close)?;
        Some(Included { name, is_quoted: open == '"' })
    };
    match word {
        "include" => closed('<', '>')
            .or_else(|| closed('"', '"'))
            .or(Some(Included { name: "", is_quoted: false })),
        "include_next" | "import" | "embed" => Some(Included { name: "", is_quoted: false }),
        _ => None,
    }
}
