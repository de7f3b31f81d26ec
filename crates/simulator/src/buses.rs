//! Buses, over which CPUs fetch from memory and from each other: who finds one busy waits.
//!
//! A bus carries one thing at a time, and never more than its capacity. It is given in the order of
//! asking. Within an event a CPU runs ahead of the others, so one that asks later may need the bus
//! earlier: it gets the time that is free then.

use crate::cpu::Spent;
use crate::cpus::Cpus;
use crate::time::Time;
use scenario::machine::{Costs, Distance, Machine};

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
        let nr_parts = bytes.div_ceil(self.line_bytes).min(PARTS_MAX);
        let mut at_ns = time.now_ns() + behind_ns;
        for &bus in ways {
            self.buses[bus].forget(time.began_ns());
            self.buses[bus].begin(at_ns);
        }
        let mut waited_ns = 0;
        let (mut of_bytes, mut of_ns) = (Parts::of(bytes, nr_parts), Parts::of(takes_ns, nr_parts));
        for _ in 0..nr_parts {
            let part_bytes = of_bytes.next();
            for &bus in ways {
                let part_ns = self.buses[bus].carry(at_ns, part_bytes);
                at_ns += part_ns;
                waited_ns += part_ns;
            }
            at_ns += of_ns.next();
        }
        ways.iter().for_each(|&bus| self.buses[bus].end());
        time.pass(waited_ns);
        cpus[here].spend(Spent::BusWait, waited_ns);
    }
}

/// A whole number in parts as equal as can be: of so many, the first n are n / many of it, rounded
/// down.
#[derive(Clone, Copy, Debug)]
struct Parts {
    each: u64,
    rest: u64,
    many: u64,
    carried: u64,
}

impl Parts {
    fn of(whole: u64, many: u64) -> Parts {
        Parts { each: whole / many, rest: whole % many, many, carried: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.carried += self.rest;
        let is_more = self.carried >= self.many;
        self.carried -= if is_more { self.many } else { 0 };
        self.each + u64::from(is_more)
    }
}

/// From and to.
type Interval = (u64, u64);

#[derive(Clone, Debug)]
struct Bus {
    mb_per_s: u64,
    /// When it is busy, in the order of times; it is free between any two.
    busy_ns: Vec<Interval>,
    /// How many of them are over.
    nr_over: usize,
    /// What becomes of those from the first that is changed to the one in front of `next`.
    new_ns: Vec<Interval>,
    changed: usize,
    next: usize,
    /// Nobody asks for a time before this any more.
    since_ns: u64,
    /// Of what was carried, what took less than a ns: in thousandths of a byte.
    rest: u64,
}

/// Intervals that are over stay until they are so many.
const OVER_MAX: usize = 256;

impl Bus {
    fn new(mb_per_s: u64) -> Bus {
        Bus {
            mb_per_s,
            busy_ns: Vec::new(),
            nr_over: 0,
            new_ns: Vec::new(),
            changed: 0,
            next: 0,
            since_ns: 0,
            rest: 0,
        }
    }

    /// Forgets what was before, and is not asked for that any more.
    fn forget(&mut self, before_ns: u64) {
        self.since_ns = self.since_ns.max(before_ns);
        while self.busy_ns.get(self.nr_over).is_some_and(|&(_, to_ns)| to_ns < self.since_ns) {
            self.nr_over += 1;
        }
        if self.nr_over >= OVER_MAX {
            self.busy_ns.drain(..self.nr_over);
            self.nr_over = 0;
        }
    }

    /// Something is carried in parts, none of them before this time.
    #[inline]
    fn begin(&mut self, at_ns: u64) {
        let at_ns = at_ns.max(self.since_ns);
        let current = &self.busy_ns[self.nr_over..];
        self.changed = self.nr_over + current.partition_point(|&(_, to_ns)| to_ns < at_ns);
        self.next = self.changed;
    }

    /// Carries so many bytes, from this time on as soon as it is free, which is no earlier than
    /// that of the part before; by how much that is later than if it had been free all the time.
    #[inline]
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
    #[inline]
    fn occupy(&mut self, at_ns: u64, takes_ns: u64) -> u64 {
        while let Some(&before) = self.busy_ns.get(self.next)
            && before.1 < at_ns
        {
            self.new_ns.push(before);
            self.next += 1;
        }
        // That of the part before, if it reaches up to here.
        let last = self.new_ns.pop_if(|&mut (_, to_ns)| to_ns >= at_ns);
        let (mut from_ns, mut end_ns) = last.unwrap_or((at_ns, at_ns));
        let mut left_ns = takes_ns;
        while let Some(&busy) = self.busy_ns.get(self.next) {
            let free_ns = busy.0.saturating_sub(end_ns);
            if free_ns >= left_ns {
                break;
            }
            left_ns -= free_ns;
            from_ns = from_ns.min(busy.0);
            end_ns = busy.1;
            self.next += 1;
        }
        end_ns += left_ns;
        let touching = self.busy_ns.get(self.next).filter(|busy| busy.0 == end_ns);
        let to_ns = touching.map_or(end_ns, |busy| busy.1);
        self.next += usize::from(touching.is_some());
        self.new_ns.push((from_ns, to_ns));
        end_ns
    }

    /// All parts are carried.
    #[inline]
    fn end(&mut self) {
        let changed = self.changed..self.next;
        if changed.len() == self.new_ns.len() {
            self.busy_ns[changed].copy_from_slice(&self.new_ns);
        } else {
            self.busy_ns.splice(changed, self.new_ns.iter().copied());
        }
        self.new_ns.clear();
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a bus carries what it is asked for at the first time that is free, and never more than
    //! it can. Method: closed forms, and a plain model that marks each ns.

    use super::*;

    const NS: u64 = 1000;

    impl Bus {
        /// Carries something in one part.
        fn carry_at(&mut self, at_ns: u64, bytes: u64) -> u64 {
            self.begin(at_ns);
            let waits_ns = self.carry(at_ns, bytes);
            self.end();
            waits_ns
        }

        fn busy(&self) -> &[Interval] {
            &self.busy_ns[self.nr_over..]
        }
    }

    #[test]
    fn who_finds_it_busy_waits_until_it_is_free() {
        let mut bus = Bus::new(1000);
        assert_eq!(bus.carry_at(100, 50), 0);
        assert_eq!(bus.carry_at(120, 50), 30, "behind the first");
        assert_eq!(bus.carry_at(90, 10), 0, "it ends where the first begins");
        assert_eq!(bus.carry_at(80, 20), 110, "ten before them, ten behind them");
        assert_eq!(bus.busy(), [(80, 210)]);
        assert_eq!(bus.carry_at(300, 10), 0);
        bus.forget(250);
        assert_eq!(bus.busy(), [(300, 310)]);
    }

    #[test]
    fn two_that_copy_all_the_time_take_the_longer_of_their_own_time_and_the_buses() {
        // Each copies 100 bytes in 150 ns of its own, again and again.
        for (mb_per_s, cycle_ns) in [(2000, 150), (1334, 150), (1000, 200), (500, 400)] {
            let mut bus = Bus::new(mb_per_s);
            let mut clocks_ns = [0, 0];
            for _ in 0..NS {
                let first = usize::from(clocks_ns[1] < clocks_ns[0]);
                clocks_ns[first] += bus.carry_at(clocks_ns[first], 100) + 150;
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
        let workload = scenario::workload::Workload::default();
        let mut cpus = Cpus::new(&machine, &machine.costs, &workload);
        let mut time = Time::new(2, 1000, false);
        let mut buses = Buses::new(&machine, &machine.costs);
        let mut fetch = |at_ns, bytes| {
            time.begin(0, at_ns);
            let fetch = Fetch { from: 1, bytes, takes_ns: 0, behind_ns: 0 };
            buses.fetch((&mut cpus, &mut time), fetch);
            (buses.buses[0].since_ns, buses.buses[0].busy().len())
        };
        assert_eq!(fetch(10, 50), (10, 1));
        assert_eq!(fetch(1000, 0), (10, 1));
        assert_eq!(fetch(1000, 1), (1000, 1));
    }

    #[test]
    fn parts_of_a_ns_add_up() {
        let mut bus = Bus::new(3000);
        let end_ns = (0..NS).map(|_| bus.carry_at(0, 1)).max();
        assert_eq!((bus.busy(), end_ns), (&[(0, 333)][..], Some(332)));
    }

    #[test]
    fn parts_are_as_long_as_divisions_say() {
        for (whole, many) in [(0, 1), (5, 1), (100, 16), (7, 16), (4097, 13)] {
            let mut parts = Parts::of(whole, many);
            for part in 0..many {
                let expected = whole * (part + 1) / many - whole * part / many;
                assert_eq!(parts.next(), expected, "part {part} of {whole} in {many}");
            }
        }
    }

    #[test]
    fn it_is_busy_as_long_as_a_plain_model_says() {
        let mut random = scenario::Random::new(5, 0);
        for _ in 0..200 {
            let (mut bus, mut busy, mut since_ns) = (Bus::new(1000), [false; 8192], 0);
            for _ in 0..60 {
                since_ns += random.below(20);
                bus.forget(since_ns);
                let mut at_ns = since_ns + random.below(200);
                bus.begin(at_ns);
                for _ in 0..1 + random.below(5) {
                    let takes_ns = 1 + random.below(20);
                    let free = (at_ns..).filter(|&ns| !busy[ns as usize]).take(takes_ns as usize);
                    let taken: Vec<u64> = free.collect();
                    taken.iter().for_each(|&ns| busy[ns as usize] = true);
                    let end_ns = taken[taken.len() - 1] + 1;
                    assert_eq!(bus.carry(at_ns, takes_ns), end_ns - at_ns - takes_ns);
                    at_ns += random.below(40);
                }
                bus.end();
                let mut pairs = bus.busy().iter().zip(bus.busy().iter().skip(1));
                assert!(pairs.all(|(a, b)| a.1 < b.0));
                let nr_busy = busy.iter().skip(since_ns as usize).filter(|&&busy| busy).count();
                let told = bus.busy().iter().map(|&(from, to)| to - from.max(since_ns));
                assert_eq!(told.sum::<u64>(), nr_busy as u64);
            }
        }
    }
}
