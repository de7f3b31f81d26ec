//! Channels as the kernel makes them: pipes and Unix socket pairs.
//!
//! A channel whose messages take up nothing beside their bytes is a pipe, another one a socket
//! pair. A pipe gets the channel's capacity, rounded up by the kernel to a power of two of pages.
//! A socket gets room for as many messages as the workload says: today's kernels reckon more
//! memory for a message than those that published tables come from, so equal bytes would mean
//! fewer messages and more switches.

use crate::player::error::PlayError;
use crate::system;
use scenario::workload::{Channel, Op, Workload};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The two ends of a channel.
#[derive(Debug)]
pub struct Ends {
    /// Messages go in here.
    pub sending: OwnedFd,
    /// Messages come out here.
    pub receiving: OwnedFd,
}

/// Descriptors that are open beside those of channels.
const OTHER_DESCRIPTORS: u64 = 64;

/// Makes the channels of a workload. Raises the soft limit on descriptors if it must.
///
/// # Errors
/// If the hard limit is too low, or the kernel gives a channel less room than it should have.
pub fn make_channels(workload: &Workload) -> Result<Vec<Ends>, PlayError> {
    allow_descriptors(workload)?;
    let message_bytes = largest_messages(workload);
    let mut reckoned = BTreeMap::new();
    let channels = workload.channels.iter().zip(&message_bytes).enumerate();
    channels
        .map(|(index, (channel, &bytes))| {
            if channel.overhead_bytes == 0 {
                make_pipe(index, channel)
            } else {
                make_socket(index, channel, bytes, &mut reckoned)
            }
        })
        .collect()
}

/// The largest message that is sent through each channel; 0 where none is.
fn largest_messages(workload: &Workload) -> Vec<u32> {
    let mut largest = vec![0; workload.channels.len()];
    for op in workload.templates.iter().flat_map(|template| template.program.iter()) {
        if let Op::Send { channel, bytes } = *op {
            let known = &mut largest[channel as usize];
            *known = bytes.max(*known);
        }
    }
    largest
}

fn allow_descriptors(workload: &Workload) -> Result<(), PlayError> {
    let nr_channels = workload.channels.len();
    let needed = 2 * nr_channels as u64 + OTHER_DESCRIPTORS;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    limit.rlim_cur = needed;
    limit.rlim_max = limit.rlim_max.max(needed);
    // SAFETY: `limit` is valid. Only root may raise the hard limit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let allowed = limit.rlim_max;
    limit.rlim_cur = needed;
    // SAFETY: as above.
    if needed <= allowed && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
        return Ok(());
    }
    Err(PlayError::Descriptors { workload: workload.name.clone(), nr_channels, needed, allowed })
}

fn ends_of(descriptors: [i32; 2]) -> [OwnedFd; 2] {
    // SAFETY: both were just made and nobody else owns them.
    descriptors.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn make_pipe(index: usize, channel: &Channel) -> Result<Ends, PlayError> {
    let mut descriptors = [0; 2];
    // SAFETY: room for two descriptors.
    system::checked(i64::from(unsafe { libc::pipe2(descriptors.as_mut_ptr(), libc::O_CLOEXEC) }))
        .map_err(|errno| PlayError::system("cannot make a pipe", errno))?;
    let [receiving, sending] = ends_of(descriptors);
    if channel.capacity_bytes == 0 {
        // As this kernel makes it.
        return Ok(Ends { sending, receiving });
    }
    let wanted = i32::try_from(channel.capacity_bytes).unwrap_or(i32::MAX);
    // SAFETY: plain numbers on a descriptor that is open.
    let got = unsafe {
        let got = libc::fcntl(sending.as_raw_fd(), libc::F_SETPIPE_SZ, wanted);
        if got >= 0 { got } else { libc::fcntl(sending.as_raw_fd(), libc::F_GETPIPE_SZ) }
    };
    if got < wanted {
        return Err(PlayError::Capacity {
            channel: index,
            wanted_bytes: channel.capacity_bytes.into(),
            got_bytes: got.max(0) as u64,
            hint: "raise fs.pipe-max-size and fs.pipe-user-pages-soft, or play as root",
        });
    }
    Ok(Ends { sending, receiving })
}

/// `reckoned` keeps what the kernel reckons for a message of a size.
fn make_socket(
    index: usize,
    channel: &Channel,
    bytes: u32,
    reckoned: &mut BTreeMap<u32, u64>,
) -> Result<Ends, PlayError> {
    let mut descriptors = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, descriptors.as_mut_ptr()) };
    system::checked(made.into())
        .map_err(|errno| PlayError::system("cannot make a socket pair", errno))?;
    let [sending, receiving] = ends_of(descriptors);
    let ends = Ends { sending, receiving };
    if bytes == 0 {
        return Ok(ends);
    }
    let message_bytes = match reckoned.get(&bytes) {
        Some(&known) => known,
        None => {
            let found = reckoned_bytes(&ends, bytes)
                .map_err(|errno| PlayError::system("cannot try a socket pair", errno))?;
            reckoned.insert(bytes, found);
            found
        }
    };
    let nr_messages =
        u64::from(channel.capacity_bytes) / u64::from(bytes + channel.overhead_bytes).max(1);
    // The kernel lets a message in while less than the limit is in use.
    let wanted_bytes = nr_messages.max(1) * message_bytes - message_bytes / 2;
    let got_bytes = limit_buffer(&ends, wanted_bytes);
    if got_bytes + 2 < wanted_bytes {
        let hint = "raise net.core.wmem_max, or play as root";
        return Err(PlayError::Capacity { channel: index, wanted_bytes, got_bytes, hint });
    }
    Ok(ends)
}

/// What the kernel reckons for a message in the buffer: headers and rounding included.
fn reckoned_bytes(ends: &Ends, bytes: u32) -> Result<u64, i32> {
    let (sending, receiving) = (ends.sending.as_raw_fd(), ends.receiving.as_raw_fd());
    // What is larger than the fresh buffer is only sent in part, and reckoned in proportion.
    let message = vec![0; bytes.min(SENT_AT_ONCE_BYTES) as usize];
    system::write(sending, &message)?;
    let mut used: libc::c_int = 0;
    // SAFETY: TIOCOUTQ is SIOCOUTQ by another name; `used` is a valid place for the answer.
    system::checked(unsafe { libc::ioctl(sending, libc::TIOCOUTQ, &raw mut used) }.into())?;
    let mut left = message;
    system::read(receiving, &mut left)?;
    let used = used.max(1) as u64;
    Ok(used * u64::from(bytes) / left.len() as u64)
}

/// Fits into every kernel's default buffer in one piece.
const SENT_AT_ONCE_BYTES: u32 = 32 << 10;

/// Sets the sending buffer's limit and returns what it became.
fn limit_buffer(ends: &Ends, wanted_bytes: u64) -> u64 {
    let sending = ends.sending.as_raw_fd();
    // The kernel doubles the number it is given.
    let half = i32::try_from(wanted_bytes / 2).unwrap_or(i32::MAX / 2);
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        let mut got: libc::c_int = 0;
        let mut size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: both options are an int; `got` and `size` are valid places for the answer.
        unsafe {
            libc::setsockopt(sending, libc::SOL_SOCKET, option, (&raw const half).cast(), size);
            let level = libc::SOL_SOCKET;
            let answer = (&raw mut got).cast();
            libc::getsockopt(sending, level, libc::SO_SNDBUF, answer, &raw mut size);
        }
        if got as u64 + 2 >= wanted_bytes || option == libc::SO_SNDBUFFORCE {
            return got.max(0) as u64;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    //! Goal: as many messages fit into a channel as the workload says. Method: fill it.
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Messages that fit before a sender would block.
    fn messages_that_fit(ends: &Ends, bytes: usize) -> usize {
        let sending = ends.sending.as_raw_fd();
        // SAFETY: plain numbers on a descriptor that is open.
        unsafe { libc::fcntl(sending, libc::F_SETFL, libc::O_NONBLOCK) };
        let message = vec![0; bytes];
        (0..100_000).take_while(|_| system::write(sending, &message) == Ok(bytes)).count()
    }

    fn channel(capacity_bytes: u32, overhead_bytes: u32) -> Channel {
        Channel {
            capacity_bytes,
            overhead_bytes,
            wake_senders_at_bytes: capacity_bytes / 4,
            sync_wakeups: false,
        }
    }

    #[test]
    fn a_socket_takes_as_many_messages_as_its_capacity_says() {
        // hackbench of 2003: 65535 / (100 + 188).
        for (capacity_bytes, overhead_bytes, bytes) in
            [(65_535, 188, 100), (20_000, 924, 100), (200_000, 500, 3_000)]
        {
            let spec = channel(capacity_bytes, overhead_bytes);
            let ends = make_socket(0, &spec, bytes, &mut BTreeMap::new()).unwrap();
            let expected = (capacity_bytes / (bytes + overhead_bytes)) as usize;
            assert_eq!(messages_that_fit(&ends, bytes as usize), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn a_pipe_takes_its_capacity_in_whole_pages() {
        for (capacity_bytes, expected) in [(65_536, 65_536), (4_096, 4_096), (5_000, 8_192)] {
            let ends = make_pipe(0, &channel(capacity_bytes, 0)).unwrap();
            assert_eq!(messages_that_fit(&ends, 64) * 64, expected);
        }
    }
}
