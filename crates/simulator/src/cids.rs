//! The places of CPUs in the topology, cids, and sets of them in a policy's arena. CPUs of a core,
//! of a cache and of a node have places next to each other.
//!
//! Source: Linux 7.3, kernel/sched/ext/cid.c (`scx_cid_init`) and types.h (`struct scx_cmask`).

use bytecode::{Arena, PAGE_BYTES, Size};
use scenario::machine::Cpu;
use std::collections::BTreeMap;

/// Cids of a shard where the policy does not say how many. Source: `SCX_CID_SHARD_SIZE_DFL`.
const SHARD_SIZE_DEFAULT: u32 = 24;
/// The most of them. Source: `SCX_CID_SHARD_MAX_CPUS`.
const SHARD_SIZE_MAX: u32 = 512;
/// Pages that the kernel takes at once. Source: arena.c, `SCX_ARENA_GROW_PAGES`.
const PAGES_TAKEN: u32 = 4;
/// Bytes of a set before its words.
pub const HEADER_BYTES: u64 = 16;

/// `struct scx_cid_topo`: for core, cache, node and shard of a cid the first cid that is in the
/// same one, and the number of that one; -1 where that is not known.
pub type Topology = [i32; 8];

const NOWHERE: [i32; 2] = [-1; 2];

/// The cids of a machine's CPUs.
#[derive(Debug, Default)]
pub struct Cids {
    /// By cid.
    cpus: Vec<usize>,
    /// By CPU.
    cids: Vec<usize>,
    /// By cid.
    topology: Vec<Topology>,
    /// Whether the policy may ask for them, and not only change them.
    pub is_published: bool,
}

impl Cids {
    /// Those of these CPUs: what is online first, as the topology has it, then the others.
    /// `shard_size` is `ops.cid_shard_size`. O(CPUs x log CPUs).
    pub fn new(cpus: &[Cpu], is_online: impl Fn(usize) -> bool, shard_size: u32) -> Cids {
        let shard_size = if shard_size == 0 { SHARD_SIZE_DEFAULT } else { shard_size };
        let shard_size = shard_size as usize;
        let cids = Cids { cids: vec![0; cpus.len()], ..Cids::default() };
        let mut making = Making { cpus, cids, shard_size, nr_units: [0; 4] };
        let (online, offline) = (0..cpus.len()).partition(|&cpu| is_online(cpu));
        for of_node in groups(online, |cpu| cpus[cpu].node) {
            let node = making.unit(Level::Node);
            for of_cache in groups(of_node, |cpu| cpus[cpu].cache) {
                making.add_cache(of_cache, node);
            }
        }
        making.add_offline(offline);
        making.cids
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// The CPU of a cid, if there is such a one.
    pub fn cpu(&self, cid: i32) -> Option<usize> {
        usize::try_from(cid).ok().and_then(|cid| self.cpus.get(cid).copied())
    }

    /// The cid of a CPU of the machine.
    pub fn cid(&self, cpu: usize) -> usize {
        self.cids[cpu]
    }

    /// Where a CPU is in the topology.
    pub fn topology(&self, cpu: usize) -> Topology {
        self.topology[self.cids[cpu]]
    }

    /// Bits of the cids from a multiple of 64 on whose CPUs are wanted.
    pub fn word(&self, number: usize, is_wanted: impl Fn(usize) -> bool) -> u64 {
        let of_word = self.cpus.iter().skip(64 * number).take(64).enumerate();
        of_word.fold(0, |word, (bit, &cpu)| word | u64::from(is_wanted(cpu)) << bit)
    }

    /// Takes the cids of CPUs as a policy has them, and the first cid of each shard
    /// (`scx_bpf_cid_override`).
    ///
    /// # Errors
    ///
    /// What the kernel says of such ones; nothing is changed then.
    pub fn replace(&mut self, cids: &[i32], shards: &[i32]) -> Result<(), String> {
        let nr = self.len() as i32;
        self.check_shards(shards)?;
        let mut cpus = vec![None; self.len()];
        for (cpu, &cid) in cids.iter().enumerate() {
            let place = usize::try_from(cid).ok().and_then(|cid| cpus.get_mut(cid));
            let place = place.ok_or_else(|| format!("invalid cid {cid}"))?;
            if place.replace(cpu).is_some() {
                return Err(format!("cid {cid} assigned to multiple cpus"));
            }
        }
        self.cpus = cpus.into_iter().flatten().collect();
        self.cids = cids.iter().map(|&cid| cid as usize).collect();
        let shard_of = |cid| shards.partition_point(|&first| first <= cid) - 1;
        self.topology = (0..nr)
            .map(|cid| {
                let shard = [shards[shard_of(cid)], shard_of(cid) as i32];
                joined([NOWHERE, NOWHERE, NOWHERE, shard])
            })
            .collect();
        Ok(())
    }

    fn check_shards(&self, shards: &[i32]) -> Result<(), String> {
        let (nr, most) = (self.len() as i32, SHARD_SIZE_MAX as i32);
        let said = |what: String| Err(format!("scx_bpf_cid_override: {what}"));
        if shards.is_empty() || shards.len() > self.len() {
            return said(format!("invalid shard_start count {}", shards.len()));
        }
        if shards[0] != 0 {
            return said(format!("shard_start[0] must be 0, got {}", shards[0]));
        }
        for (at, pair) in (1..).zip(shards.windows(2)) {
            let (before, first) = (pair[0], pair[1]);
            if first <= before {
                return said(format!("shard_start not increasing at [{at}]"));
            }
            if first >= nr {
                return said(format!("shard_start[{at}]={first} >= {nr}"));
            }
            if first - before > most {
                let span = first - before;
                return said(format!("shard[{}] span {span} exceeds max {most}", at - 1));
            }
        }
        let last = shards.len() - 1;
        let span = nr - shards[last];
        if span > most {
            return said(format!("shard[{last}] span {span} exceeds max {most}"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Level {
    Core,
    Cache,
    Node,
    Shard,
}

fn joined(units: [[i32; 2]; 4]) -> Topology {
    let mut topology = [0; 8];
    topology.iter_mut().zip(units.as_flattened()).for_each(|(to, from)| *to = *from);
    topology
}

/// Cids that are given out one after the other.
struct Making<'a> {
    cpus: &'a [Cpu],
    cids: Cids,
    shard_size: usize,
    /// Units of each level that there are.
    nr_units: [i32; 4],
}

impl Making<'_> {
    /// A unit that begins with the next cid: that, and the number of the unit.
    fn unit(&mut self, level: Level) -> [i32; 2] {
        let number = &mut self.nr_units[level as usize];
        *number += 1;
        [self.cids.cpus.len() as i32, *number - 1]
    }

    fn add(&mut self, cpu: usize, units: [[i32; 2]; 4]) {
        self.cids.cids[cpu] = self.cids.cpus.len();
        self.cids.cpus.push(cpu);
        self.cids.topology.push(joined(units));
    }

    /// The cores of a cache, spread over as few shards as evenly as can be: the first of these have
    /// a core more.
    fn add_cache(&mut self, cpus: Vec<usize>, node: [i32; 2]) {
        let most_cids = self.shard_size.min(SHARD_SIZE_MAX as usize);
        let nr_shards = cpus.len().div_ceil(most_cids);
        let cores = groups(cpus, |cpu| self.cpus[cpu].core);
        let (cores_each, nr_large) = (cores.len() / nr_shards, cores.len() % nr_shards);
        let (cache, mut shard) = (self.unit(Level::Cache), self.unit(Level::Shard));
        let (mut number, mut nr_cores, mut nr_cids) = (0, 0, 0);
        for core in cores {
            let most = cores_each + usize::from(number < nr_large);
            if nr_cores > 0 && (nr_cores >= most || nr_cids + core.len() > most_cids) {
                (number, nr_cores, nr_cids) = (number + 1, 0, 0);
                shard = self.unit(Level::Shard);
            }
            (nr_cores, nr_cids) = (nr_cores + 1, nr_cids + core.len());
            let of_core = self.unit(Level::Core);
            for cpu in core {
                self.add(cpu, [of_core, cache, node, shard]);
            }
        }
    }

    /// CPUs of which the topology is not known.
    fn add_offline(&mut self, cpus: Vec<usize>) {
        for cpus in cpus.chunks(self.shard_size.min(SHARD_SIZE_MAX as usize)) {
            let shard = self.unit(Level::Shard);
            for &cpu in cpus {
                self.add(cpu, [NOWHERE, NOWHERE, NOWHERE, shard]);
            }
        }
    }
}

/// CPUs with the same `part` together, in the order of the first of each.
fn groups(cpus: Vec<usize>, part: impl Fn(usize) -> u32) -> Vec<Vec<usize>> {
    let (mut all, mut numbers) = (Vec::<Vec<usize>>::new(), BTreeMap::new());
    for cpu in cpus {
        let number = *numbers.entry(part(cpu)).or_insert(all.len());
        if number == all.len() {
            all.push(vec![]);
        }
        all[number].push(cpu);
    }
    all
}

// ---- sets --------------------------------------------------------------------------------------

/// Sets of cids that the kernel has in the policy's arena.
#[derive(Debug, Default)]
pub struct KernelMasks {
    /// What an operation on each CPU is given.
    pub of_cpus: Vec<u64>,
    /// Those that are online; 0 as long as there is none.
    pub online: u64,
}

impl KernelMasks {
    /// Takes room for those of a machine, as the kernel does (`scx_arena_alloc`), if there is any.
    pub fn new(arena: &mut Arena, nr_cpus: usize) -> Option<KernelMasks> {
        let (bytes, pages) = KernelMasks::sizes(nr_cpus);
        let (mut next, mut left) = (0, 0);
        let mut take = || {
            if left < bytes {
                (next, left) = (arena.allocate(0, pages), u64::from(pages) * PAGE_BYTES);
            }
            let taken = (next != 0).then_some(next);
            (next, left) = (next + bytes, left - bytes);
            taken
        };
        let of_cpus = (0..nr_cpus).map(|_| take()).collect::<Option<Vec<u64>>>()?;
        Some(KernelMasks { of_cpus, online: take()? })
    }

    /// Bytes of one, and pages that are taken at once.
    fn sizes(nr_cpus: usize) -> (u64, u32) {
        let bytes = HEADER_BYTES + 8 * words_of(nr_cpus as u64);
        (bytes, PAGES_TAKEN.max(bytes.div_ceil(PAGE_BYTES) as u32))
    }

    /// How many pages they take together: one for each CPU, and that of those online.
    pub fn pages(nr_cpus: usize) -> u64 {
        let (bytes, pages) = KernelMasks::sizes(nr_cpus);
        let at_once = u64::from(pages) * PAGE_BYTES / bytes;
        (nr_cpus as u64 + 1).div_ceil(at_once) * u64::from(pages)
    }
}

/// Words that a set of so many cids has, wherever it begins. Source: `SCX_CMASK_NR_WORDS`.
fn words_of(nr_cids: u64) -> u64 {
    nr_cids.div_ceil(64) + 1
}

/// Writes the set of all cids whose CPUs are wanted, with its header.
pub fn write_mask(arena: &mut Arena, begin: u64, cids: &Cids, is_wanted: impl Fn(usize) -> bool) {
    let nr_words = words_of(cids.len() as u64);
    for (at, number) in [(4, cids.len() as u64), (0, 0), (8, nr_words)] {
        arena.write(begin + at, Size::Word, number);
    }
    for word in 0..cids.len().div_ceil(64) {
        let at = begin + HEADER_BYTES + 8 * word as u64;
        arena.write(at, Size::Double, cids.word(word, &is_wanted));
    }
}

/// Puts a cid into a set of which these are the words, or takes it out.
pub fn put_bit(arena: &mut Arena, words: u64, cid: u64, is_in: bool) {
    let (at, bit) = (words.wrapping_add(8 * (cid / 64)), 1 << (cid % 64));
    let before = arena.read(at, Size::Double);
    arena.write(at, Size::Double, if is_in { before | bit } else { before & !bit });
}

/// A set of cids of the policy's: where the word of cid 0 would be, its first cid, and how many it
/// may have. Source: `scx_cmask_ref_init`.
pub fn mask_at(arena: &Arena, begin: u64, nr_cids: u64) -> Option<(u64, u64, u64)> {
    let word = |at| arena.read(begin.wrapping_add(at), Size::Word);
    let (base, nr, nr_words) = (word(0), word(4), word(8));
    let is_within = base < nr_cids && nr <= nr_cids - base && words_of(nr) <= nr_words;
    let words = begin.wrapping_add(HEADER_BYTES).wrapping_sub(8 * (base / 64));
    is_within.then_some((words, base, nr))
}

#[cfg(test)]
mod tests {
    //! Goal: cids are as the kernel counts them. Method: what must hold on random machines, and a
    //! few that were counted by hand.

    use super::*;
    use scenario::draw::Random;

    fn cpu(core: u32, cache: u32, node: u32) -> Cpu {
        Cpu { core, cache, node, speed_permille: 1000 }
    }

    #[test]
    fn threads_of_a_core_stand_together_and_offline_cpus_last() {
        // Two caches of two cores of two threads, the threads of a core four CPUs apart.
        let cpus: Vec<Cpu> = (0..8).map(|n| cpu(n % 4, n % 4 / 2, 0)).collect();
        let cids = Cids::new(&cpus, |cpu| cpu != 5, 0);
        let order: Vec<usize> = (0..8).map(|cid| cids.cpu(cid).expect("a cid")).collect();
        assert_eq!(order, [0, 4, 1, 2, 6, 3, 7, 5]);
        assert_eq!(cids.topology(6), [3, 2, 3, 1, 0, 0, 3, 1]);
        assert_eq!(cids.topology(5), [-1, -1, -1, -1, -1, -1, 7, 2]);
        assert_eq!((cids.cpu(8), cids.cpu(-1)), (None, None));
    }

    #[test]
    fn a_cache_is_cut_into_shards_of_equally_many_cores() {
        let first_of = |nr: u32, size| {
            let cpus: Vec<Cpu> = (0..nr).map(|n| cpu(n / 2, 0, 0)).collect();
            let cids = Cids::new(&cpus, |_| true, size);
            let mut firsts: Vec<i32> = (0..nr).map(|n| cids.topology(n as usize)[6]).collect();
            firsts.dedup();
            firsts
        };
        assert_eq!(first_of(64, 0), [0, 22, 44]);
        assert_eq!(first_of(24, 0), [0]);
        assert_eq!(first_of(10, 4), [0, 4, 8]);
        assert_eq!(first_of(6, 1), [0, 2, 4]);
        assert_eq!(first_of(1100, 4096).len(), 3);
    }

    #[test]
    fn units_hold_cids_without_a_gap() {
        for seed in 0..200 {
            let mut random = Random::new(seed, 0);
            let nr = 1 + random.next_u64() as u32 % 130;
            let threads = 1 + random.next_u64() as u32 % 4;
            let (per_cache, per_node) = (1 + random.next_u64() as u32 % 9, 1 + seed as u32 % 3);
            let of = |n: u32| {
                let (core, cache) = (n / threads, n / threads / per_cache);
                cpu(core, cache, cache / per_node)
            };
            let cpus: Vec<Cpu> = (0..nr).map(of).collect();
            let offline = random.next_u64() as usize % 7;
            let size = random.next_u64() as u32 % 9;
            let cids = Cids::new(&cpus, |cpu| cpu % 7 != offline, size);
            let mut before: Topology = [-1; 8];
            for cid in 0..nr as i32 {
                let own = cids.cpu(cid).expect("a cid");
                assert_eq!(cids.cid(own), cid as usize, "seed {seed}");
                let topology = cids.topology(own);
                for (unit, before) in topology.chunks(2).zip(before.chunks(2)) {
                    let begins = unit[0] == cid && unit[1] == before[1] + 1;
                    let is_known = unit[0] >= 0;
                    assert!(begins || unit == before || !is_known, "seed {seed}, cid {cid}");
                }
                before = topology;
            }
        }
    }

    #[test]
    fn an_order_that_is_none_is_told_and_changes_nothing() {
        let cpus: Vec<Cpu> = (0..4).map(|n| cpu(n, 0, 0)).collect();
        let mut cids = Cids::new(&cpus, |_| true, 0);
        let what = "scx_bpf_cid_override: ";
        for (order, shards, said) in [
            ([0, 1, 1, 3], &[0][..], "cid 1 assigned to multiple cpus".to_owned()),
            ([0, 1, 2, 4], &[0], "invalid cid 4".to_owned()),
            ([0, -1, 2, 3], &[0], "invalid cid -1".to_owned()),
            ([0, 1, 2, 3], &[], format!("{what}invalid shard_start count 0")),
            ([0, 1, 2, 3], &[1], format!("{what}shard_start[0] must be 0, got 1")),
            ([0, 1, 2, 3], &[0, 2, 2], format!("{what}shard_start not increasing at [2]")),
            ([0, 1, 2, 3], &[0, 4], format!("{what}shard_start[1]=4 >= 4")),
        ] {
            assert_eq!(cids.replace(&order, shards), Err(said));
            assert_eq!((cids.cid(2), cids.topology(2)[0]), (2, 2));
        }
        assert_eq!(cids.replace(&[3, 0, 2, 1], &[0, 3]), Ok(()));
        assert_eq!((cids.cpu(3), cids.cid(1)), (Some(0), 0));
        assert_eq!(cids.topology(0), [-1, -1, -1, -1, -1, -1, 3, 1]);
        assert_eq!(cids.word(0, |cpu| cpu < 2), 0b1001);
    }

    #[test]
    fn a_set_says_its_cids_and_the_kernels_lie_apart() {
        assert_eq!(KernelMasks::pages(300), 8);
        let mut arena = Arena::new(0, 12).expect("addresses");
        let masks = KernelMasks::new(&mut arena, 300).expect("room");
        let mut all = masks.of_cpus.clone();
        all.push(masks.online);
        let bytes = HEADER_BYTES + 8 * words_of(300);
        assert!(all.windows(2).all(|pair| pair[1] >= pair[0] + bytes));
        assert!(KernelMasks::new(&mut arena, 300).is_none());
        let cpus: Vec<Cpu> = (0..300).map(|n| cpu(n, 0, 0)).collect();
        let cids = Cids::new(&cpus, |_| true, 0);
        write_mask(&mut arena, masks.online, &cids, |cpu| cpu % 3 == 0);
        assert_eq!(mask_at(&arena, masks.online, 300), Some((masks.online + 16, 0, 300)));
        assert_eq!(mask_at(&arena, masks.online, 299), None);
        put_bit(&mut arena, masks.online + 16, 64, true);
        put_bit(&mut arena, masks.online + 16, 66, false);
        // 64 and 66 are there, or not; of the others each third, as 69.
        assert_eq!(arena.read(masks.online + 24, Size::Double) & 0x3f, 0b10_0001);
    }
}
