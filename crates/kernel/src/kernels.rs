//! Kernels for virtual machines: known by name, kept in a cache, judged before they are booted.
//!
//! A kernel comes from a file on this machine ([`Cache::add`]) or from Debian's packages
//! ([`Cache::fetch`]). Either way its image is examined once and kept uncompressed with a record
//! of what it is, and from then on it works offline.

mod apt;
mod btf;
mod calls;
mod error;
mod image;
mod release;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use apt::{DEFAULT_SERIES, NEWEST};
pub use error::KernelError;
pub use release::Release;

/// What picks the next task when no policy is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// The completely fair scheduler, 2.6.23 to 6.5.
    Cfs,
    /// Earliest eligible virtual deadline first, from 6.6 on.
    Eevdf,
}

impl Scheduler {
    fn of(release: &Release) -> Scheduler {
        if *release < Release::FIRST_WITH_EEVDF { Scheduler::Cfs } else { Scheduler::Eevdf }
    }
}

/// Whether policies can be loaded into a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedExt {
    /// It was built without sched_ext.
    Absent,
    /// It has sched_ext, and nothing is known to be wrong with it.
    Sound,
    /// It has sched_ext, but no policy could be loaded, for this reason.
    Broken(String),
}

/// A kernel of the cache, ready to boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// What users call it: a series such as `6.18`, or what `add` was told.
    pub name: String,
    /// `uname -r` in the running kernel.
    pub release: String,
    /// What schedules when no policy is loaded.
    pub scheduler: Scheduler,
    /// Whether policies can be loaded.
    pub sched_ext: SchedExt,
    /// Whether it can send records over virtio without loading a module.
    pub virtio_console: bool,
    /// Whether QEMU starts the uncompressed image directly.
    pub pvh: bool,
    /// Scheduler ticks a second, where the configuration came with the image.
    pub hz: Option<u32>,
    /// Package and version, or the path it was added from.
    pub source: String,
    /// SHA-256 of the uncompressed image, in hex.
    pub sha256: String,
    /// The image to boot. Not in the record: it lies beside it.
    #[serde(skip)]
    pub image: PathBuf,
}

/// A kernel image as it is found: with its configuration, where that is known.
struct Found {
    image: Vec<u8>,
    configuration: Option<String>,
    source: String,
}

/// Whoever waits for a fetch.
pub trait Listener {
    /// Is told what is being done.
    fn note(&mut self, text: &str);

    /// Whether the fetch is still wanted. Asked many times a second while other programs work;
    /// after the first false all ends at once.
    fn goes_on(&mut self) -> bool;
}

/// Where kernels are kept: a directory each, with an image and a record.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

const RECORD: &str = "kernel.json";
/// Uncompressed, for PVH; it boots a second sooner.
const IMAGE: &str = "vmlinux";
/// As the distribution ships it, for the few kernels that QEMU cannot start uncompressed.
const COMPRESSED_IMAGE: &str = "vmlinuz";
/// Names of directories that are being filled begin so.
const UNFINISHED: &str = ".new-";

impl Cache {
    /// The cache in this directory, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Cache {
        Cache { directory: directory.into() }
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Every kernel in it that can be used, oldest release first.
    pub fn list(&self) -> Result<Vec<Kernel>, KernelError> {
        let mut kernels: Vec<Kernel> = self.look()?.into_iter().filter_map(Result::ok).collect();
        kernels.sort_by_key(|kernel| (Release::parse(&kernel.release), kernel.name.clone()));
        Ok(kernels)
    }

    /// Those that cannot be used, each [`KernelError::Damaged`], in the order of their names.
    pub fn damaged(&self) -> Result<Vec<KernelError>, KernelError> {
        Ok(self.look()?.into_iter().filter_map(Result::err).collect())
    }

    /// The kernel of this name; else the newest whose release begins with it, as in `6.18`.
    pub fn find(&self, name: &str) -> Result<Kernel, KernelError> {
        let kernels = self.list()?;
        let named = kernels.iter().find(|kernel| kernel.name == name);
        let place = self.directory.join(name);
        if named.is_none() && checked_name(name).is_ok() && is_kernel(&place) {
            return read(&place);
        }
        let of_series =
            || kernels.iter().rfind(|kernel| release::is_of_series(&kernel.release, name));
        named.or_else(of_series).cloned().ok_or_else(|| KernelError::Unknown {
            name: name.to_owned(),
            present: kernels.iter().map(|kernel| kernel.name.clone()).collect(),
        })
    }

    /// Every directory with a record in it, by its name: the kernel, or what is wrong with it.
    fn look(&self) -> Result<Vec<Result<Kernel, KernelError>>, KernelError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(cause) => return Err(KernelError::io("read", &self.directory, cause)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path =
                entry.map_err(|cause| KernelError::io("read", &self.directory, cause))?.path();
            if is_kernel(&path) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths.iter().map(|path| read(path)).collect())
    }

    /// The newest kernel into which policies can be loaded.
    pub fn newest_with_sched_ext(&self) -> Result<Kernel, KernelError> {
        let sound = |kernel: &Kernel| kernel.sched_ext == SchedExt::Sound;
        self.list()?.into_iter().rfind(sound).ok_or(KernelError::NoneWithSchedExt)
    }

    /// Takes in the image at `path`, `vmlinuz` or `vmlinux`, under `name` or its release.
    ///
    /// A kernel whose sched_ext cannot be used is taken in all the same, because it can be
    /// compared by its own scheduler; [`Kernel::sched_ext`] says why policies are out. Another
    /// kernel of the same name stays, and that is an error, unless `replace` says otherwise.
    pub fn add(
        &self,
        path: &Path,
        name: Option<&str>,
        replace: bool,
    ) -> Result<Kernel, KernelError> {
        let image = fs::read(path).map_err(|cause| KernelError::io("read", path, cause))?;
        let configuration = configuration_beside(path);
        let source = path.display().to_string();
        let found = Found { image, configuration, source };
        self.keep(found, name, replace).map_err(|error| error.of(path))
    }

    /// Gets a kernel of each series, such as `6.12` or [`NEWEST`], from Debian's packages.
    ///
    /// The system's own sources are read for the mirror and left alone; no root is needed. Of a
    /// series the newest is taken whose sched_ext is not broken. The outcomes are in the order of
    /// `series`: one that fails does not keep the others away.
    ///
    /// Interrupted by `listener`, it keeps the kernels that were done, and nothing of the others.
    pub fn fetch(
        &self,
        series: &[&str],
        listener: &mut dyn Listener,
    ) -> Result<Vec<Result<Kernel, KernelError>>, KernelError> {
        fs::create_dir_all(&self.directory)
            .map_err(|cause| KernelError::io("create", &self.directory, cause))?;
        self.remove_abandoned();
        let packages = apt::Packages::update(&self.directory, listener)?;
        let mut outcomes = Vec::with_capacity(series.len());
        for series in series {
            match self.fetch_from(&packages, series, listener) {
                Err(KernelError::Interrupted) => return Err(KernelError::Interrupted),
                outcome => outcomes.push(outcome),
            }
        }
        Ok(outcomes)
    }

    /// Directories that a killed process left unfinished. One that is younger may be in use.
    fn remove_abandoned(&self) {
        const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
        for path in files(&self.directory, |name| name.starts_with(UNFINISHED)) {
            let changed = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|changed| changed.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED_AFTER) {
                // If it stays, it is in nobody's way.
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    fn fetch_from(
        &self,
        packages: &apt::Packages,
        series: &str,
        listener: &mut dyn Listener,
    ) -> Result<Kernel, KernelError> {
        let mut refused = Vec::new();
        let candidates = packages.candidates(series, listener)?;
        for candidate in candidates.into_iter().take(apt::CANDIDATES_MAX) {
            let found = packages.download(&candidate, listener)?;
            let facts = image::examine(&image::uncompress(found.image.clone())?)?;
            if let SchedExt::Broken(why) = &facts.sched_ext {
                listener.note(&format!("{} is passed over: {why}", facts.release));
                refused.push(facts.release);
                continue;
            }
            if !listener.goes_on() {
                return Err(KernelError::Interrupted);
            }
            let of_newest = candidate.release.series();
            let name = if series == NEWEST { &of_newest } else { series };
            return self.keep(found, Some(name), true);
        }
        Err(KernelError::NotInPackages { series: series.to_owned(), refused })
    }

    /// Writes image and record where readers find both or neither.
    fn keep(&self, found: Found, name: Option<&str>, replace: bool) -> Result<Kernel, KernelError> {
        let compressed = (!found.image.starts_with(b"\x7fELF")).then(|| found.image.clone());
        let elf = image::uncompress(found.image)?;
        let facts = image::examine(&elf)?;
        let name = checked_name(name.unwrap_or(&facts.release))?.to_owned();
        if !replace {
            self.refuse_another(&name, &facts.sha256)?;
        }
        let (file, bytes) = match (facts.pvh, compressed) {
            (true, _) => (IMAGE, elf),
            (false, Some(bytes)) => (COMPRESSED_IMAGE, bytes),
            (false, None) => return Err(KernelError::NoEntry { release: facts.release }),
        };
        let kernel = Kernel {
            image: self.directory.join(&name).join(file),
            name,
            release: facts.release,
            scheduler: facts.scheduler,
            sched_ext: facts.sched_ext,
            virtio_console: facts.virtio_console,
            pvh: facts.pvh,
            hz: found.configuration.as_deref().and_then(hz),
            source: found.source,
            sha256: facts.sha256,
        };
        self.write(&kernel, file, &bytes)?;
        Ok(kernel)
    }

    /// A damaged kernel, or the same one, is nothing that could be lost.
    fn refuse_another(&self, name: &str, sha256: &str) -> Result<(), KernelError> {
        match read(&self.directory.join(name)) {
            Ok(there) if there.sha256 != sha256 => Err(KernelError::Taken {
                name: there.name,
                release: there.release,
                origin: there.source,
            }),
            _ => Ok(()),
        }
    }

    fn write(&self, kernel: &Kernel, file: &str, bytes: &[u8]) -> Result<(), KernelError> {
        let in_cache = |cause| KernelError::io("write in", &self.directory, cause);
        fs::create_dir_all(&self.directory).map_err(in_cache)?;
        let unfinished = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(&self.directory)
            .map_err(in_cache)?;
        let record = serde_json::to_vec_pretty(kernel).expect("a kernel's record is plain data");
        fs::write(unfinished.path().join(file), bytes).map_err(in_cache)?;
        fs::write(unfinished.path().join(RECORD), record).map_err(in_cache)?;
        let place = self.directory.join(&kernel.name);
        if place.is_dir() {
            // A running machine keeps what it has open.
            fs::remove_dir_all(&place).map_err(in_cache)?;
        }
        fs::rename(unfinished.path(), &place).map_err(in_cache)
    }
}

/// Images that this machine has of its own, for [`Cache::add`].
pub fn on_this_machine() -> Vec<PathBuf> {
    let in_boot = files(Path::new("/boot"), |name| name.starts_with("vmlinuz-"));
    let modules = files(Path::new("/lib/modules"), |_| true);
    let in_modules = modules.iter().map(|path| path.join("vmlinuz")).filter(|path| path.is_file());
    let mut paths: Vec<PathBuf> = in_boot.into_iter().chain(in_modules).collect();
    paths.sort();
    paths
}

fn files(directory: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| wanted(&entry.file_name().to_string_lossy())).map(|e| e.path()).collect()
}

/// Whether a directory was made to keep a kernel, damaged or not.
fn is_kernel(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with(UNFINISHED) && directory.join(RECORD).exists()
}

/// The kernel in a directory. What is wrong with it says so of the directory.
fn read(directory: &Path) -> Result<Kernel, KernelError> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let damaged =
        |cause| KernelError::Damaged { name: name.clone(), path: directory.to_owned(), cause };
    let text =
        fs::read(directory.join(RECORD)).map_err(|cause| damaged(format!("{RECORD}: {cause}")))?;
    let mut kernel: Kernel =
        serde_json::from_slice(&text).map_err(|cause| damaged(format!("{RECORD}: {cause}")))?;
    kernel.image = directory.join(if kernel.pvh { IMAGE } else { COMPRESSED_IMAGE });
    if !kernel.image.is_file() {
        return Err(damaged(format!("there is no {}", kernel.image.display())));
    }
    Ok(kernel)
}

/// A name is a directory's name too.
fn checked_name(name: &str) -> Result<&str, KernelError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-~".contains(c);
    let usable = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed);
    if usable { Ok(name) } else { Err(KernelError::BadName(name.to_owned())) }
}

/// The build's configuration, as distributions install it beside the image.
fn configuration_beside(image: &Path) -> Option<String> {
    let name = image.file_name()?.to_str()?;
    let release = name.strip_prefix("vmlinuz-").or_else(|| name.strip_prefix("vmlinux-"));
    let beside = match release {
        Some(release) => image.with_file_name(format!("config-{release}")),
        None => image.with_file_name("config"),
    };
    fs::read_to_string(beside).ok()
}

fn hz(configuration: &str) -> Option<u32> {
    configuration
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))
        .and_then(|v| v.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, release: &str, sched_ext: SchedExt) -> Kernel {
        Kernel {
            name: name.into(),
            release: release.into(),
            scheduler: Scheduler::of(&Release::parse(release).unwrap()),
            sched_ext,
            virtio_console: true,
            pvh: true,
            hz: Some(250),
            source: "a test".into(),
            sha256: String::new(),
            image: PathBuf::new(),
        }
    }

    fn cache(kernels: &[Kernel]) -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path().join("kernels"));
        for kernel in kernels {
            cache.write(kernel, IMAGE, b"image").unwrap();
        }
        (directory, cache)
    }

    #[test]
    fn kernels_are_listed_by_release_and_found_by_name_or_series() {
        let (_directory, cache) = cache(&[
            kernel("mine", "6.18.9", SchedExt::Sound),
            kernel("6.12", "6.12.107+deb13", SchedExt::Absent),
            kernel("later", "6.18.15", SchedExt::Sound),
            kernel("broken", "7.1.13", SchedExt::Broken("why".into())),
        ]);
        let names: Vec<String> = cache.list().unwrap().into_iter().map(|k| k.name).collect();
        assert_eq!(names, ["6.12", "mine", "later", "broken"]);
        assert_eq!(cache.find("mine").unwrap().release, "6.18.9");
        assert_eq!(cache.find("6.18").unwrap().name, "later");
        assert_eq!(cache.find("6.18.9").unwrap().name, "mine");
        assert_eq!(cache.newest_with_sched_ext().unwrap().name, "later");
        assert!(fs::read(cache.find("6.12").unwrap().image).is_ok());
        let unknown = cache.find("6.1").unwrap_err().to_string();
        assert!(unknown.contains("6.12") && unknown.contains("kernels fetch 6.1"), "{unknown}");
    }

    #[test]
    fn a_damaged_kernel_is_told_and_keeps_no_other_away() {
        let sound = |name: &str| kernel(name, &format!("{name}.1"), SchedExt::Sound);
        let (_directory, cache) = cache(&["6.18", "6.19", "7.0"].map(sound));
        let path = |name: &str| cache.directory().join(name);
        fs::write(path("6.19").join(RECORD), "{").unwrap();
        fs::remove_file(path("7.0").join(IMAGE)).unwrap();
        let names: Vec<String> = cache.list().unwrap().into_iter().map(|k| k.name).collect();
        assert_eq!(names, ["6.18"]);
        assert_eq!(cache.newest_with_sched_ext().unwrap().name, "6.18");
        let damaged = cache.damaged().unwrap();
        let expected = [("6.19", "kernel.json: EOF"), ("7.0", "there is no ")];
        assert_eq!(damaged.len(), expected.len());
        for (told, (name, words)) in damaged.iter().zip(expected) {
            let told = told.to_string();
            let hint = format!("hint: remove {} and", path(name).display());
            assert!(told.starts_with(&format!("kernel {name} is damaged: {words}")), "{told}");
            assert!(told.contains(&hint), "{told}");
        }
        assert!(matches!(cache.find("7.0"), Err(KernelError::Damaged { .. })));
    }

    #[test]
    fn a_kernel_written_twice_is_there_once_and_nothing_unfinished_stays() {
        let twice =
            [kernel("a", "6.1.0", SchedExt::Absent), kernel("a", "6.1.1", SchedExt::Absent)];
        let (_directory, cache) = cache(&twice);
        assert_eq!(cache.list().unwrap().len(), 1);
        assert_eq!(cache.find("a").unwrap().release, "6.1.1");
        assert_eq!(fs::read_dir(cache.directory()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_abandoned_is_removed_and_what_may_be_in_use_is_not() {
        let (_directory, cache) = cache(&[kernel("a", "6.1.0", SchedExt::Absent)]);
        let day_before = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
        for (name, old) in [(".new-old", true), (".new-young", false), ("a", true)] {
            let path = cache.directory().join(name);
            fs::create_dir_all(&path).unwrap();
            if old {
                fs::File::open(&path).unwrap().set_modified(day_before).unwrap();
            }
        }
        cache.remove_abandoned();
        let left = files(cache.directory(), |_| true).len();
        assert!(left == 2 && !cache.directory().join(".new-old").exists());
    }

    #[test]
    fn a_cache_that_does_not_exist_is_empty() {
        assert_eq!(Cache::new("/nowhere/at/all").list().unwrap(), []);
    }

    #[test]
    fn a_name_cannot_leave_the_cache() {
        for name in ["", "..", "../x", "a/b", ".new-a", "a b"] {
            assert!(checked_name(name).is_err(), "{name:?}");
        }
        assert!(checked_name("7.3.4+deb13-cloud-amd64").is_ok());
    }

    #[test]
    fn the_tick_rate_is_read_from_the_configuration() {
        assert_eq!(hz("CONFIG_HZ_250=y\nCONFIG_HZ=250\n"), Some(250));
        assert_eq!(hz("# CONFIG_HZ is not set\n"), None);
    }
}
