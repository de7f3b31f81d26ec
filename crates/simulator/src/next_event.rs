//! Which event comes next.

use crate::agenda::When;
use crate::changes::BOOT_CPU;
use crate::kernel::Kernel;
use crate::timer::Timer;

impl Kernel<'_> {
    /// The next event and its place: the first of the agenda, or the one that is chosen among
    /// those of its time.
    #[inline]
    pub fn next_event(&mut self) -> (When, usize) {
        if self.choices.is_some() {
            return self.choose_event();
        }
        self.core.time.first()
    }

    /// Events of one CPU keep their order, and what belongs to no CPU comes first.
    #[inline(never)]
    fn choose_event(&mut self) -> (When, usize) {
        let first = self.core.time.first();
        if first.0 == When::NEVER {
            return first;
        }
        let at_ns = first.0.at_ns;
        // When each CPU that has something to do begins with it.
        let mut due: Vec<(When, usize)> = (0..self.core.cpus.len())
            .map(|cpu| (self.core.cpus[cpu].next_event(), cpu))
            .filter(|(when, _)| when.at_ns == at_ns)
            .collect();
        for (when, timer) in self.core.time.timers_due_at(at_ns) {
            let Some(cpu) = self.cpu_of(timer) else {
                return self.bring_forward(when);
            };
            match due.iter_mut().find(|(_, other)| *other == cpu) {
                Some(entry) => entry.0 = entry.0.min(when),
                None => due.push((when, cpu)),
            }
        }
        due.sort_unstable();
        let choices = self.choices.as_mut().expect("there are choices");
        let (when, cpu) = due[choices.choose(due.len())];
        if self.core.cpus[cpu].next_event() == when {
            (when, cpu)
        } else {
            self.bring_forward(when)
        }
    }

    /// Makes the timer that is due `when` the first of all.
    fn bring_forward(&mut self, when: When) -> (When, usize) {
        (self.core.time.bring_forward(when), self.core.time.timers_place())
    }

    /// The CPU that a timer interrupts; none if it interrupts nobody, or not any more.
    pub fn cpu_of(&self, timer: Timer) -> Option<usize> {
        let cpu = match timer {
            Timer::Watchdog | Timer::Speed(_) => return None,
            Timer::Background(source) => {
                let cpu = self.core.background.cpu(source);
                return self.core.cpus[cpu].is_online.then_some(cpu);
            }
            Timer::Change(number) => return Some(self.cpu_of_change(number)),
            Timer::Policy(index, generation) => {
                self.core.policy.maps.expiry_cpu(index, generation)?
            }
            Timer::Start(task)
            | Timer::Sleep(task)
            | Timer::Affinity(task, _)
            | Timer::Move(task, _) => self.core.tasks.seen(task).cpu as usize,
        };
        // Of a CPU that goes another one takes the timers over (`hrtimers_cpu_dying`).
        Some(if self.core.cpus[cpu].is_online { cpu } else { BOOT_CPU })
    }
}
