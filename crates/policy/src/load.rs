//! Private copies of a policy: each has its own globals, tunables and maps.
//!
//! The dynamic loader maps a file only once, however often it is opened, and tells files apart
//! by name and by inode. So every copy is a file of its own, in memory, whose name
//! (`/proc/self/fd/N`) stays taken as long as the copy is loaded. All unsafe code of the crate
//! is here.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use libc::{MFD_CLOEXEC, RTLD_LOCAL, RTLD_NOLOAD, RTLD_NOW};
use libloading::os::unix::Library;

use crate::abi::{ABI_VERSION, Host, Map, Ops, PolicyDescription, SIZE_NAMES, expected_sizes};
use crate::object_file::{DESCRIPTION_SYMBOL, Global};
use crate::tunable::Tunable;
use crate::{Code, ObjectCopy, Policy, PolicyError, built, spelling};

/// Name of the file in memory, for a person who looks at `/proc/PID/maps`.
const MEMORY_FILE_NAME: &CStr = c"schedlab-policy";

/// One private copy of a policy.
#[derive(Debug)]
pub enum Loaded {
    /// In this machine's own instructions.
    Native(Native),
    /// As the object that a kernel loads.
    Object(ObjectCopy),
}

impl Loaded {
    /// Whether it is this machine's own code.
    pub fn is_native(&self) -> bool {
        matches!(self, Loaded::Native(_))
    }
}

/// One private copy of a policy in this process, until it is dropped.
///
/// It may move to another thread, but only one thread may use it at a time.
#[derive(Debug)]
pub struct Native {
    /// What the policy does, valid as long as this copy. Never null.
    pub ops: *const Ops,
    /// Its maps, which must all be [connected](LoadedMap::variable) before an operation runs.
    pub maps: Vec<LoadedMap>,
    host: *mut *mut Host,
    globals: Arc<[Global]>,
    /// What is added to an address of the object to have it in this copy.
    base: usize,
    // Dropped in this order: the name must not be free while the library is loaded.
    _library: Library,
    _file: OwnedFd,
}

// SAFETY: the pointers go into memory that belongs to this copy alone, and the dynamic loader
// does not care which thread closes a library.
unsafe impl Send for Native {}

/// A map of a loaded policy, to be provided by whoever loaded it.
#[derive(Debug)]
pub struct LoadedMap {
    /// The variable's name in C.
    pub name: String,
    /// `enum bpf_map_type`, as a number.
    pub kind: u32,
    /// Bytes of a key; 0 if the policy does not say.
    pub key_size: u32,
    /// Bytes of a value; 0 if the policy does not say.
    pub value_size: u32,
    /// Most entries; 0 if the policy does not say, as for task storage.
    pub max_entries: u32,
    /// Where the policy expects the address of its map, valid as long as the [`Loaded`].
    pub variable: *mut *mut Map,
}

impl Policy {
    /// Loads a copy that shares nothing with any other.
    ///
    /// `tunables` are set by name, the rest keep their defaults. `arrays` are offers: the
    /// policy gets those that it declares, as bytes in this machine's order, and zeros after
    /// their end. This runs no code of the policy; its operations do. About 0.1 ms.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if a tunable is unknown or its value does not fit, if an array is too
    /// long, or if the policy was built from headers that lay structures out differently.
    pub fn load(
        &self,
        tunables: &BTreeMap<String, i64>,
        arrays: &[(&str, &[u8])],
    ) -> Result<Loaded, PolicyError> {
        let mut image = self.image.to_vec();
        for (name, value) in tunables {
            let tunable = self.tunable(name)?;
            self.set_tunable(tunable, *value, &mut image)?;
        }
        for (name, bytes) in arrays {
            self.set_array(name, bytes, &mut image)?;
        }
        let globals = match &self.code {
            Code::Native(globals) => globals,
            Code::Object { object, operations } => {
                let (object, operations) = (object.clone(), *operations);
                let data = built::sections(&object, &image);
                return Ok(Loaded::Object(ObjectCopy { object, data, operations }));
            }
        };
        let (library, file) = open_private(&image).map_err(|reason| self.load_error(reason))?;
        Ok(Loaded::Native(self.inspect(globals, library, file)?))
    }

    fn tunable(&self, name: &str) -> Result<&Tunable, PolicyError> {
        self.tunables.iter().find(|tunable| tunable.name == name).ok_or_else(|| {
            let known = || self.tunables.iter().map(|tunable| tunable.name.as_str());
            PolicyError::UnknownTunable {
                policy: self.name.clone(),
                name: name.to_owned(),
                nearest: spelling::nearest(name, known()).map(str::to_owned),
                valid: known().map(str::to_owned).collect(),
            }
        })
    }

    fn set_tunable(
        &self,
        tunable: &Tunable,
        value: i64,
        image: &mut [u8],
    ) -> Result<(), PolicyError> {
        let (min, max) = tunable.range();
        if !(min..=max).contains(&i128::from(value)) {
            return Err(PolicyError::TunableRange {
                policy: self.name.clone(),
                value,
                tunable: Box::new(tunable.clone()),
            });
        }
        let bytes = value.to_ne_bytes();
        let low = if cfg!(target_endian = "little") { 0 } else { bytes.len() - tunable.size };
        image[tunable.image_offset..tunable.image_offset + tunable.size]
            .copy_from_slice(&bytes[low..low + tunable.size]);
        Ok(())
    }

    fn set_array(&self, name: &str, bytes: &[u8], image: &mut [u8]) -> Result<(), PolicyError> {
        let Some(array) = self.arrays.iter().find(|array| array.name == name) else {
            return Ok(());
        };
        if bytes.len() as u64 > array.size {
            return Err(PolicyError::ArraySize {
                policy: self.name.clone(),
                array: name.to_owned(),
                size: array.size,
                given: bytes.len(),
            });
        }
        image[array.image_offset..array.image_offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Checks that both sides mean the same by their structures and finds what is in them.
    fn inspect(
        &self,
        globals: &Arc<[Global]>,
        library: Library,
        file: OwnedFd,
    ) -> Result<Native, PolicyError> {
        let symbol = globals.iter().find(|global| global.name == DESCRIPTION_SYMBOL);
        let Some(symbol) = symbol else {
            return Err(PolicyError::NoOps { policy: self.name.clone() });
        };
        // SAFETY: the symbol is a variable of the policy; only its address is taken here.
        let address = unsafe { library.get::<*const PolicyDescription>(DESCRIPTION_SYMBOL) };
        let address = address.map_err(|error| self.load_error(error.to_string()))?;
        let description = address.as_raw_ptr().cast::<PolicyDescription>();
        self.check_layout(description)?;
        // SAFETY: the layout was checked, and the library outlives this function.
        let PolicyDescription { ops, host, .. } = unsafe { description.read() };

        let base = description.addr().wrapping_sub(symbol.address as usize);
        let maps = self.maps.iter().map(|map| LoadedMap {
            name: map.name.clone(),
            kind: map.kind,
            key_size: map.key_size,
            value_size: map.value_size,
            max_entries: map.max_entries,
            variable: ptr::with_exposed_provenance_mut(base.wrapping_add(map.address as usize)),
        });
        Ok(Native {
            ops,
            maps: maps.collect(),
            host,
            globals: globals.clone(),
            base,
            _library: library,
            _file: file,
        })
    }

    fn check_layout(&self, description: *const PolicyDescription) -> Result<(), PolicyError> {
        // SAFETY: every version of the structure begins with its version.
        let version = unsafe { (*description).abi_version };
        if version != ABI_VERSION {
            return Err(PolicyError::AbiVersion {
                policy: self.name.clone(),
                found: version,
                expected: ABI_VERSION,
            });
        }
        // SAFETY: the structures of this version are followed by these sizes.
        let sizes = unsafe { (*description).sizes };
        for ((found, expected), structure) in
            sizes.into_iter().zip(expected_sizes()).zip(SIZE_NAMES)
        {
            if found != expected {
                let policy = self.name.clone();
                return Err(PolicyError::AbiLayout { policy, structure, found, expected });
            }
        }
        Ok(())
    }

    fn load_error(&self, reason: String) -> PolicyError {
        PolicyError::Load { policy: self.name.clone(), reason }
    }
}

impl Native {
    /// Tells the policy's calls whom to call.
    ///
    /// `host` must stay valid as long as operations of this copy run.
    pub fn set_host(&mut self, host: *mut Host) {
        // SAFETY: the policy's own variable, in memory that lives as long as the library.
        unsafe { *self.host = host }
    }

    /// The bytes of a global variable as they are now, `static` ones included; `None` if the
    /// policy has no such variable.
    pub fn read_global(&self, name: &str) -> Option<Vec<u8>> {
        let global = self.globals.iter().find(|global| global.name == name)?;
        let mut bytes = vec![0; usize::try_from(global.size).ok()?];
        let address = self.base.wrapping_add(global.address as usize);
        // SAFETY: the object's own description says that the variable lies there and how long
        // it is, and no operation runs meanwhile: they are only called by our user's thread.
        unsafe {
            let source = ptr::with_exposed_provenance::<u8>(address);
            ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len());
        }
        Some(bytes)
    }
}

/// Opens `image` as a library that no other handle shares.
fn open_private(image: &[u8]) -> Result<(Library, OwnedFd), String> {
    let file = memory_file(image).map_err(|error| error.to_string())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: with this flag nothing is loaded, so nothing runs.
    if unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_NOLOAD) }.is_ok() {
        return Err(format!("the dynamic loader takes {path} for a library it still has loaded"));
    }
    // SAFETY: the compiler's output has no initialisers but the C library's own; a policy that
    // adds some is code its user chose to run.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| error.to_string())?;
    Ok((library, file))
}

fn memory_file(image: &[u8]) -> std::io::Result<OwnedFd> {
    // SAFETY: the name ends in a zero byte; the result is checked before it is used.
    let fd = unsafe { libc::memfd_create(MEMORY_FILE_NAME.as_ptr(), MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(image)?;
    Ok(file.into())
}
