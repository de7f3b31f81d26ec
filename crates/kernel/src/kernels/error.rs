//! What can go wrong with a kernel before it is booted.

use std::io;
use std::path::{Path, PathBuf};

/// Why a kernel cannot be had, kept or used.
///
/// The text names the bad value and, where there is one, a way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "write in".
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },

    /// Something is wrong with this image.
    #[error("{}: {cause}", path.display())]
    Image {
        /// Where the image lies.
        path: PathBuf,
        /// What is wrong.
        #[source]
        cause: Box<KernelError>,
    },

    /// The file is no kernel, or not one for x86.
    #[error(
        "this is not a Linux kernel for x86-64\n\
         hint: give a vmlinuz, as in /boot, or an uncompressed vmlinux"
    )]
    NotAKernel,

    /// A kernel, but for other processors.
    #[error("this kernel is for {0}: virtual machines run x86-64 kernels only")]
    Architecture(String),

    /// The kernel inside the image could not be uncompressed.
    #[error(
        "the kernel inside the image cannot be uncompressed: {0}\n\
         hint: give the uncompressed vmlinux"
    )]
    Compression(String),

    /// Uncompressed, and without an entry that QEMU knows.
    #[error(
        "kernel {release} cannot be started uncompressed: it was built without CONFIG_PVH\n\
         hint: give its vmlinuz"
    )]
    NoEntry {
        /// Its release.
        release: String,
    },

    /// A name that cannot be a directory's name.
    #[error(
        "{0:?} cannot be a kernel's name\n\
         hint: letters, digits and ._+-~, the first a letter or digit: --name my-6.18"
    )]
    BadName(String),

    /// A name that another kernel has.
    #[error(
        "kernel {name} is another one already: {release}, from {origin}\n\
         hint: --name NAME for another name, or --replace to have this one in its place"
    )]
    Taken {
        /// The name.
        name: String,
        /// The release of the kernel that has it.
        release: String,
        /// Where that kernel came from.
        origin: String,
    },

    /// A kernel of the cache that cannot be used as it lies there.
    #[error(
        "kernel {name} is damaged: {cause}\n\
         hint: remove {} and fetch or add the kernel again", path.display()
    )]
    Damaged {
        /// What it was called.
        name: String,
        /// Its directory.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },

    /// The cache has no such kernel.
    #[error(
        "there is no kernel {name:?} in the cache; it has {}\n\
         hint: schedlab kernels fetch {name}, or: schedlab kernels add PATH --name {name}",
        either(present)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of those it has.
        present: Vec<String>,
    },

    /// The cache has no kernel that takes policies.
    #[error(
        "no kernel in the cache can run a policy\n\
         hint: schedlab kernels fetch"
    )]
    NoneWithSchedExt,

    /// Debian's packages have no usable kernel of this series.
    #[error(
        "no usable kernel {series} is among the packages{}\n\
         hint: `schedlab kernels fetch newest`, or one of your own: schedlab kernels add PATH",
        passed_over(refused)
    )]
    NotInPackages {
        /// What was asked for.
        series: String,
        /// Releases that were there and cannot be used.
        refused: Vec<String>,
    },

    /// A package does not hold what it should.
    #[error("package {package} has no kernel image in it")]
    EmptyPackage {
        /// Its name and version.
        package: String,
    },

    /// This system cannot get Debian's packages.
    #[error("kernels cannot be fetched here: {reason}\nhint: {hint}")]
    NoPackages {
        /// What is missing.
        reason: String,
        /// A way out.
        hint: &'static str,
    },

    /// A program failed.
    #[error("`{program}` failed: {output}")]
    Program {
        /// The command, without its options.
        program: String,
        /// The end of what it printed.
        output: String,
    },

    /// A program would not end, and was ended.
    #[error(
        "`{program}` was given up: {why}\n\
         hint: try it later, or take a kernel of your own: schedlab kernels add PATH"
    )]
    Unending {
        /// The command, without its options.
        program: String,
        /// The limit that it reached, in words.
        why: String,
    },

    /// Whoever asked for it wants it no longer.
    #[error("it was interrupted")]
    Interrupted,
}

impl KernelError {
    pub(super) fn io(action: &'static str, path: &Path, cause: io::Error) -> KernelError {
        KernelError::Io { action, path: path.to_owned(), cause }
    }

    /// The same, said of the image at `path`, if the image is to blame.
    pub(super) fn of(self, path: &Path) -> KernelError {
        match self {
            KernelError::NotAKernel
            | KernelError::Architecture(_)
            | KernelError::Compression(_)
            | KernelError::NoEntry { .. } => {
                KernelError::Image { path: path.to_owned(), cause: Box::new(self) }
            }
            other => other,
        }
    }
}

fn either(present: &[String]) -> String {
    if present.is_empty() { "none at all".to_owned() } else { present.join(", ") }
}

fn passed_over(refused: &[String]) -> String {
    if refused.is_empty() {
        return String::new();
    }
    format!(" (broken for sched_ext: {})", refused.join(", "))
}
