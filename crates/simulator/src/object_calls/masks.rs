//! Sets of CPUs: those of the machine, which a policy reads, and its own, which it may change.

use super::{Calling, at, refused};
use crate::abi::{CpuMask, OwnMask};
use crate::core::Core;
use crate::idle::Masks;
use crate::kernel_calls::cpus::PICK_IDLE_CORE;
use bytecode::{Stop, Touch, errno};

/// Sets of its own that a policy may have at once.
const MASKS_MAX: usize = 1 << 16;

/// What `of` finds in sets where they lie.
fn look_at<const COUNT: usize, Found>(
    run: &mut Calling<'_, '_>,
    addresses: [u64; COUNT],
    of: impl Fn(&Core<'_>, [&CpuMask; COUNT]) -> Found,
) -> Result<Found, Stop> {
    let width = run.host.visible.width();
    let mut places = [std::ptr::null(); COUNT];
    for (place, address) in places.iter_mut().zip(addresses) {
        *place = at(run, address, width.bytes(), align_of::<u64>(), Touch::Read)?.cast_const();
    }
    let masks = places.map(|place| {
        let bits = std::ptr::slice_from_raw_parts(place.cast::<u64>(), width.words());
        // SAFETY: a mask; nobody writes it before `of` is done, which has no way to.
        unsafe { &*(bits as *const CpuMask) }
    });
    Ok(of(run.host, masks))
}

/// The same, of the number of the machine's CPUs.
fn look<const COUNT: usize>(
    run: &mut Calling<'_, '_>,
    addresses: [u64; COUNT],
    of: impl Fn([&CpuMask; COUNT], usize) -> u64,
) -> Result<u64, Stop> {
    look_at(run, addresses, |kernel, masks| of(masks, kernel.nr_cpu_ids() as usize))
}

/// A copy of a set.
pub(super) fn copy_of(run: &mut Calling<'_, '_>, at: u64) -> Result<OwnMask, Stop> {
    look_at(run, [at], |_, [mask]| OwnMask::combined(mask, mask, |word, _| word))
}

/// An idle CPU of a set, as `SCX_PICK_IDLE_*` asks for it.
pub(super) fn find_idle(
    run: &mut Calling<'_, '_>,
    at: u64,
    flags: u64,
) -> Result<Option<usize>, Stop> {
    let core_only = flags & PICK_IDLE_CORE != 0;
    look_at(run, [at], |kernel, [allowed]| kernel.idle.find(allowed, core_only))
}

/// A CPU of a set.
pub(super) fn find_any(run: &mut Calling<'_, '_>, at: u64) -> Result<Option<usize>, Stop> {
    look_at(run, [at], |kernel, [allowed]| kernel.idle.first_of(allowed))
}

/// Claims an idle CPU of a set that is in a node, or else elsewhere; where there is none and `any`
/// is asked for, takes any.
pub(super) fn pick_of_node(
    run: &mut Calling<'_, '_>,
    at: u64,
    node: i32,
    flags: u64,
    any: bool,
) -> Result<u64, Stop> {
    let allowed = copy_of(run, at)?;
    Ok(run.host.pick_cpu_of_node(&allowed, node, flags, any) as u64)
}

/// The idle CPUs; none where the policy tracks them itself, which ends it.
pub(super) fn idle(
    run: &mut Calling<'_, '_>,
    of: impl Fn(&Masks) -> &OwnMask,
) -> Result<u64, Stop> {
    if !run.host.uses_builtin_idle() {
        return idle_of_node(run, -1, of);
    }
    Ok(super::shown(run, of(run.host.idle.masks()).bits.as_ptr()))
}

/// The idle CPUs of a node, as they are now; none if there is no such node.
pub(super) fn idle_of_node(
    run: &mut Calling<'_, '_>,
    node: i32,
    of: impl Fn(&Masks) -> &OwnMask,
) -> Result<u64, Stop> {
    let kernel = &mut *run.host;
    let (key, idle) = match kernel.checked_node(node) {
        Ok(node) => {
            let all = of(kernel.idle.masks());
            (node as i32, OwnMask::combined(all, &kernel.cpus_of(node), |a, b| a & b))
        }
        Err(_) => (-1, OwnMask::default()),
    };
    // Two of each node: a policy may look at both.
    let which = std::ptr::from_ref(of(kernel.idle.masks())).addr();
    let masks = &mut kernel.policy.given.masks.of_nodes;
    let place = || kernel.visible.place_mask("the mask of a node's idle CPUs");
    let mask = masks.entry((key, which)).or_insert_with(place);
    mask.copy(&idle);
    Ok(kernel.visible.room.address(mask.bits.as_ptr()))
}

/// The first CPU that `words` has, in words that so many CPUs reach; their number if none.
fn first_of(nr_cpus: usize, words: impl Fn(usize) -> u64) -> u64 {
    let found = (0..nr_cpus.div_ceil(64)).find_map(|word| {
        let bits = words(word);
        (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
    });
    found.unwrap_or(nr_cpus) as u64
}

fn nr_cpus(run: &Calling<'_, '_>) -> u64 {
    run.host.nr_cpu_ids().into()
}

pub(super) fn test_cpu(run: &mut Calling<'_, '_>, [cpu, at, ..]: [u64; 5]) -> Result<u64, Stop> {
    look(run, [at], |[mask], _| mask.has(cpu as u32 as usize).into())
}

pub(super) fn first(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    look(run, [at], |[mask], nr_cpus| first_of(nr_cpus, |word| mask.bits[word]))
}

/// May be the number of CPUs or beyond, as in the kernel: then all are set.
pub(super) fn first_zero(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    look(run, [at], |[mask], nr_cpus| first_of(nr_cpus, |word| !mask.bits[word]))
}

pub(super) fn first_and(run: &mut Calling<'_, '_>, [a, b, ..]: [u64; 5]) -> Result<u64, Stop> {
    look(run, [a, b], |[a, b], nr_cpus| first_of(nr_cpus, |word| a.bits[word] & b.bits[word]))
}

pub(super) fn weight(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    look(run, [at], |[mask], _| mask.weight().into())
}

pub(super) fn empty(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    Ok((first(run, given)? >= nr_cpus(run)).into())
}

pub(super) fn full(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    Ok((first_zero(run, given)? >= nr_cpus(run)).into())
}

pub(super) fn intersects(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    Ok((first_and(run, given)? < nr_cpus(run)).into())
}

/// 1 if `words` has no CPU in words that the machine's CPUs reach.
fn is_none(
    run: &mut Calling<'_, '_>,
    [a, b, ..]: [u64; 5],
    words: impl Fn(u64, u64) -> u64,
) -> Result<u64, Stop> {
    look(run, [a, b], |[a, b], nr_cpus| {
        let first = first_of(nr_cpus, |word| words(a.bits[word], b.bits[word]));
        (first >= nr_cpus as u64).into()
    })
}

pub(super) fn subset(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    is_none(run, given, |a, b| a & !b)
}

pub(super) fn equal(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    is_none(run, given, |a, b| a ^ b)
}

// ---- a policy's own -----------------------------------------------------------------------------

pub(super) fn create(run: &mut Calling<'_, '_>, _: [u64; 5]) -> Result<u64, Stop> {
    let kernel = &mut *run.host;
    let masks = &mut kernel.policy.given.masks;
    if masks.used.len() >= MASKS_MAX {
        return Ok(0);
    }
    let mut mask = masks.free.pop().unwrap_or_else(|| kernel.visible.place_mask("a cpumask"));
    mask.bits.fill(0);
    let address = kernel.visible.room.address(mask.bits.as_ptr());
    masks.users.insert(address, 1);
    masks.used.insert(address, mask);
    Ok(address)
}

fn users<'a>(run: &'a mut Calling<'_, '_>, at: u64) -> Result<&'a mut u32, Stop> {
    let users = run.host.policy.given.masks.users.get_mut(&at);
    users.ok_or_else(|| refused(format!("{at:#x} is given for a mask of its own and is none")))
}

pub(super) fn acquire(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    *users(run, at)? += 1;
    Ok(at)
}

pub(super) fn release(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    let users = users(run, at)?;
    *users -= 1;
    if *users == 0 {
        let masks = &mut run.host.policy.given.masks;
        masks.users.remove(&at);
        masks.free.extend(masks.used.remove(&at));
    }
    Ok(0)
}

/// A set that it may change: one that it made, or memory of its own that it takes for one.
fn own<'a>(run: &'a mut Calling<'_, '_>, address: u64) -> Result<&'a mut CpuMask, Stop> {
    let width = run.host.visible.width();
    let place = match run.host.policy.given.masks.used.get(&address) {
        Some(mask) => mask.address().cast(),
        None if run.host.visible.room.find(address, width.bytes(), true).is_some() => {
            at(run, address, width.bytes(), align_of::<u64>(), Touch::Write)?.cast()
        }
        None => {
            let what = "is given for a mask of its own and is none";
            return Err(refused(format!("{address:#x} {what}")));
        }
    };
    let bits = std::ptr::slice_from_raw_parts_mut::<u64>(place, width.words());
    // SAFETY: so many bytes of a mask, or of the policy's memory, which nobody else looks at while
    // a call that was lent `run` has them.
    Ok(unsafe { &mut *(bits as *mut CpuMask) })
}

fn change(
    run: &mut Calling<'_, '_>,
    [cpu, at, ..]: [u64; 5],
    change: impl Fn(&mut CpuMask, usize),
) -> Result<u64, Stop> {
    let (cpu, nr_cpus) = (cpu as u32, run.host.nr_cpu_ids());
    let mask = own(run, at)?;
    let before = mask.has(cpu as usize);
    if cpu < nr_cpus {
        change(mask, cpu as usize);
    }
    Ok(before.into())
}

pub(super) fn set_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    change(run, given, CpuMask::set).map(|_| 0)
}

pub(super) fn clear_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    change(run, given, CpuMask::clear).map(|_| 0)
}

pub(super) fn test_and_set_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    change(run, given, CpuMask::set)
}

pub(super) fn test_and_clear_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    change(run, given, CpuMask::clear)
}

pub(super) fn clear(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    own(run, at)?.bits.fill(0);
    Ok(0)
}

pub(super) fn set_all(run: &mut Calling<'_, '_>, [at, ..]: [u64; 5]) -> Result<u64, Stop> {
    let nr_cpus = run.host.nr_cpu_ids() as usize;
    own(run, at)?.copy(&(0..nr_cpus).collect::<OwnMask>());
    Ok(0)
}

fn combine(
    run: &mut Calling<'_, '_>,
    [to, a, b, ..]: [u64; 5],
    combined: impl Fn(u64, u64) -> u64,
) -> Result<u64, Stop> {
    let both = look_at(run, [a, b], |_, [a, b]| OwnMask::combined(a, b, &combined))?;
    own(run, to)?.copy(&both);
    Ok(0)
}

/// 1 if the result holds a CPU.
pub(super) fn and(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    combine(run, given, |a, b| a & b)?;
    Ok(1 - empty(run, given)?)
}

pub(super) fn or(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    combine(run, given, |a, b| a | b)
}

pub(super) fn xor(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    combine(run, given, |a, b| a ^ b)
}

/// Makes a set of the bits in memory, which must reach as far as the machine's CPUs.
pub(super) fn populate(
    run: &mut Calling<'_, '_>,
    [to, from, bytes, ..]: [u64; 5],
) -> Result<u64, Stop> {
    let words = nr_cpus(run).div_ceil(64) as usize;
    if bytes < 8 * words as u64 {
        return Ok(-errno::EACCES as u64);
    }
    if !from.is_multiple_of(8) {
        return Ok(-errno::EINVAL as u64);
    }
    let begin = at(run, from, 8 * words, align_of::<u64>(), Touch::Read)?.cast_const();
    let mut mask = OwnMask::default();
    for (number, word) in mask.bits[..words].iter_mut().enumerate() {
        // SAFETY: so many words are there.
        *word = unsafe { begin.cast::<u64>().add(number).read() };
    }
    own(run, to)?.copy(&mask);
    Ok(0)
}

pub(super) fn copy(run: &mut Calling<'_, '_>, [to, from, ..]: [u64; 5]) -> Result<u64, Stop> {
    combine(run, [to, from, from, 0, 0], |word, _| word)
}
