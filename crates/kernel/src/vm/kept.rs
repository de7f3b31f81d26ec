//! Machines that have booted, each kept in a file from which it goes on in a fraction of a second.
//!
//! A file's name begins with a digest of all that made the machine, so that a file which is found
//! is a machine that would be made again; the boot that it goes on from is the rest of the name.
//! Files appear whole or not at all, several processes may make the same one, and when there are
//! too many the one that was not used for longest goes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::{Accelerator, Options, Qemu, arguments, clock};
use crate::kernels::Kernel;
use crate::sink::{Sink, path_of};

/// Space for all of them, some 80 MB each.
const BYTES_MAX: u64 = 4 << 30;
/// A file that was begun so long ago is not written any more.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3600);
const DRAFT: &str = "draft-";
const ENDING: &str = ".machine";
/// Between a machine's digest and its boot.
const OF_BOOT: char = '@';
const DIGEST_DIGITS: usize = 24;
/// Clocks of guests that differ by less are alike: one part in a hundred.
const RATE_STEP: f64 = 0.01;

/// A machine of the folder, or the place of one that is not there yet.
#[derive(Clone, Debug)]
pub(super) struct Place {
    directory: PathBuf,
    digest: String,
    has_policy: bool,
}

/// A kept machine that can be restored, even if its file is removed meanwhile.
pub(super) struct Found {
    /// Which boot it was.
    pub boot: String,
    file: File,
    path: PathBuf,
}

/// A machine that is being saved.
pub(super) struct Draft {
    /// Whether the machine has loaded a policy, which must do well before it is kept.
    pub has_policy: bool,
    file: NamedTempFile,
    to: PathBuf,
    mark: Sink,
}

/// Where a machine goes on from, and where it is saved on its way.
pub(super) struct Way {
    /// The machine that it goes on from; without one it boots.
    pub found: Option<Found>,
    /// Where it is saved when it stops, in this order. At later stops it just goes on.
    pub stops: VecDeque<Place>,
    /// Its place with its policy loaded.
    pub with_policy: Option<Place>,
    /// Which boot it is; empty for one that is not kept.
    pub boot: String,
}

impl Way {
    /// Of a machine that is kept in `place`, and with the policy of these files loaded if it has
    /// one; whether there it is saved too.
    pub fn past(place: Option<Place>, policy: Option<&[u8]>, is_policy_kept: bool) -> Way {
        let Some(ready) = place else {
            let boot = String::new();
            return Way { found: None, stops: VecDeque::new(), with_policy: None, boot };
        };
        let with_policy = policy.map(|files| ready.with_policy(files));
        // All policies go on from one boot: what another one was kept with is of no use.
        let found_ready = ready.find();
        let boot =
            found_ready.as_ref().map_or_else(|| ready.new_boot(), |ready| ready.boot.clone());
        let found_with_policy = with_policy.as_ref().and_then(|place| place.find_boot(&boot));
        let is_loaded = found_with_policy.is_some();
        let found = found_with_policy.or(found_ready);
        let first = found.is_none().then_some(ready);
        let second = with_policy.clone().filter(|_| is_policy_kept && !is_loaded);
        Way { found, stops: first.into_iter().chain(second).collect(), with_policy, boot }
    }
}

impl Place {
    /// Where the machine of this kernel and these options is kept.
    pub fn of(
        directory: &Path,
        qemu: &Qemu,
        kernel: &Kernel,
        initramfs: &[u8],
        options: &Options,
    ) -> Place {
        let directory = directory.to_owned();
        let digest = digest(qemu, kernel, initramfs, options);
        Place { directory, digest, has_policy: false }
    }

    /// Where this machine is kept once it has loaded a policy, of which these are the files.
    pub fn with_policy(&self, files: &[u8]) -> Place {
        let digest = digest_of(&[self.digest.as_bytes(), files]);
        Place { directory: self.directory.clone(), digest, has_policy: true }
    }

    /// A name for a boot of this machine that happens now.
    pub fn new_boot(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{}-{:x}", self.digest, since.as_micros())
    }

    /// The machine, if it is there.
    pub fn find(&self) -> Option<Found> {
        Place::open(self.paths().max()?)
    }

    /// The machine as it was kept in this boot, if it is there.
    fn find_boot(&self, boot: &str) -> Option<Found> {
        Place::open(self.path(boot))
    }

    fn open(path: PathBuf) -> Option<Found> {
        let file = File::options().read(true).write(true).open(&path).ok()?;
        // It is in use. Where the file is somebody else's, it goes sooner.
        let _ = file.set_modified(SystemTime::now());
        let boot = name(&path).strip_suffix(ENDING)?.split_once(OF_BOOT)?.1.to_owned();
        Some(Found { boot, file, path })
    }

    /// Forgets this machine.
    pub fn clear(&self) {
        for path in self.paths() {
            // Another process may have done so.
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, boot: &str) -> PathBuf {
        self.directory.join(format!("{}{OF_BOOT}{boot}{ENDING}", self.digest))
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let begin = format!("{}{OF_BOOT}", self.digest);
        entries(&self.directory)
            .filter(move |path| name(path).starts_with(&begin) && name(path).ends_with(ENDING))
    }

    /// A file to save this boot of the machine in.
    pub fn draft(&self, boot: &str) -> io::Result<Draft> {
        fs::create_dir_all(&self.directory)?;
        let file = tempfile::Builder::new().prefix(DRAFT).tempfile_in(&self.directory)?;
        Ok(Draft { has_policy: self.has_policy, file, to: self.path(boot), mark: Sink::with(b"")? })
    }
}

impl Found {
    /// Where QEMU reads it.
    pub fn path(&self) -> String {
        path_of(&self.file)
    }

    /// Forgets a machine that cannot be restored.
    pub fn remove(&self) {
        // Another process may have done so.
        let _ = fs::remove_file(&self.path);
    }
}

impl Draft {
    /// Where QEMU writes it.
    pub fn path(&self) -> String {
        path_of(self.file.as_file())
    }

    /// Where something is to be written once all of it is.
    pub fn mark_path(&self) -> String {
        self.mark.path()
    }

    /// Whether all of it is written.
    pub fn is_whole(&mut self) -> bool {
        self.mark.read_new(&mut vec![]).is_ok_and(|length| length > 0)
    }

    /// Keeps what was saved, and makes room for it.
    pub fn keep(self) -> io::Result<()> {
        let Draft { file, to, .. } = self;
        file.persist(&to).map_err(|error| error.error)?;
        to.parent().map_or(Ok(()), |directory| make_room(directory, BYTES_MAX))
    }
}

/// Removes what was not used for longest until the rest is no larger than `bytes_max`.
fn make_room(directory: &Path, bytes_max: u64) -> io::Result<()> {
    let now = SystemTime::now();
    let mut files = vec![];
    for path in entries(directory) {
        // Another process may remove it at any time.
        let Ok(about) = fs::metadata(&path) else { continue };
        let used = about.modified()?;
        let age = now.duration_since(used).unwrap_or_default();
        if !name(&path).starts_with(DRAFT) {
            files.push((used, about.len(), path));
        } else if age > DRAFT_AGE_MAX {
            let _ = fs::remove_file(path);
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if bytes > bytes_max {
            let _ = fs::remove_file(path);
            bytes -= length;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// All that a booted machine is made of.
fn digest(qemu: &Qemu, kernel: &Kernel, initramfs: &[u8], options: &Options) -> String {
    let nowhere = arguments::Files::default();
    let mut parts = vec![
        qemu.version_text.clone(),
        program_digest(&qemu.program),
        kernel.sha256.clone(),
        arguments::of(qemu, kernel, &nowhere, options).join("\n"),
    ];
    if !options.deterministic {
        // Its clock is this processor's, and each seed is a boot of its own.
        parts.extend([processor(), rate(), options.seed.to_string()]);
    }
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).chain([initramfs]).collect();
    digest_of(&parts)
}

fn digest_of(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()[..DIGEST_DIGITS].to_owned()
}

/// Of a program on PATH, or of a path: what changes when another one is installed.
fn program_digest(program: &str) -> String {
    let about = child::file_of(program).and_then(|path| fs::metadata(path).ok());
    about.map_or_else(String::new, |about| format!("{} {:?}", about.len(), about.modified().ok()))
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().find(|line| line.starts_with("model name")).unwrap_or_default().to_owned()
}

/// The rate of the processor's counter, in steps.
fn rate() -> String {
    let steps = |khz: u64| ((khz as f64).ln() / RATE_STEP).round().to_string();
    clock::rate_khz().map_or_else(String::new, steps)
}

impl Options {
    /// Whether a booted machine can be kept: not where the processor itself executes it, which
    /// boots it in a second and is not the same elsewhere.
    pub(super) fn can_be_kept(&self) -> bool {
        self.accelerator == Accelerator::Tcg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, digest: &str) -> Place {
        let directory = directory.to_owned();
        Place { directory, digest: digest.to_owned(), has_policy: false }
    }

    fn saved(place: &Place, boot: &str, bytes: usize) {
        let draft = place.draft(boot).unwrap();
        fs::write(draft.file.path(), vec![1; bytes]).unwrap();
        draft.keep().unwrap();
    }

    #[test]
    fn a_machine_is_found_once_it_is_whole_and_the_latest_boot_of_it_only() {
        let directory = tempfile::tempdir().unwrap();
        let (mine, other) = (place(directory.path(), "aa"), place(directory.path(), "bb"));
        let draft = mine.draft("aa-1").unwrap();
        assert!(mine.find().is_none());
        draft.keep().unwrap();
        saved(&mine, "aa-2", 1);
        saved(&other, "bb-3", 1);
        let found = mine.find().unwrap();
        assert_eq!(found.boot, "aa-2");
        found.remove();
        assert_eq!(mine.find().unwrap().boot, "aa-1");
    }

    #[test]
    fn a_machine_with_a_policy_is_another_one_of_the_same_boot() {
        let directory = tempfile::tempdir().unwrap();
        let plain = place(directory.path(), "aa");
        let (loaded, other) = (plain.with_policy(b"fifo"), plain.with_policy(b"cfs"));
        saved(&plain, "aa-1", 1);
        assert!(loaded.find().is_none());
        saved(&loaded, "aa-1", 1);
        assert_eq!(loaded.find().unwrap().boot, plain.find().unwrap().boot);
        assert!(other.find().is_none());
        loaded.clear();
        assert!(loaded.find().is_none() && plain.find().is_some());
    }

    #[test]
    fn all_policies_go_on_from_the_latest_boot_and_are_kept_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let ready = place(directory.path(), "aa");
        let way = || Way::past(Some(ready.clone()), Some(b"fifo"), true);
        assert!(way().found.is_none() && way().stops.len() == 2);
        saved(&ready, "aa-1", 1);
        assert_eq!((way().boot.as_str(), way().stops.len()), ("aa-1", 1));
        saved(&ready.with_policy(b"fifo"), "aa-1", 1);
        assert_eq!((way().boot.as_str(), way().stops.len()), ("aa-1", 0));
        // Another process has booted it too.
        saved(&ready, "aa-2", 1);
        assert_eq!((way().boot.as_str(), way().stops.len()), ("aa-2", 1));
        assert_eq!(Way::past(Some(ready.clone()), Some(b"fifo"), false).stops.len(), 0);
        assert_eq!(Way::past(None, Some(b"fifo"), true).stops.len(), 0);
    }

    #[test]
    fn where_there_are_too_many_the_one_that_was_not_used_for_longest_goes() {
        let directory = tempfile::tempdir().unwrap();
        for (digest, seconds) in [("aa", 30), ("bb", 10), ("cc", 20)] {
            let place = place(directory.path(), digest);
            saved(&place, &format!("{digest}-1"), 100);
            let file = place.find().unwrap().file;
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        }
        // Whoever is saved just now is left alone, whoever was begun long ago is not.
        let draft = place(directory.path(), "dd").draft("dd-1").unwrap();
        let old = place(directory.path(), "ee").draft("ee-1").unwrap();
        old.file.as_file().set_modified(UNIX_EPOCH).unwrap();
        make_room(directory.path(), 200).unwrap();
        let mut left: Vec<PathBuf> = entries(directory.path()).collect();
        left.retain(|path| path != draft.file.path());
        left.sort();
        let left: Vec<&str> = left.iter().map(|path| name(path)).collect();
        assert_eq!(left, ["bb@bb-1.machine", "cc@cc-1.machine"]);
        assert!(draft.file.path().exists());
    }
}
