//! Who ran where, and who was woken up.

use crate::record::{Recordable, put, put_after, put_beside, take, take_after, take_beside};

/// One stay of a task on a CPU: start and end in ns, CPU, pid.
pub type Stay = (u64, u64, u32, u32);

/// One wake-up: when in ns, pid, the CPU that the task was put on, whether it is new.
pub type Wakeup = (u64, u32, u32, bool);

/// CPUs from this on do not fit beside a pid: those of most machines do.
const CPU_FAR: u32 = 15;

impl Recordable for Stay {
    /// The end of the stay before.
    type Before = u64;

    fn write(self, before: &mut u64, bytes: &mut Vec<u8>) {
        let (start_ns, end_ns, cpu, pid) = self;
        put_after(before, end_ns, bytes);
        put(end_ns.wrapping_sub(start_ns), bytes);
        put(u64::from(pid) << 4 | u64::from(cpu.min(CPU_FAR)), bytes);
        if cpu >= CPU_FAR {
            put(u64::from(cpu - CPU_FAR), bytes);
        }
    }

    fn read(before: &mut u64, bytes: &mut &[u8]) -> Self {
        let end_ns = take_after(before, bytes);
        let start_ns = end_ns.wrapping_sub(take(bytes));
        let both = take(bytes);
        let near = (both & 15) as u32;
        let cpu = if near < CPU_FAR { near } else { CPU_FAR + take(bytes) as u32 };
        (start_ns, end_ns, cpu, (both >> 4) as u32)
    }
}

impl Recordable for Wakeup {
    /// When the wake-up before was.
    type Before = u64;

    fn write(self, before: &mut u64, bytes: &mut Vec<u8>) {
        let (at_ns, pid, cpu, is_new) = self;
        put_beside(u8::from(is_new), before, at_ns, bytes);
        put(u64::from(pid), bytes);
        put(u64::from(cpu), bytes);
    }

    fn read(before: &mut u64, bytes: &mut &[u8]) -> Self {
        let (is_new, at_ns) = take_beside(before, bytes);
        (at_ns, take(bytes) as u32, take(bytes) as u32, is_new != 0)
    }
}
