//! What a policy offers, read from the object that a kernel loads.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytecode::{Btf, BtfError, Object, ObjectError, Qualifier, Type, TypeId, Variable};
use sha2::{Digest, Sha256};

use crate::error::io_error;
use crate::loader::{self, Loader};
use crate::source_text::SourceText;
use crate::texts::{Texts, hex};
use crate::tunable::Tunable;
use crate::{Policy, PolicyError, sets, table, whole_file};

const SUFFIX: &str = ".bpf.o";
/// How constants begin that stand for an enumerator of the kernel's, whose value the loader fills
/// in: the headers of other people's schedulers declare them so.
const ENUMERATOR: &str = "__SCX_";
const ENUMERATOR_BYTES: u64 = 8;

/// Licences under which a kernel offers a program the calls that are for the GPL only, as those
/// of sched_ext are (Linux, include/linux/license.h).
const GPL_COMPATIBLE: [&str; 6] =
    ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];

/// What is `const volatile` and filled by whoever loads the policy: an array, such as the
/// topology's, or a number that stands for one of the kernel's enumerators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderArray {
    /// The variable's name in C.
    pub name: String,
    /// The type of its elements as the source names it.
    pub type_name: String,
    /// Its size in bytes.
    pub size: u64,
    pub(crate) image_offset: usize,
}

impl Policy {
    /// Reads the object at `path`, whose name ends in `.bpf.o`, or that the loader's file at `path`
    /// names. Where no loader's file stands beside an object, one that lies behind it in its file
    /// counts. Tunables have the comments of the source beside the object, if there is one.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if it cannot be read, is no such object, or holds no policy.
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        if !path.exists() {
            return Err(PolicyError::SourceMissing { path: path.to_owned() });
        }
        let file_name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = [SUFFIX, loader::SUFFIX].iter().find_map(|end| file_name.strip_suffix(end));
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(PolicyError::NotASource { path: path.to_owned() });
        };
        match Loader::of(path, name)? {
            Some(loader) => {
                let object = loader.object_for(path, name)?;
                Policy::of_object(name, &object)?.with_loader(name, path, loader, None)
            }
            None => {
                let policy = Policy::of_object(name, path)?;
                let file = fs::read(path).map_err(|cause| io_error("read", path, cause))?;
                match Loader::behind(&file)? {
                    Some(loader) => policy.guided_by(loader),
                    None => Ok(policy),
                }
            }
        }
    }

    /// The policy `name` of an object that somebody built.
    pub(crate) fn of_object(name: &str, path: &Path) -> Result<Policy, PolicyError> {
        let text = fs::read(path.with_extension("c")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Policy::of_file(name, path, path, &Texts::of(&text), String::new())
    }

    /// The same, called `name`, with a file at `source` or beside it that says what is done before
    /// it is attached. Both are kept as one file in the folder `cache`, from where a kernel takes
    /// them.
    pub(crate) fn with_loader(
        mut self,
        name: &str,
        source: &Path,
        loader: Loader,
        cache: Option<&Path>,
    ) -> Result<Policy, PolicyError> {
        let object = fs::read(&self.object_path);
        let object = object.map_err(|cause| io_error("read", &self.object_path, cause))?;
        let whole = loader.put_behind(object);
        self.digest = hex(&Sha256::digest(&whole));
        if let Some(cache) = cache {
            self.object_path = cache.join(format!("{name}-{}{SUFFIX}", self.digest));
            if !self.object_path.exists() {
                whole_file::write(&self.object_path, &whole)?;
            }
        }
        (self.name, self.source) = (name.to_owned(), source.to_owned());
        self.guided_by(loader)
    }

    /// The same, with a loader's file that settles some of its tunables.
    fn guided_by(mut self, loader: Loader) -> Result<Policy, PolicyError> {
        let object = self.object.clone();
        self.tunables.retain_mut(|tunable| loader.leaves(tunable, &object));
        self.sets = sets::read(&self.source, &self.name, &self.tunables)?;
        self.loader = Some(loader);
        Ok(self)
    }

    /// The policy `name` of the object at `path`, whose source has these texts.
    pub(crate) fn of_file(
        name: &str,
        source: &Path,
        path: &Path,
        texts: &Texts,
        warnings: String,
    ) -> Result<Policy, PolicyError> {
        let io = |cause| PolicyError::Io { action: "read", path: path.to_owned(), cause };
        let bytes = fs::read(path).map_err(io)?;
        let broken = |reason: String| PolicyError::NoObject { path: path.to_owned(), reason };
        let object = Object::read(&bytes).map_err(|error| match error {
            ObjectError::Bytes { what, section, bytes, most } => {
                let most_mib = most >> 20;
                PolicyError::ObjectSize { policy: name.to_owned(), what, section, bytes, most_mib }
            }
            ObjectError::Empty { name: function } => {
                PolicyError::NoCode { policy: name.to_owned(), function }
            }
            other => broken(other.to_string()),
        })?;
        let operations = object.tables.iter().position(|table| table::TYPES.contains(&&*table.of));
        let Some(operations) = operations else {
            let others = object.tables.iter().map(|table| table.of.clone()).collect();
            return Err(PolicyError::NoOps { policy: name.to_owned(), others });
        };
        check_licence(name, &object.licence)?;
        table::check(name, &object, &object.tables[operations])?;
        let text = SourceText::new(&texts.all);
        let mut image = Vec::new();
        let (mut tunables, mut arrays) = (Vec::new(), Vec::new());
        for data in &object.data {
            let reader = Reader { btf: &object.btf, text: &text, begins: image.len() };
            image.extend_from_slice(&data.bytes);
            let mut variables: Vec<_> = data.variables.iter().collect();
            variables.sort_by_key(|(_, variable)| variable.offset);
            for (name, variable) in variables.into_iter().filter(|_| data.read_only) {
                let number = reader.tunable(name, variable, &image);
                tunables.extend(number.map_err(|error| broken(error.to_string()))?);
                let array = reader.array(name, variable);
                arrays.extend(array.map_err(|error| broken(error.to_string()))?);
            }
        }
        tunables.sort_by_cached_key(|t| text.definition_line(&t.name).unwrap_or(usize::MAX));
        Ok(Policy {
            name: name.to_owned(),
            source: source.to_owned(),
            digest: hex(&Sha256::digest(&bytes)),
            object_path: path.to_owned(),
            is_built: source == path,
            image: image.into(),
            warnings,
            description: SourceText::new(&texts.source).description(),
            sets: sets::read(source, name, &tunables)?,
            tunables,
            arrays,
            object: Arc::new(object),
            loader: None,
            operations,
        })
    }
}

/// A kernel refuses what this refuses, but only after somebody has tried it there.
fn check_licence(policy: &str, found: &str) -> Result<(), PolicyError> {
    if GPL_COMPATIBLE.contains(&found) {
        return Ok(());
    }
    Err(PolicyError::Licence { policy: policy.to_owned(), found: found.to_owned() })
}

/// The integer that `bytes`, at most 8 of them, are in an object.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | i128::from(*byte));
    let half = 1_i128 << (8 * bytes.len() - 1);
    if signed && value >= half { value - 2 * half } else { value }
}

fn is_enumerator(name: &str, variable: &Variable) -> bool {
    name.starts_with(ENUMERATOR) && variable.bytes == ENUMERATOR_BYTES
}

/// What tells variables of a section apart.
struct Reader<'a> {
    btf: &'a Btf,
    text: &'a SourceText<'a>,
    /// Where the section begins in the image.
    begins: usize,
}

impl Reader<'_> {
    fn tunable(
        &self,
        name: &str,
        variable: &Variable,
        image: &[u8],
    ) -> Result<Option<Tunable>, BtfError> {
        if !variable.global || !self.is_const_volatile(variable.of)? {
            return Ok(None);
        }
        if is_enumerator(name, variable) {
            return Ok(None);
        }
        let (signed, boolean) = match self.btf.resolve(variable.of)?.1 {
            Type::Integer { signed, boolean, .. } => (*signed, *boolean),
            Type::Enumeration { signed, .. } => (*signed, false),
            _ => return Ok(None),
        };
        let image_offset = self.begins + variable.offset as usize;
        let size = variable.bytes as usize;
        // No wider number can be set; and one of no bytes is none.
        if !(1..=8).contains(&size) {
            return Ok(None);
        }
        Ok(Some(Tunable {
            name: name.to_owned(),
            type_name: self.type_name(variable.of)?,
            size,
            signed,
            boolean,
            default: integer(&image[image_offset..image_offset + size], signed),
            doc: self.text.doc(name),
            image_offset,
        }))
    }

    fn array(&self, name: &str, variable: &Variable) -> Result<Option<LoaderArray>, BtfError> {
        let element = match self.btf.resolve(variable.of)?.1 {
            Type::Array { element, .. } => *element,
            Type::Integer { .. } if is_enumerator(name, variable) => variable.of,
            _ => return Ok(None),
        };
        // The qualifiers of an array are those of its elements.
        if !variable.global || !self.is_const_volatile(element)? {
            return Ok(None);
        }
        Ok(Some(LoaderArray {
            name: name.to_owned(),
            type_name: self.type_name(element)?,
            size: variable.bytes,
            image_offset: self.begins + variable.offset as usize,
        }))
    }

    /// The types that an id goes through, outermost first, up to one that is not only a name.
    fn chain(&self, mut of: TypeId) -> Result<Vec<&Type>, BtfError> {
        let mut chain = Vec::new();
        let last = self.btf.resolve(of)?.0;
        loop {
            let one = self.btf.get(of)?;
            chain.push(one);
            match one {
                _ if of == last => return Ok(chain),
                Type::Qualified { of: next, .. } | Type::Typedef { of: next, .. } => of = *next,
                _ => return Ok(chain),
            }
        }
    }

    fn is_const_volatile(&self, of: TypeId) -> Result<bool, BtfError> {
        let chain = self.chain(of)?;
        let has = |wanted: &Qualifier| {
            chain.iter().any(|one| match one {
                Type::Qualified { qualifier, .. } => qualifier == wanted,
                _ => false,
            })
        };
        Ok(has(&Qualifier::Const) && has(&Qualifier::Volatile))
    }

    fn type_name(&self, of: TypeId) -> Result<String, BtfError> {
        let named = self.chain(of)?.into_iter().find_map(|one| match one {
            Type::Typedef { name, .. } | Type::Integer { name, .. } => Some(name.clone()),
            Type::Enumeration { name, .. } => Some(format!("enum {name}")),
            Type::Structure { name, .. } => Some(format!("struct {name}")),
            _ => None,
        });
        Ok(named.unwrap_or_default())
    }
}
