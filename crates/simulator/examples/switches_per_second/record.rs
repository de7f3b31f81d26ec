//! Shares of the bare loop's speed: those of this build, and those of the build before.
//!
//! A share is what the simulator does in a second over what the bare loop does in a second, in one
//! run of one program. It says more of the simulator than of the machine, so it is kept.

use crate::measuring::Cell;
use crate::repository::{root, stop};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const COLUMNS: &str = "policy,mix,of_bare_loop_in_each_round";

/// One cell's share of the speed of the bare loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Each round of the cell, over the best of the bare loop.
    pub rounds: Vec<f64>,
}

impl Share {
    /// The best round: whatever disturbs only makes slower.
    pub fn best(&self) -> f64 {
        self.rounds.iter().copied().fold(0.0, f64::max)
    }
}

/// Shares by mix and policy.
pub type Shares = BTreeMap<(String, String), Share>;

/// What was measured of a build.
pub struct Record {
    pub shares: Shares,
    /// Which build, and which processor.
    pub build: String,
    pub processor: String,
}

/// What the bare loop does of a mix in a second, at its best.
pub fn best_of_bare_loop(cells: &[Cell], mix: &str) -> f64 {
    let of_mix = cells.iter().filter(|cell| cell.mix == mix);
    of_mix.map(|cell| cell.bare_per_second).fold(0.0, f64::max)
}

/// The shares of these cells.
pub fn shares(cells: &[Cell]) -> Shares {
    let share = |cell: &Cell| {
        let bare = best_of_bare_loop(cells, cell.mix);
        Share { rounds: cell.seconds.iter().map(|one| cell.per_second(*one) / bare).collect() }
    };
    cells.iter().map(|cell| ((cell.mix.to_owned(), cell.policy.clone()), share(cell))).collect()
}

/// How far rounds differ: the geometric mean of all shares in the best round over that in the
/// worst, less 1.
pub fn noise<'a>(shares: impl Iterator<Item = &'a Share> + Clone) -> f64 {
    let rounds = shares.clone().map(|share| share.rounds.len()).min().unwrap_or(0);
    let means = (0..rounds).map(|round| {
        let of_round = shares.clone().map(|share| share.rounds[round]);
        geometric_mean(of_round)
    });
    let (least, most) =
        means.fold((f64::INFINITY, 0.0), |(least, most), mean| (mean.min(least), mean.max(most)));
    if rounds == 0 { 0.0 } else { most / least - 1.0 }
}

/// Their geometric mean; NaN of none.
pub fn geometric_mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, n), number| (sum + number.ln(), n + 1));
    (sum / f64::from(count)).exp()
}

/// Where in the repository the shares of the build before are kept.
pub const PATH: &str = "crates/simulator/examples/switches_per_second/before.csv";

fn path() -> PathBuf {
    root().join(PATH)
}

/// The build before, if there is one on record.
pub fn read() -> Option<Record> {
    let text = std::fs::read_to_string(path()).ok()?;
    let record = parse(&text);
    let wrong = |line| format!("{PATH}: {line}\nhint: delete the file");
    Some(record.unwrap_or_else(|line| stop(&wrong(line))))
}

/// Keeps these shares as those of the build before.
pub fn write(shares: Shares) {
    let record = Record { shares, build: this_build(), processor: this_processor() };
    std::fs::write(path(), text(&record)).unwrap_or_else(|error| stop(&error));
}

fn text(record: &Record) -> String {
    let mut text =
        format!("# build: {}\n# processor: {}\n{COLUMNS}\n", record.build, record.processor);
    for ((mix, policy), share) in &record.shares {
        let rounds: Vec<String> = share.rounds.iter().map(|round| format!("{round:.5}")).collect();
        text += &format!("{policy},{mix},{}\n", rounds.join(" "));
    }
    text
}

/// The record in this text; else the line that is none of it.
fn parse(text: &str) -> Result<Record, String> {
    let head = |name: &str| {
        let start = format!("# {name}: ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("unknown").to_owned()
    };
    let (build, processor) = (head("build"), head("processor"));
    let rows = text.lines().filter(|line| !line.starts_with('#') && *line != COLUMNS);
    let row = |line: &str| {
        let [policy, mix, rounds] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let rounds: Result<Vec<f64>, _> = rounds.split(' ').map(str::parse).collect();
        let share = Share { rounds: rounds.ok()? };
        Some(((mix.to_owned(), policy.to_owned()), share))
    };
    let shares = rows.map(|line| row(line).ok_or_else(|| format!("no row of shares: {line}")));
    Ok(Record { shares: shares.collect::<Result<_, _>>()?, build, processor })
}

/// Version and commit of the sources.
fn this_build() -> String {
    let git = ["describe", "--always", "--dirty", "--exclude=*"];
    let output = Command::new("git").args(git).current_dir(root()).output();
    let commit = output.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version = env!("CARGO_PKG_VERSION");
    format!("schedlab {version}, commit {}", commit.as_deref().unwrap_or("unknown"))
}

/// Name of the processor, as the kernel says it.
pub fn this_processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(": "));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    //! Goal: what is written is read again, and noise and means are what they say.

    use super::*;

    fn share(rounds: &[f64]) -> Share {
        Share { rounds: rounds.to_vec() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let key = ("hogs_400".to_owned(), "fifo".to_owned());
        let shares = Shares::from([(key, share(&[0.25, 0.125]))]);
        let record = Record { shares, build: "b".to_owned(), processor: "p".to_owned() };
        let again = parse(&text(&record)).expect("it was written so");
        assert_eq!((&again.shares, &*again.build, &*again.processor), (&record.shares, "b", "p"));
        assert!(parse("fifo,hogs_400\n").is_err());
    }

    #[test]
    fn noise_of_many_is_that_of_their_mean() {
        let (up, down) = (share(&[1.0, 2.0]), share(&[2.0, 1.0]));
        assert!((noise([&up].into_iter()) - 1.0).abs() < 1e-9);
        assert!(noise([&up, &down].into_iter()).abs() < 1e-9);
    }
}
