//! How many processors a guest has, and how they lie.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A number of CPUs that cannot be.
#[derive(Debug, Error)]
#[error(
    "CPUs: {given:?} {why}\n\
     hint: N, or N,SOCKETS,CORES,THREADS, as in 8,2,2,2"
)]
pub struct CpusError {
    /// What was given.
    given: String,
    /// What is wrong with it.
    why: String,
}

/// Processors of a guest: sockets of cores of hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Sockets, which share nothing.
    pub sockets: u32,
    /// Cores of a socket, which share its last-level cache.
    pub cores: u32,
    /// Hardware threads of a core.
    pub threads: u32,
}

/// Most that QEMU's `pc` machine takes.
const CPUS_MAX: u32 = 255;

impl Cpus {
    /// This many cores in one socket.
    pub fn count(cores: u32) -> Cpus {
        Cpus { sockets: 1, cores, threads: 1 }
    }

    /// How many the guest's kernel sees.
    pub fn total(&self) -> u32 {
        self.sockets * self.cores * self.threads
    }
}

impl FromStr for Cpus {
    type Err = CpusError;

    /// Reads `N`, or `N,SOCKETS,CORES,THREADS` whose product is N.
    fn from_str(text: &str) -> Result<Cpus, CpusError> {
        let bad = |why: String| CpusError { given: text.to_owned(), why };
        let numbers: Result<Vec<u32>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        let numbers = numbers.map_err(|_| bad("is not one number, or four".to_owned()))?;
        let (total, cpus) = match numbers[..] {
            [total] => (total, Cpus::count(total)),
            [total, sockets, cores, threads] => (total, Cpus { sockets, cores, threads }),
            _ => return Err(bad("is not one number, or four".to_owned())),
        };
        let product = u64::from(cpus.sockets) * u64::from(cpus.cores) * u64::from(cpus.threads);
        if product != u64::from(total) {
            return Err(bad(format!(
                "says {total} CPUs, but {} sockets of {} cores of {} threads are {product}",
                cpus.sockets, cpus.cores, cpus.threads
            )));
        }
        if !(1..=CPUS_MAX).contains(&total) {
            return Err(bad(format!("is not between 1 and {CPUS_MAX} CPUs")));
        }
        Ok(cpus)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cpus { sockets, cores, threads } = self;
        write!(formatter, "{},{sockets},{cores},{threads}", self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_is_cores_of_one_socket() {
        assert_eq!("4".parse::<Cpus>().unwrap(), Cpus { sockets: 1, cores: 4, threads: 1 });
        let eight = "8,2,2,2".parse::<Cpus>().unwrap();
        assert_eq!((eight.total(), eight.to_string()), (8, "8,2,2,2".to_owned()));
    }

    #[test]
    fn a_product_that_is_not_the_total_is_refused() {
        for bad in ["", "0", "256", "-1", "4,2", "4,2,2,2", "4,1,4,1,1", "four", "0,0,1,1"] {
            let refused = bad.parse::<Cpus>().unwrap_err().to_string();
            assert!(refused.contains(&format!("{bad:?}")), "{refused}");
        }
        assert!("4,4294967295,4294967295,1".parse::<Cpus>().is_err());
    }
}
