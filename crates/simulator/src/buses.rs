//! Buses, over which CPUs fetch from memory and from each other: who finds one busy waits.
//!
//! A bus carries one thing at a time, and never more than its capacity. It is given in the order of
//! asking. Within an event a CPU runs ahead of the others, so one that asks later may need the bus
//! earlier: it gets the time that is free then.

use crate::cpu::Spent;
use crate::cpus::Cpus;
use crate::time::Time;
use scenario::machine::{Costs, Distance, Machine};
use std::collections::VecDeque;

/// What takes long is carried in up to so many parts, evenly over its time, so that others get the
/// bus in between.
const PARTS_MAX: u64 = 16;

/// What a CPU fetches.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// The CPU that has it; the one that fetches, if it comes from memory.
    pub from: usize,
    /// How much it is.
    pub bytes: u64,
    /// What it takes if the bus is free, which is charged elsewhere.
    pub takes_ns: u64,
    /// How long after the CPU's clock it begins: what is charged with it and comes before.
    pub behind_ns: u64,
}

/// The buses of a machine; none where nobody shares one.
#[derive(Clone, Debug)]
pub struct Buses {
    buses: Vec<Bus>,
    /// The bus of each CPU.
    of_cpu: Vec<usize>,
    line_bytes: u64,
}

impl Buses {
    /// Those of a machine, on which nothing has been carried.
    pub fn new(machine: &Machine, costs: &Costs) -> Buses {
        let cpus = 0..machine.cpus.len();
        let of_cpu: Vec<usize> = cpus.filter_map(|cpu| machine.bus_of(cpu)).collect();
        // A CPU never waits for itself.
        let nr = if of_cpu.len() > 1 { of_cpu.iter().max().map_or(0, |most| most + 1) } else { 0 };
        let mb_per_s = machine.bus.map_or(1, |bus| bus.mb_per_s);
        let buses = (0..nr).map(|_| Bus::new(mb_per_s)).collect();
        Buses { buses, of_cpu, line_bytes: costs.line_bytes }
    }

    /// Whether there are any.
    #[inline]
    pub fn are_there(&self) -> bool {
        !self.buses.is_empty()
    }

    /// The CPU that acts fetches something, and waits for the bus. Within a cache there is no bus.
    #[inline]
    pub fn fetch(&mut self, on: (&mut Cpus, &mut Time), fetch: Fetch) {
        if fetch.bytes > 0 && self.are_there() {
            self.carry(on, fetch);
        }
    }

    #[inline(never)]
    fn carry(&mut self, (cpus, time): (&mut Cpus, &mut Time), fetch: Fetch) {
        let (here, Fetch { from, bytes, takes_ns, behind_ns }) = (time.here(), fetch);
        if from != here && cpus.distance(from, here) < Distance::Node as usize {
            return;
        }
        let ends = [self.of_cpu[here], self.of_cpu[from]];
        // Both buses, if it comes from a CPU on another one.
        let ways = if ends[0] == ends[1] { &ends[..1] } else { &ends[..] };
        ways.iter().for_each(|&bus| self.buses[bus].forget(time.began_ns()));
        let nr_parts = bytes.div_ceil(self.line_bytes).min(PARTS_MAX);
        let begin_ns = time.now_ns() + behind_ns;
        let mut waited_ns = 0;
        for part in 0..nr_parts {
            let part_bytes = bytes * (part + 1) / nr_parts - bytes * part / nr_parts;
            for &bus in ways {
                let at_ns = begin_ns + waited_ns + takes_ns * part / nr_parts;
                waited_ns += self.buses[bus].carry(at_ns, part_bytes);
            }
        }
        time.pass(waited_ns);
        cpus[here].spend(Spent::BusWait, waited_ns);
    }
}

#[derive(Clone, Debug)]
struct Bus {
    mb_per_s: u64,
    /// When it is busy, from and to, in the order of times; it is free between any two.
    busy_ns: VecDeque<(u64, u64)>,
    /// Nobody asks for a time before this any more.
    since_ns: u64,
    /// Of what was carried, what took less than a ns: in thousandths of a byte.
    rest: u64,
}

impl Bus {
    fn new(mb_per_s: u64) -> Bus {
        Bus { mb_per_s, busy_ns: VecDeque::new(), since_ns: 0, rest: 0 }
    }

    /// Forgets what was before, and is not asked for that any more.
    fn forget(&mut self, before_ns: u64) {
        self.since_ns = self.since_ns.max(before_ns);
        while self.busy_ns.front().is_some_and(|&(_, to_ns)| to_ns < self.since_ns) {
            self.busy_ns.pop_front();
        }
    }

    /// Carries so many bytes, from this time on as soon as it is free; by how much that is later
    /// than if it had been free all the time.
    fn carry(&mut self, at_ns: u64, bytes: u64) -> u64 {
        let work = bytes * 1000 + self.rest;
        let takes_ns = work / self.mb_per_s;
        self.rest = work % self.mb_per_s;
        if takes_ns == 0 {
            return 0;
        }
        let end_ns = self.occupy(at_ns.max(self.since_ns), takes_ns);
        end_ns - at_ns - takes_ns
    }

    /// Takes the first so many free ns from this time on; the end of the last of them.
    fn occupy(&mut self, at_ns: u64, takes_ns: u64) -> u64 {
        let first = self.busy_ns.partition_point(|&(_, to_ns)| to_ns < at_ns);
        let (mut end_ns, mut left_ns) = (at_ns, takes_ns);
        let mut behind = first;
        while let Some(&(from_ns, to_ns)) = self.busy_ns.get(behind) {
            let free_ns = from_ns.saturating_sub(end_ns);
            if free_ns >= left_ns {
                break;
            }
            left_ns -= free_ns;
            end_ns = to_ns;
            behind += 1;
        }
        end_ns += left_ns;
        let touches = self.busy_ns.get(behind).is_some_and(|&(from_ns, _)| from_ns == end_ns);
        // All from the first of them on is busy now.
        let joined = self.busy_ns.drain(first..behind + usize::from(touches));
        let (from_ns, to_ns) = joined.fold((at_ns, end_ns), |(from_ns, to_ns), busy| {
            (from_ns.min(busy.0), to_ns.max(busy.1))
        });
        self.busy_ns.insert(first, (from_ns, to_ns));
        end_ns
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a bus carries what it is asked for at the first time that is free, and never more than
    //! it can. Method: closed forms, and a plain model that marks each ns.

    use super::*;

    const NS: u64 = 1000;

    #[test]
    fn who_finds_it_busy_waits_until_it_is_free() {
        let mut bus = Bus::new(1000);
        assert_eq!(bus.carry(100, 50), 0);
        assert_eq!(bus.carry(120, 50), 30, "behind the first");
        assert_eq!(bus.carry(90, 10), 0, "it ends where the first begins");
        assert_eq!(bus.carry(80, 20), 110, "ten before them, ten behind them");
        assert_eq!(bus.busy_ns, [(80, 210)]);
        assert_eq!(bus.carry(300, 10), 0);
        bus.forget(250);
        assert_eq!(bus.busy_ns, [(300, 310)]);
    }

    #[test]
    fn two_that_copy_all_the_time_take_the_longer_of_their_own_time_and_the_buses() {
        // Each copies 100 bytes in 150 ns of its own, again and again.
        for (mb_per_s, cycle_ns) in [(2000, 150), (1334, 150), (1000, 200), (500, 400)] {
            let mut bus = Bus::new(mb_per_s);
            let mut clocks_ns = [0, 0];
            for _ in 0..NS {
                let first = usize::from(clocks_ns[1] < clocks_ns[0]);
                clocks_ns[first] += bus.carry(clocks_ns[first], 100) + 150;
            }
            let each_ns = clocks_ns[0].max(clocks_ns[1]) as f64 / (NS as f64 / 2.0);
            assert!((each_ns - cycle_ns as f64).abs() < 1.0, "{mb_per_s} MB/s: {each_ns} ns");
        }
    }

    #[test]
    fn a_bus_is_not_asked_for_nothing() {
        let mut machine = scenario::random_scenario(1).0;
        let cpu =
            |core| scenario::machine::Cpu { core, cache: core, node: 0, speed_permille: 1000 };
        machine.cpus = (0..2).map(cpu).collect();
        machine.bus = Some(scenario::machine::Bus { caches: 2, mb_per_s: 1000 });
        let (mut cpus, mut time) = (Cpus::new(&machine, &machine.costs), Time::new(2, 1000));
        let mut buses = Buses::new(&machine, &machine.costs);
        let mut fetch = |at_ns, bytes| {
            time.begin(0, at_ns);
            let fetch = Fetch { from: 1, bytes, takes_ns: 0, behind_ns: 0 };
            buses.fetch((&mut cpus, &mut time), fetch);
            (buses.buses[0].since_ns, buses.buses[0].busy_ns.len())
        };
        assert_eq!(fetch(10, 50), (10, 1));
        assert_eq!(fetch(1000, 0), (10, 1));
        assert_eq!(fetch(1000, 1), (1000, 1));
    }

    #[test]
    fn parts_of_a_ns_add_up() {
        let mut bus = Bus::new(3000);
        let end_ns = (0..NS).map(|_| bus.carry(0, 1)).max();
        assert_eq!((bus.busy_ns.make_contiguous(), end_ns), (&mut [(0, 333)][..], Some(332)));
    }

    #[test]
    fn it_is_busy_as_long_as_a_plain_model_says() {
        let mut random = scenario::Random::new(5, 0);
        for _ in 0..200 {
            let (mut bus, mut busy, mut since_ns) = (Bus::new(1000), [false; 8192], 0);
            for _ in 0..60 {
                since_ns += random.below(20);
                bus.forget(since_ns);
                let (at_ns, takes_ns) = (since_ns + random.below(200), 1 + random.below(60));
                let free = (at_ns..).filter(|&ns| !busy[ns as usize]).take(takes_ns as usize);
                let taken: Vec<u64> = free.collect();
                taken.iter().for_each(|&ns| busy[ns as usize] = true);
                let end_ns = taken[taken.len() - 1] + 1;
                assert_eq!(bus.carry(at_ns, takes_ns), end_ns - at_ns - takes_ns);
                assert!(bus.busy_ns.iter().zip(bus.busy_ns.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
