//! A kernel's image: the ELF file inside, and what it says of itself.
//!
//! Nothing is booted for this. A `bzImage` (what distributions install as `vmlinuz`) carries its
//! kernel compressed; where it lies is told by the header of the x86 boot protocol
//! (Documentation/arch/x86/boot.rst).

use std::io::Read;

use object::{Object, ObjectSection};
use sha2::{Digest, Sha256};

use super::btf::{Btf, BtfError};
use super::calls::{NEEDED, OPTIONAL};
use super::{KernelError, Release, SchedExt, Scheduler};

/// What a kernel's image says of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `uname -r` in the running kernel.
    pub release: String,
    /// What schedules when no policy is loaded.
    pub scheduler: Scheduler,
    /// Whether policies can be loaded.
    pub sched_ext: SchedExt,
    /// Whether it can send records over virtio without loading a module.
    pub virtio_console: bool,
    /// Whether QEMU can start the uncompressed image directly (PVH), which saves a second.
    pub pvh: bool,
    /// SHA-256 of the uncompressed image, in hex.
    pub sha256: String,
}

/// The uncompressed kernel in `image`, which is a `bzImage` or is uncompressed already.
pub fn uncompress(image: Vec<u8>) -> Result<Vec<u8>, KernelError> {
    if image.starts_with(ELF_MAGIC) {
        return Ok(image);
    }
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err(KernelError::NotAKernel);
    }
    let payload = payload(&image).ok_or(KernelError::NotAKernel)?;
    let elf = decode(payload)?;
    if elf.starts_with(ELF_MAGIC) { Ok(elf) } else { Err(KernelError::NotAKernel) }
}

/// Reads what an uncompressed kernel says of itself.
pub fn examine(elf: &[u8]) -> Result<Facts, KernelError> {
    let file = object::File::parse(elf).map_err(|_| KernelError::NotAKernel)?;
    if file.architecture() != object::Architecture::X86_64 {
        return Err(KernelError::Architecture(format!("{:?}", file.architecture())));
    }
    let text = banner_release(elf).ok_or(KernelError::NotAKernel)?;
    let release = Release::parse(&text).ok_or(KernelError::NotAKernel)?;
    let btf = match file.section_by_name(".BTF").map(|section| section.data()) {
        Some(Ok(bytes)) => Some(Btf::parse(bytes)),
        _ => None,
    };
    let built_in = |name| matches!(&btf, Some(Ok(btf)) if btf.has_function(name));
    Ok(Facts {
        scheduler: Scheduler::of(&release),
        sched_ext: sched_ext(btf.as_ref()),
        virtio_console: built_in("virtcons_probe") && built_in("virtio_pci_probe"),
        pvh: has_pvh_note(&file),
        sha256: hex(&Sha256::digest(elf)),
        release: text,
    })
}

/// Whether policies can be loaded, as far as the kernel's BTF tells.
///
/// From 7.1 on, many kfuncs take an argument that the verifier adds. The kernel's build has to
/// list each of them twice, with and without it, and an older `pahole` does not: every call of
/// such a function is then refused.
fn sched_ext(btf: Option<&Result<Btf, BtfError>>) -> SchedExt {
    let btf = match btf {
        Some(Ok(btf)) => btf,
        Some(Err(error)) => return SchedExt::Broken(error.to_string()),
        None => return SchedExt::Absent,
    };
    if !btf.has_structure("sched_ext_ops") {
        return SchedExt::Absent;
    }
    let all = NEEDED.iter().flat_map(|names| names.iter()).chain(&OPTIONAL);
    if let Some(shown) = all.copied().find(|name| btf.shows_verifiers_argument(name)) {
        return SchedExt::Broken(format!(
            "its BTF lists {shown} with the argument that the verifier adds, as if built with \
             pahole before 1.31: the verifier would refuse policies"
        ));
    }
    let is_missing = |names: &&&[&str]| !names.iter().any(|name| btf.has_function(name));
    match NEEDED.iter().find(is_missing) {
        Some(names) => SchedExt::Broken(format!(
            "its BTF does not list {}, which policies call",
            names.join(" or ")
        )),
        None => SchedExt::Sound,
    }
}

const ELF_MAGIC: &[u8] = b"\x7fELF";
/// More than any kernel is long, uncompressed.
const KERNEL_BYTES_MAX: u64 = 1 << 30;

/// The compressed part of a `bzImage`.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")) as usize)
    };
    let nr_setup_sectors = match image[0x1f1] {
        0 => 4,
        given => usize::from(given),
    };
    let start = (nr_setup_sectors + 1) * 512 + word(0x248)?;
    image.get(start..start + word(0x24c)?)
}

fn decode(payload: &[u8]) -> Result<Vec<u8>, KernelError> {
    let bad = |error: &dyn std::fmt::Display| KernelError::Compression(error.to_string());
    match payload {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(payload);
            read(decoder.map_err(|error| bad(&error))?)
        }
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => decode_lz4(blocks),
        [0x1f, 0x8b, ..] => read(flate2::read::GzDecoder::new(payload)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read(lzma_rust2::XzReader::new(payload, false)),
        other => {
            let start: Vec<String> = other.iter().take(6).map(|b| format!("{b:02x}")).collect();
            Err(KernelError::Compression(format!(
                "a format that begins with {} and is none of zstd, lz4, gzip, xz",
                start.join(" ")
            )))
        }
    }
}

fn read(decoder: impl Read) -> Result<Vec<u8>, KernelError> {
    let mut bytes = Vec::new();
    decoder
        .take(KERNEL_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| KernelError::Compression(error.to_string()))?;
    Ok(bytes)
}

/// The kernel's build uses lz4's older form: blocks of at most 8 MiB, each after its length, and
/// behind the last one the length of the whole.
fn decode_lz4(mut blocks: &[u8]) -> Result<Vec<u8>, KernelError> {
    const BLOCK_BYTES_MAX: usize = 8 << 20;
    const LENGTH_BYTES: usize = 4;
    let bad = |why: &dyn std::fmt::Display| KernelError::Compression(format!("lz4: {why}"));
    let mut bytes = Vec::new();
    let mut block = vec![0; BLOCK_BYTES_MAX];
    while blocks.len() > LENGTH_BYTES {
        let (length, rest) = blocks.split_at(LENGTH_BYTES);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes were taken"));
        let packed = rest.get(..length as usize).ok_or_else(|| bad(&"a block is cut off"))?;
        let filled = lz4_flex::block::decompress_into(packed, &mut block);
        bytes.extend_from_slice(&block[..filled.map_err(|error| bad(&error))?]);
        blocks = &rest[length as usize..];
    }
    Ok(bytes)
}

/// The release in `Linux version 6.18.15+deb13-cloud-amd64 (...`, as every kernel carries it.
fn banner_release(elf: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    const RELEASE_BYTES_MAX: usize = 64;
    let mut rest = elf;
    loop {
        let at = find(rest, BANNER)?;
        rest = &rest[at + BANNER.len()..];
        let end = rest.iter().take(RELEASE_BYTES_MAX).position(|&byte| byte == b' ')?;
        let text = std::str::from_utf8(&rest[..end]).ok();
        if let Some(text) = text.filter(|text| Release::parse(text).is_some()) {
            return Some(text.to_owned());
        }
    }
}

/// Where `wanted` begins in `bytes`.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut start = 0;
    while let Some(step) = bytes[start..].iter().position(|&byte| byte == first) {
        start += step;
        if bytes[start..].starts_with(wanted) {
            return Some(start);
        }
        start += 1;
    }
    None
}

/// Whether the image has the note by which QEMU finds its entry: owner `Xen`, type 18.
fn has_pvh_note(file: &object::File<'_>) -> bool {
    const NOTE: &[u8] = &[18, 0, 0, 0, b'X', b'e', b'n', 0];
    let notes = file.sections().filter(|section| section.name().is_ok_and(|n| n == ".notes"));
    notes.filter_map(|section| section.data().ok()).any(|data| find(data, NOTE).is_some())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::btf::synthetic;
    use super::*;

    fn judge(functions: &[&str], structures: &[&str]) -> SchedExt {
        sched_ext(Some(&Btf::parse(&synthetic(functions, structures))))
    }

    #[test]
    fn a_kernel_is_broken_if_any_call_is_missing_or_shows_the_verifiers_argument() {
        let ops = ["sched_ext_ops"];
        let newest: Vec<&str> = NEEDED.iter().map(|names| names[0]).collect();
        let oldest: Vec<&str> = NEEDED.iter().map(|names| names[names.len() - 1]).collect();
        assert_eq!(judge(&newest, &ops), SchedExt::Sound);
        assert_eq!(judge(&oldest, &ops), SchedExt::Sound);
        for (at, name) in newest.iter().enumerate() {
            let mut without = newest.clone();
            without.remove(at);
            let missing = judge(&without, &ops);
            assert!(matches!(&missing, SchedExt::Broken(why) if why.contains(name)), "{missing:?}");
            let open = format!("{name}!");
            without.push(&open);
            let shown = judge(&without, &ops);
            assert!(matches!(&shown, SchedExt::Broken(why) if why.contains("pahole")), "{shown:?}");
        }
        assert_eq!(judge(&newest, &["task_struct"]), SchedExt::Absent);
        assert_eq!(sched_ext(None), SchedExt::Absent);
    }

    /// The header of a `bzImage` around a payload.
    fn bz_image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 16];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image.extend(b"what follows the payload");
        image
    }

    fn elf() -> Vec<u8> {
        let mut elf = ELF_MAGIC.to_vec();
        elf.extend((0..200_000u32).flat_map(|i| (i % 251).to_le_bytes()));
        elf
    }

    #[test]
    fn a_gzip_payload_gives_the_kernel_inside() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &elf()).unwrap();
        assert_eq!(uncompress(bz_image(&gzip.finish().unwrap())).unwrap(), elf());
    }

    #[test]
    fn an_lz4_payload_gives_the_kernel_inside() {
        // Literals only: a token, the rest of the length in steps of 255, the bytes.
        let mut packed = vec![0x02, 0x21, 0x4c, 0x18];
        for chunk in elf().chunks(300_000) {
            let mut block = vec![0xf0];
            let mut rest = chunk.len() - 15;
            while rest >= 255 {
                block.push(255);
                rest -= 255;
            }
            block.push(rest as u8);
            block.extend(chunk);
            packed.extend((block.len() as u32).to_le_bytes());
            packed.extend(block);
        }
        packed.extend((elf().len() as u32).to_le_bytes());
        assert_eq!(uncompress(bz_image(&packed)).unwrap(), elf());
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        for bytes in [vec![], b"#!/bin/sh\n".to_vec(), vec![0; 4096], bz_image(b"unknown format")] {
            assert!(uncompress(bytes).is_err());
        }
        assert!(matches!(examine(&elf()), Err(KernelError::NotAKernel)));
    }

    #[test]
    fn a_banner_is_found_behind_a_format_string() {
        let bytes = b"..Linux version %s (x)\0Linux version 6.18.15+deb13-cloud-amd64 (debian)";
        assert_eq!(banner_release(bytes).unwrap(), "6.18.15+deb13-cloud-amd64");
        assert_eq!(banner_release(b"no kernel"), None);
    }
}
