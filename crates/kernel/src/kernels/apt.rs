//! Kernels from Debian's packages, with apt and without root.
//!
//! apt gets a state of its own in a temporary directory, so the system's sources, lists and
//! caches stay as they are. It checks what it downloads: archive signature, then package digest.
//! The mirror and everything else about the network are the system's own settings.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::release::is_of_series;
use super::{Found, KernelError, Listener, Release};
use child::{self, Ended, Unended};

/// The series that one gets who names none: CFS, EEVDF without and with sched_ext.
pub const DEFAULT_SERIES: [&str; 4] = ["6.1", "6.12", "6.18", NEWEST];
/// Stands for the newest kernel that there is.
pub const NEWEST: &str = "newest";
/// Most packages that are downloaded to find one which is not broken.
pub const CANDIDATES_MAX: usize = 6;

/// Suites with kernels: each Debian has one of its own, backports have the newest.
const SUITES: [&str; 3] = ["bookworm", "trixie", "trixie-backports"];
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];
/// Kernels for virtual machines: small, and with virtio built in.
const FLAVOUR: &str = "-cloud-amd64";
/// Packages of a kernel's image, best first. From 6.19 on the image has a package of its own.
const PREFIXES: [&str; 3] = ["linux-binary-", "linux-image-", "linux-binary-unsigned-"];
/// What a program may take that only reads and writes files here.
const LOCAL_LIMIT: Duration = Duration::from_secs(120);
/// What a program may take that downloads, some 70 MB; apt itself gives up a silent mirror sooner.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(1800);
/// More than any kernel image is long, compressed.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// A package that holds a kernel's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Release of the kernel in it.
    pub release: Release,
    package: String,
}

/// apt with a state of its own, which is removed with this value.
pub struct Packages {
    directory: tempfile::TempDir,
}

impl Packages {
    /// Reads the lists of packages, some 20 MB, into a new state under `directory`.
    pub fn update(directory: &Path, listener: &mut dyn Listener) -> Result<Packages, KernelError> {
        let keyring = KEYRINGS.into_iter().find(|path| Path::new(path).is_file());
        let keyring = keyring.ok_or(KernelError::NoPackages {
            reason: "the keys of Debian's archive are not installed".to_owned(),
            hint: "apt-get install debian-archive-keyring, or: schedlab kernels add PATH",
        })?;
        let mirror = mirror(listener)?;
        let in_cache = |cause| KernelError::io("write in", directory, cause);
        let state = tempfile::Builder::new().prefix(".new-apt-").tempdir_in(directory);
        let packages = Packages { directory: state.map_err(in_cache)? };
        let root = packages.directory.path();
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(root.join(part)).map_err(in_cache)?;
        }
        let source =
            |suite| format!("deb [arch=amd64 signed-by={keyring}] {mirror} {suite} main\n");
        let sources: String = SUITES.into_iter().map(source).collect();
        fs::write(root.join("sources.list"), sources).map_err(in_cache)?;
        fs::write(root.join("apt.conf"), configuration(root)).map_err(in_cache)?;
        listener.note("reading the lists of Debian's packages");
        packages.read_lists(listener)?;
        Ok(packages)
    }

    /// A suite that the mirror no longer has leaves those of the others, so what counts is not
    /// whether apt was content but whether there is any list.
    fn read_lists(&self, listener: &mut dyn Listener) -> Result<(), KernelError> {
        let lists = self.directory.path().join("lists");
        let mut update = self.command("apt-get", &["update"]);
        let ran = output(&mut update, "apt-get update", DOWNLOAD_LIMIT, listener)?;
        let said = String::from_utf8_lossy(&ran.stderr);
        let mut files = fs::read_dir(lists).into_iter().flatten().flatten();
        if !files.any(|file| file.file_name().to_string_lossy().contains("_Packages")) {
            return Err(program_failed("apt-get update", &said));
        }
        said.lines().filter(|line| line.starts_with("E: ")).for_each(|line| listener.note(line));
        Ok(())
    }

    /// Packages of this series, or of any for [`super::NEWEST`]; newest release first.
    pub fn candidates(
        &self,
        series: &str,
        listener: &mut dyn Listener,
    ) -> Result<Vec<Candidate>, KernelError> {
        let names = self.run("apt-cache", &["pkgnames", "linux-"], LOCAL_LIMIT, listener)?;
        Ok(choose(&String::from_utf8_lossy(&names.stdout), series))
    }

    /// Downloads a package, verified by apt, and takes the image out of it.
    pub fn download(
        &self,
        candidate: &Candidate,
        listener: &mut dyn Listener,
    ) -> Result<Found, KernelError> {
        let Candidate { package, release } = candidate;
        listener.note(&format!("downloading {package}"));
        let is_image = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name == "vmlinuz" || name == "vmlinuz.unsigned" || name.starts_with("vmlinuz-")
        };
        let is_configuration = |path: &str| path.contains("/config-") || path.ends_with("/config");
        let (version, mut files) = self.take(package, &[&is_image, &is_configuration], listener)?;
        let mut configuration = files.pop().flatten();
        let image = files.pop().flatten();
        if configuration.is_none() && package.starts_with("linux-binary-") {
            let base = format!("linux-base-{}", release.as_str());
            // Some releases are in the archive without it, and boot all the same.
            match self.take(&base, &[&is_configuration], listener) {
                Ok((_, mut files)) => configuration = files.pop().flatten(),
                Err(KernelError::Interrupted) => return Err(KernelError::Interrupted),
                Err(_) => listener.note(&format!("without its configuration: there is no {base}")),
            }
        }
        let source = format!("{package} {version}");
        Ok(Found {
            image: image.ok_or_else(|| KernelError::EmptyPackage { package: source.clone() })?,
            configuration: configuration.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            source,
        })
    }

    /// A package's version, and of its files the first that each of `wanted` accepts.
    fn take(
        &self,
        package: &str,
        wanted: &[&dyn Fn(&str) -> bool],
        listener: &mut dyn Listener,
    ) -> Result<Taken, KernelError> {
        let root = self.directory.path();
        self.run("apt-get", &["download", package], DOWNLOAD_LIMIT, listener)?;
        let mut files = fs::read_dir(root).into_iter().flatten().flatten().map(|file| file.path());
        let archive = files
            .find(|path| path.extension().is_some_and(|end| end == "deb"))
            .ok_or_else(|| KernelError::EmptyPackage { package: package.into() })?;
        let unpacked = root.join("files.tar");
        let cannot_unpack = |cause| KernelError::io("unpack", &archive, cause);
        let to = File::create(&unpacked).map_err(cannot_unpack)?;
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.arg("--fsys-tarfile").arg(&archive);
        let title = "dpkg-deb --fsys-tarfile";
        let ended = child::run_into(to, &mut dpkg, LOCAL_LIMIT, &mut || listener.goes_on());
        succeeded(title, ended.map_err(|why| no_end(title, why))?)?;
        let tar = File::open(&unpacked).map_err(cannot_unpack)?;
        let files = files_of(tar, wanted).map_err(cannot_unpack)?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = name.split('_').nth(1).unwrap_or_default().replace("%3a", ":");
        for path in [&archive, &unpacked] {
            fs::remove_file(path).map_err(|cause| KernelError::io("remove", path, cause))?;
        }
        Ok((version, files))
    }

    fn run(
        &self,
        program: &str,
        arguments: &[&str],
        limit: Duration,
        listener: &mut dyn Listener,
    ) -> Result<Ended, KernelError> {
        let title = format!("{program} {}", arguments.join(" "));
        let mut command = self.command(program, arguments);
        succeeded(&title, output(&mut command, &title, limit, listener)?)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let root = self.directory.path();
        let mut command = Command::new(program);
        command.arg("-c").arg(root.join("apt.conf")).args(arguments).current_dir(root);
        command
    }
}

/// Version of a package, and the files that were asked for, each if it was there.
type Taken = (String, Vec<Option<Vec<u8>>>);

/// Everything that apt would otherwise read or write in the system's own places.
fn configuration(root: &Path) -> String {
    let root = root.display();
    format!(
        "Dir::Etc::sourcelist \"{root}/sources.list\";\n\
         Dir::Etc::sourceparts \"/dev/null\";\n\
         Dir::State::Lists \"{root}/lists\";\n\
         Dir::Cache \"{root}/cache\";\n\
         Dir::Cache::pkgcache \"\";\n\
         Dir::Cache::srcpkgcache \"\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::GzipIndexes \"true\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         APT::Architecture \"amd64\";\n\
         APT::Sandbox::User \"\";\n\
         #clear APT::Architectures;\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n"
    )
}

/// The mirror that the system itself uses for Debian.
fn mirror(listener: &mut dyn Listener) -> Result<String, KernelError> {
    let format = "$(ORIGIN) $(REPO_URI)";
    let arguments = ["indextargets", "--format", format, "Created-By: Packages"];
    let mut asking = Command::new("apt-get");
    let listed = output(asking.args(arguments), "apt-get indextargets", LOCAL_LIMIT, listener)?;
    debian_mirror(&String::from_utf8_lossy(&listed.stdout)).ok_or(KernelError::NoPackages {
        reason: "the system's package sources name no mirror of Debian".to_owned(),
        hint: "on other systems take a kernel of your own: schedlab kernels add PATH",
    })
}

/// Of lines `origin URI`, the first whose origin is or may be Debian and whose URI ends as its
/// mirrors do. The origin is blank until the system's own lists have been read once.
fn debian_mirror(lines: &str) -> Option<String> {
    let mirrors = lines.lines().filter_map(|line| {
        let (origin, uri) = line.rsplit_once(' ')?;
        let uri = uri.trim_end_matches('/');
        let is_debian = origin == "Debian" || origin.is_empty() || origin.starts_with('$');
        (is_debian && uri.ends_with("/debian")).then(|| uri.to_owned())
    });
    mirrors.into_iter().next()
}

/// Of all packages' names, those of kernels of a series; newest first, one a release.
fn choose(names: &str, series: &str) -> Vec<Candidate> {
    let mut found: Vec<(Candidate, usize)> = Vec::new();
    for name in names.lines().map(str::trim).filter(|name| name.ends_with(FLAVOUR)) {
        let releases = PREFIXES
            .iter()
            .enumerate()
            .filter_map(|(rank, prefix)| Some((rank, Release::parse(name.strip_prefix(prefix)?)?)));
        for (rank, release) in releases {
            if series == NEWEST || is_of_series(release.as_str(), series) {
                found.push((Candidate { release, package: name.to_owned() }, rank));
            }
        }
    }
    found.sort_by(|(a, a_rank), (b, b_rank)| b.release.cmp(&a.release).then(a_rank.cmp(b_rank)));
    // `linux-image-…` of a split release only depends on the package that has the image.
    found.dedup_by(|(later, _), (kept, _)| later.release == kept.release);
    found.into_iter().map(|(candidate, _)| candidate).collect()
}

fn files_of(
    archive: impl Read,
    wanted: &[&dyn Fn(&str) -> bool],
) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let mut files = vec![None; wanted.len()];
    for entry in tar::Archive::new(archive).entries()? {
        let entry = entry?;
        let path = entry.path()?.display().to_string();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let asked = wanted.iter().position(|is_wanted| is_wanted(&path));
        if let Some(file) = asked.map(|index| &mut files[index]).filter(|file| file.is_none()) {
            let mut bytes = Vec::new();
            entry.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
            *file = Some(bytes);
        }
    }
    Ok(files)
}

/// What a program printed, whether it was content or not.
fn output(
    command: &mut Command,
    title: &str,
    limit: Duration,
    listener: &mut dyn Listener,
) -> Result<Ended, KernelError> {
    let ended = child::run(command.env("LC_ALL", "C"), limit, &mut || listener.goes_on());
    ended.map_err(|why| no_end(title, why))
}

fn succeeded(title: &str, ended: Ended) -> Result<Ended, KernelError> {
    if ended.status.success() {
        return Ok(ended);
    }
    Err(program_failed(title, &String::from_utf8_lossy(&ended.stderr)))
}

fn no_end(title: &str, why: Unended) -> KernelError {
    let program = title.split(' ').next().unwrap_or_default();
    match why {
        Unended::Io(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            KernelError::NoPackages {
                reason: format!("{program} is not installed"),
                hint: "fetching needs Debian's apt; elsewhere: schedlab kernels add PATH",
            }
        }
        Unended::Io(cause) => KernelError::io("run", Path::new(program), cause),
        Unended::Stopped => KernelError::Interrupted,
        Unended::Late { .. } | Unended::Flooded => {
            KernelError::Unending { program: title.to_owned(), why: why.to_string() }
        }
    }
}

fn program_failed(program: &str, said: &str) -> KernelError {
    const LINES_KEPT: usize = 6;
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let output = lines[lines.len().saturating_sub(LINES_KEPT)..].join("\n");
    KernelError::Program { program: program.to_owned(), output }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "linux-image-6.1.0-47-cloud-amd64\nlinux-image-6.1.0-50-cloud-amd64\n\
        linux-image-6.12.107+deb13-cloud-amd64\nlinux-image-6.12.94+deb13-cloud-amd64\n\
        linux-image-7.0.10+deb13-cloud-amd64\nlinux-binary-7.0.10+deb13-cloud-amd64\n\
        linux-binary-unsigned-7.3.4+deb13-cloud-amd64\nlinux-image-cloud-amd64\n\
        linux-image-7.3.4+deb13-cloud-amd64-dbg\nlinux-image-9.9.9+deb13-amd64\n";

    fn packages(series: &str) -> Vec<String> {
        choose(NAMES, series).into_iter().map(|candidate| candidate.package).collect()
    }

    #[test]
    fn the_newest_of_a_series_comes_first() {
        assert_eq!(
            packages("6.1"),
            ["linux-image-6.1.0-50-cloud-amd64", "linux-image-6.1.0-47-cloud-amd64"]
        );
        assert_eq!(packages("6.12")[0], "linux-image-6.12.107+deb13-cloud-amd64");
        assert_eq!(packages("6.12.94"), ["linux-image-6.12.94+deb13-cloud-amd64"]);
        assert_eq!(packages(NEWEST)[0], "linux-binary-unsigned-7.3.4+deb13-cloud-amd64");
        assert_eq!(packages("6.13"), [""; 0]);
    }

    #[test]
    fn of_a_split_release_the_package_with_the_image_is_taken() {
        assert_eq!(packages("7.0"), ["linux-binary-7.0.10+deb13-cloud-amd64"]);
    }

    #[test]
    fn the_mirror_is_debians_own_archive_and_nobody_elses() {
        let lines = "Node http://n/\nDebian http://m/debian-security/\nDebian http://m/debian/\n";
        assert_eq!(debian_mirror(lines).unwrap(), "http://m/debian");
        assert_eq!(debian_mirror("$(ORIGIN) http://m/debian/").unwrap(), "http://m/debian");
        assert_eq!(debian_mirror("Ubuntu http://m/ubuntu\nOther http://m/debian/"), None);
    }
}
