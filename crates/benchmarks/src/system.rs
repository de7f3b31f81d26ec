//! The system calls that a play is made of, each with what makes it sound.
//!
//! After a fork from a program with many threads only calls that allocate nothing are safe; none
//! of these does.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Number of the last system call's error.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// `Ok` where a call returned 0 or more, else its error number.
pub fn checked(returned: i64) -> Result<i64, i32> {
    if returned < 0 { Err(errno()) } else { Ok(returned) }
}

// ---- clocks -------------------------------------------------------------------------------------

/// Time of a clock in ns; 0 if there is no such clock.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall time since boot in ns.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in ns.
pub fn cpu_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock of a process's CPU time. Source: clock_getcpuclockid(3), the kernel's
/// `make_process_cpuclock`.
pub fn cpu_clock_of(pid: i32) -> libc::clockid_t {
    const CPUCLOCK_SCHED: i32 = 2;
    (!pid << 3) | CPUCLOCK_SCHED
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Sleeps for so many ns, whatever signals come.
pub fn sleep_ns(ns: u64) {
    let mut left = timespec(ns);
    // SAFETY: both point to the same valid structure, which the call allows.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const left, &raw mut left) }
        == libc::EINTR
    {}
}

/// Sleeps until this time of [`now_ns`], whatever signals come.
pub fn sleep_until_ns(at_ns: u64) {
    let until = timespec(at_ns);
    let flags = libc::TIMER_ABSTIME;
    // SAFETY: `until` is valid; an absolute sleep leaves no rest to be written.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &raw const until, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

// ---- futexes ------------------------------------------------------------------------------------

/// All waiters of a word.
pub const EVERY_BIT: u32 = u32::MAX;

/// Sleeps while `word` is `seen`, until a wake-up of one of `bits`, a signal, or the deadline on
/// `CLOCK_MONOTONIC`. May also return for no reason: callers look again.
pub fn futex_wait(word: &AtomicU32, seen: u32, bits: u32, deadline_ns: Option<u64>) {
    let deadline = timespec(deadline_ns.unwrap_or(0));
    let until = if deadline_ns.is_some() { &raw const deadline } else { std::ptr::null() };
    // SAFETY: `word` is a live, aligned u32 and `until` null or valid.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            seen,
            until,
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

/// Wakes all who wait for `word` with one of `bits`.
pub fn futex_wake(word: &AtomicU32, bits: u32) {
    // SAFETY: `word` is a live, aligned u32.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE_BITSET,
            i32::MAX,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

// ---- processes and threads ----------------------------------------------------------------------

/// Which side of a fork the caller is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The old process; the new one has this pid.
    Parent(i32),
    /// The new process.
    Child,
}

/// Makes a process. In the child only functions of this file, shared memory and what was
/// allocated before may be used if the caller's program may have more than one thread.
pub fn fork() -> Result<Fork, i32> {
    // SAFETY: the children of this crate keep to the rule above.
    match checked(i64::from(unsafe { libc::fork() }))? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as i32)),
    }
}

/// Stack of a thread: programs are interpreted in a few frames.
const STACK_BYTES: usize = 128 << 10;

/// Starts a detached thread of the calling process.
pub fn start_thread(
    run: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    argument: usize,
) -> Result<(), i32> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    let mut thread = std::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before use and destroyed once; `run` takes the
    // argument as a number and never as an address.
    unsafe {
        libc::pthread_attr_init(attributes);
        libc::pthread_attr_setstacksize(attributes, STACK_BYTES);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        let error = libc::pthread_create(
            thread.as_mut_ptr(),
            attributes,
            run,
            argument as *mut libc::c_void,
        );
        libc::pthread_attr_destroy(attributes);
        if error == 0 { Ok(()) } else { Err(error) }
    }
}

/// Ends the calling process at once, without the program's own endings.
pub fn exit_process(code: i32) -> ! {
    // SAFETY: always sound; nothing is run or written on the way out.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread only; the process goes on with its others.
pub fn exit_first_thread() -> ! {
    // SAFETY: the caller is the first thread, whose stack nobody gives back.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    exit_process(0)
}

/// The calling process.
pub fn pid() -> i32 {
    // SAFETY: always succeeds.
    unsafe { libc::getpid() }
}

/// The calling process's parent.
pub fn parent_pid() -> i32 {
    // SAFETY: always succeeds.
    unsafe { libc::getppid() }
}

/// The calling thread, as traces name it.
pub fn tid() -> i32 {
    // SAFETY: always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Whether the thread is there still, as a zombie perhaps.
pub fn exists(pid: i32, tid: i32) -> bool {
    // SAFETY: signal 0 is not delivered to anybody.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) == 0 || errno() != libc::ESRCH }
}

/// Sends a signal to a process, or to a group if `pid` is negative.
pub fn send_signal(pid: i32, signal: i32) {
    // SAFETY: any number is allowed; an absent process is no error that matters here.
    unsafe { libc::kill(pid, signal) };
}

/// Waits for any child. `Ok(None)`: none has ended yet (only without `block`).
///
/// Errors with `ECHILD` when there is no child left.
pub fn reap(block: bool) -> Result<Option<(i32, i32)>, i32> {
    let mut status = 0;
    let flags = if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is a valid place for the answer.
        match checked(i64::from(unsafe { libc::waitpid(-1, &raw mut status, flags) })) {
            Ok(0) => return Ok(None),
            Ok(pid) => return Ok(Some((pid as i32, status))),
            Err(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits up to `timeout_ms` for this child to end and returns its status if it did.
pub fn reap_child(pid: i32, timeout_ms: i32) -> Result<Option<i32>, i32> {
    // SAFETY: plain numbers; the descriptor is closed below.
    let descriptor = checked(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })? as i32;
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let mut status = 0;
    // SAFETY: one valid pollfd; the descriptor is ours and closed once; `status` is valid.
    unsafe {
        libc::poll(&raw mut poll, 1, timeout_ms);
        libc::close(descriptor);
        match checked(i64::from(libc::waitpid(pid, &raw mut status, libc::WNOHANG))) {
            Ok(0) | Err(libc::EINTR) => Ok(None),
            Ok(_) => Ok(Some(status)),
            Err(error) => Err(error),
        }
    }
}

/// Puts a process into a group; 0 is the caller, or a group of its own.
pub fn join_group(pid: i32, group: i32) -> Result<(), i32> {
    // SAFETY: plain numbers.
    checked(i64::from(unsafe { libc::setpgid(pid, group) })).map(drop)
}

/// Process-wide switches of prctl(2) that take one number.
pub fn set_process(option: i32, value: u64) {
    // SAFETY: only options that take a number are given (see callers).
    unsafe { libc::prctl(option, value, 0, 0, 0) };
}

/// What a signal does: `SIG_DFL`, `SIG_IGN` or a handler that is safe in signals.
pub fn on_signal(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: a zeroed sigaction is valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // SAFETY: `action` is valid; handlers of this crate only store into atomics.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Lets every signal through.
pub fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by sigemptyset.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Sleeps until a signal comes.
pub fn pause() {
    // SAFETY: no arguments.
    unsafe { libc::pause() };
}

// ---- how a task is scheduled --------------------------------------------------------------------

/// Names the calling thread; at most 15 bytes.
pub fn set_name(name: &[u8; 16]) {
    // SAFETY: 16 bytes, the last of which is 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Gives the calling thread a nice value.
pub fn set_nice(nice: i32) -> Result<(), i32> {
    // SAFETY: 0 is the calling thread.
    checked(i64::from(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })).map(drop)
}

/// Puts the calling thread into a scheduling class; whether its children follow is a flag.
pub fn set_class(class: i32, priority: i32) -> Result<(), i32> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread; `parameters` is valid.
    let returned = unsafe { libc::sched_setscheduler(0, class, &raw const parameters) };
    checked(i64::from(returned)).map(drop)
}

/// A set of CPUs as the kernel takes it: 1024 of them.
pub type Cpus = [u64; 16];

/// CPUs that the calling thread may run on.
pub fn affinity() -> Result<Cpus, i32> {
    let mut cpus: Cpus = [0; 16];
    // SAFETY: the kernel writes at most the size it is given.
    checked(unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, 0, size_of::<Cpus>(), cpus.as_mut_ptr())
    })?;
    Ok(cpus)
}

/// Says which CPUs the calling thread may run on.
pub fn set_affinity(cpus: &Cpus) -> Result<(), i32> {
    set_affinity_of(0, cpus)
}

/// Says which CPUs a thread may run on; 0 is the calling one.
pub fn set_affinity_of(tid: i32, cpus: &Cpus) -> Result<(), i32> {
    // SAFETY: the kernel reads the size it is given.
    checked(unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of::<Cpus>(), cpus.as_ptr())
    })
    .map(drop)
}

/// sched_yield.
pub fn give_way() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Voluntary and involuntary switches of the calling thread so far.
pub fn switches() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for the answer, and zeroes are a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

// ---- bytes --------------------------------------------------------------------------------------

/// A writable piece of private memory of the calling process, given back when it ends.
pub fn private_memory(bytes: usize) -> Result<&'static mut [u8], i32> {
    // SAFETY: a new anonymous mapping of its own; nobody unmaps it, so it lives for ever.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if address == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(std::slice::from_raw_parts_mut(address.cast(), bytes))
    }
}

/// Memory that processes forked from its maker share: zeroes at first, taken as it is touched.
#[derive(Debug)]
pub struct SharedMemory {
    address: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: it only says where the memory lies; who makes references into it says why that is sound.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// So many bytes.
    ///
    /// # Errors
    /// The kernel's error number if it has no room for the mapping.
    pub fn new(bytes: usize) -> Result<SharedMemory, i32> {
        // SAFETY: a new anonymous mapping; it is given back in `drop`.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED { Err(errno()) } else { Ok(SharedMemory { address, bytes }) }
    }

    /// All of it, as words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page and lives as long as `self`; any bytes are words,
        // and other processes reach them through atomics only.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / size_of::<u64>()) }
    }

    /// Number `index` of the values that begin `at` bytes from the start of a page.
    ///
    /// # Panics
    /// If it does not lie in the memory.
    ///
    /// # Safety
    /// Zeroes must be a `T`, `T` must hold nothing but atomics, and `at` must be the place of such
    /// values and of no others, aligned as they are.
    pub unsafe fn get<T>(&self, at: usize, index: usize) -> &T {
        let end = size_of::<T>().checked_mul(index + 1).and_then(|bytes| bytes.checked_add(at));
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "value {index} at {at} of {}",
            self.bytes
        );
        // SAFETY: it lies in the mapping, which lives as long as `self`; the rest is the caller's.
        unsafe { &*self.address.byte_add(at).cast::<T>().add(index) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

/// Makes two sockets: whoever reads from one sees its end when nobody holds the other any more.
pub fn socket_pair() -> Result<(i32, i32), i32> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    checked(i64::from(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }))?;
    Ok((ends[0], ends[1]))
}

/// Opens a file that is there for writing; whoever is forked has it, too.
pub fn open_to_write(path: &std::path::Path) -> Result<i32, i32> {
    let file = std::fs::File::options().write(true).open(path);
    file.map(std::os::fd::IntoRawFd::into_raw_fd).map_err(|error| error.raw_os_error().unwrap_or(0))
}

/// Closes a descriptor that the caller has from [`socket_pair`], or its process's parent had.
pub fn close(descriptor: i32) {
    // SAFETY: a plain number; the caller owns it and forgets it.
    unsafe { libc::close(descriptor) };
}

/// Reads what is there, waiting for at least a byte.
pub fn read(descriptor: i32, into: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: `into` is valid for its length.
    checked(unsafe { libc::read(descriptor, into.as_mut_ptr().cast(), into.len()) } as i64)
        .map(|bytes| bytes as usize)
}

/// Writes, waiting for room, and returns how much was written.
pub fn write(descriptor: i32, from: &[u8]) -> Result<usize, i32> {
    // SAFETY: `from` is valid for its length.
    checked(unsafe { libc::write(descriptor, from.as_ptr().cast(), from.len()) } as i64)
        .map(|bytes| bytes as usize)
}

// ---- timers -------------------------------------------------------------------------------------

/// A timer of `CLOCK_MONOTONIC` as a descriptor.
pub fn timer() -> Result<i32, i32> {
    // SAFETY: plain numbers.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    checked(i64::from(descriptor)).map(|descriptor| descriptor as i32)
}

/// Arms a timer that the caller has from [`timer`], anew if it was; else the system's error.
pub fn arm(timer: i32, in_ns: u64) -> Result<(), i32> {
    let once = libc::itimerspec { it_interval: timespec(0), it_value: timespec(in_ns) };
    // SAFETY: `once` is valid, and nobody asks for the time that was left.
    let done = unsafe { libc::timerfd_settime(timer, 0, &raw const once, std::ptr::null_mut()) };
    checked(i64::from(done)).map(drop)
}
