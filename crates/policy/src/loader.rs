//! What a scheduler's own front end does before it attaches it, as a file says it.
//!
//! `NAME.loader.toml` stands beside `NAME.bpf.o` or `NAME.bpf.c`, or names another object. It sets
//! variables, sizes and fills maps, and calls programs. What it asks depends on the machine, so it
//! becomes a [`Plan`] only where that is known, which whoever loads the policy then carries out.
//! An object that is kept has its file behind it: a kernel's loader finds both in one.

mod expression;
mod plan;
mod topology;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use bytecode::Object;
use toml::{Table, Value};

use crate::PolicyError;
use crate::error::{io_error, unknown_hint};
use crate::tunable::Tunable;
pub use plan::{Call, Entry, Made, Piece, Plan, Write};
pub use topology::{Processor, Topology};

/// How the name of such a file ends.
pub(crate) const SUFFIX: &str = ".loader.toml";
/// What an object's file ends with that has a loader's behind it, after the number of its bytes.
const MARK: &[u8] = b"schedlab loader\n";
const LENGTH_BYTES: usize = 8;
/// Bytes of a file.
const BYTES_MAX: u64 = 1 << 20;
const KEYS: [&str; 10] = [
    "description",
    "object",
    "sources",
    "include",
    "options",
    "variables",
    "lengths",
    "maps",
    "ops",
    "call",
];
/// How options begin that a compiler may be given: none of them has it run or write anything.
const OPTIONS: [&str; 6] = ["-D", "-U", "-W", "-w", "-mcpu=", "-fms-extensions"];

/// What an object is built of.
pub(crate) struct Sources {
    pub paths: Vec<PathBuf>,
    /// Folders of its own headers.
    pub include: Vec<PathBuf>,
    /// What the compiler is told besides.
    pub options: Vec<String>,
}

/// A file that says what is done to a policy's object before it is attached.
#[derive(Clone, Debug)]
pub struct Loader {
    /// Where it is; empty where it came with its object.
    path: PathBuf,
    text: String,
    table: Table,
}

impl Loader {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it cannot be read, or has words that are not known.
    pub fn read(path: &Path) -> Result<Loader, PolicyError> {
        let io = |cause| io_error("read", path, cause);
        let found = fs::metadata(path).map_err(io)?;
        if !found.is_file() || found.len() > BYTES_MAX {
            let why = format!("it is no file of at most {BYTES_MAX} bytes");
            return Err(io(std::io::Error::other(why)));
        }
        Loader::of_text(path, fs::read_to_string(path).map_err(io)?)
    }

    /// The file that belongs to the policy at `source`: itself, or the one beside it, if there is.
    pub(crate) fn of(source: &Path, name: &str) -> Result<Option<Loader>, PolicyError> {
        let path = source.with_file_name(format!("{name}{SUFFIX}"));
        if path.exists() { Loader::read(&path).map(Some) } else { Ok(None) }
    }

    fn of_text(path: &Path, text: String) -> Result<Loader, PolicyError> {
        let wrong = |reason| PolicyError::Loader { path: path.to_owned(), reason };
        let parsed: Result<Table, toml::de::Error> = text.parse();
        let table = parsed.map_err(|error| wrong(format!("is not TOML: {error}")))?;
        known_keys(&table, &KEYS, "the file").map_err(wrong)?;
        Ok(Loader { path: path.to_owned(), text, table })
    }

    /// The object or source that it is for, where the policy `name` is named by `source`: that one,
    /// or if it is this file the one that it names, or one that is called alike.
    pub(crate) fn object_for(&self, source: &Path, name: &str) -> Result<PathBuf, PolicyError> {
        let wrong = |reason| PolicyError::Loader { path: self.path.clone(), reason };
        let beside =
            |name: &str| Some(self.path.with_file_name(name)).filter(|path| path.is_file());
        if source != self.path {
            return Ok(source.to_owned());
        }
        if let Some(named) = self.table.get("object") {
            return named.as_str().and_then(beside).ok_or_else(|| {
                wrong(format!("object = {named} is no file\nhint: name a .bpf.o or a .bpf.c file"))
            });
        }
        let [built, source] = [".bpf.o", ".bpf.c"].map(|end| format!("{name}{end}"));
        beside(&built).or_else(|| beside(&source)).ok_or_else(|| {
            let hint = "write object = \"...\" into it";
            wrong(format!("there is neither {built} nor {source} beside it\nhint: {hint}"))
        })
    }

    /// The sources that it names, if it does.
    pub(crate) fn sources(&self) -> Result<Option<Sources>, PolicyError> {
        let wrong = |reason| PolicyError::Loader { path: self.path.clone(), reason };
        let words = |key| words(&self.table, key).map_err(wrong);
        let beside =
            |names: Vec<String>| names.into_iter().map(|name| self.path.with_file_name(name));
        let (sources, include) = (words("sources")?, words("include")?);
        let options = words("options")?;
        if sources.is_empty() {
            if self.table.contains_key("sources") {
                return Err(wrong("sources is empty\nhint: name one, or leave it out".to_owned()));
            }
            let others =
                ["include", "options"].into_iter().find(|key| self.table.contains_key(*key));
            let reason = |key| wrong(format!("{key} is for sources\nhint: name them by sources"));
            return others.map(reason).map_or(Ok(None), Err);
        }
        if self.table.contains_key("object") {
            return Err(wrong("it names an object and sources\nhint: name one of them".to_owned()));
        }
        let is_harmless = |option: &&String| {
            OPTIONS.iter().any(|begin| option.starts_with(begin)) && !option.contains(',')
        };
        if let Some(option) = options.iter().find(|option| !is_harmless(option)) {
            let known = OPTIONS.join(", ");
            return Err(wrong(format!("options has {option:?}\nhint: options begin with {known}")));
        }
        let paths: Vec<PathBuf> = beside(sources).collect();
        let is_c = |path: &&PathBuf| path.extension().is_some_and(|end| end == "c");
        if let Some(other) = paths.iter().find(|path| !is_c(path)) {
            let hint = "the name of a source ends in .bpf.c";
            return Err(wrong(format!("{} is no source\nhint: {hint}", other.display())));
        }
        if let Some(missing) = paths.iter().find(|path| !path.is_file()) {
            return Err(wrong(format!("there is no source {}", missing.display())));
        }
        Ok(Some(Sources { paths, include: beside(include).collect(), options }))
    }

    /// An object's file with this one behind it.
    pub fn put_behind(&self, mut object: Vec<u8>) -> Vec<u8> {
        object.extend_from_slice(self.text.as_bytes());
        object.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
        object.extend_from_slice(MARK);
        object
    }

    /// The one that lies behind an object in its file, if one does.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it has words that are not known.
    pub fn behind(object: &[u8]) -> Result<Option<Loader>, PolicyError> {
        let text = || {
            let (rest, length) = object.strip_suffix(MARK)?.split_last_chunk::<LENGTH_BYTES>()?;
            let begin = rest.len().checked_sub(u64::from_le_bytes(*length) as usize)?;
            String::from_utf8(rest[begin..].to_vec()).ok()
        };
        text().map(|text| Loader::of_text(Path::new(""), text)).transpose()
    }

    /// Whether `tunable` of `object` is left to a user. Its default is then what this file says;
    /// what depends on the machine is not left.
    pub(crate) fn leaves(&self, tunable: &mut Tunable, object: &Object) -> bool {
        let said = self.table.get("variables").and_then(|variables| variables.get(&tunable.name));
        let Some(said) = said else { return true };
        let (least, most) = tunable.range();
        match plan::constant(&tunable.name, said, object) {
            Some(number) if (least..=most).contains(&number) => {
                tunable.default = number;
                true
            }
            _ => false,
        }
    }

    /// What it asks of `object` on a machine.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Loader`] names what the object does not have, or a value that does not fit.
    pub fn plan(&self, object: &Object, machine: &Topology) -> Result<Plan, PolicyError> {
        let wrong = |reason| PolicyError::Loader { path: self.path.clone(), reason };
        plan::make(&self.table, object, machine).map_err(wrong)
    }
}

/// What the loader's file that lies behind an object in `file` asks of it on a machine, if there is
/// one.
///
/// # Errors
///
/// [`PolicyError`] as of [`Loader::behind`] and [`Loader::plan`].
pub fn plan_behind(file: &[u8], machine: &Topology) -> Result<Option<Plan>, PolicyError> {
    let Some(loader) = Loader::behind(file)? else { return Ok(None) };
    let object = Object::read(file).map_err(|error| PolicyError::Loader {
        path: loader.path.clone(),
        reason: format!("the object before it cannot be read: {error}"),
    })?;
    loader.plan(&object, machine).map(Some)
}

/// Refuses a table that has other keys than `known`; `place` says what it is.
fn known_keys(table: &Table, known: &[&str], place: &str) -> Result<(), String> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
    Err(format!("{place} has the unknown key {key}{}", unknown_hint(key, &known)))
}

/// What stands in the table at `key`; nothing if there is none.
fn members<'a>(
    table: &'a Table,
    key: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, String> {
    let found = match table.get(key) {
        None => None,
        Some(Value::Table(found)) => Some(found),
        Some(other) => return Err(format!("{key} = {other} is no table\nhint: write [{key}]")),
    };
    Ok(found.into_iter().flatten())
}

/// The list of texts at `key`; an empty one if there is none.
fn words(table: &Table, key: &str) -> Result<Vec<String>, String> {
    let Some(found) = table.get(key) else { return Ok(Vec::new()) };
    let words = found.as_array().and_then(|all| {
        all.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    words.ok_or_else(|| format!("{key} = {found} is no list of texts"))
}
