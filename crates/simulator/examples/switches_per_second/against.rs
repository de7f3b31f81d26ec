//! Two builds in turns: this one, and another program of this example.
//!
//! The other may be older: then it knows policies as its only arguments, and prints a table with a
//! row a policy, whose cells are `million switches / million events` a second. It counts CPU time
//! up to the kernel's last tick, so what it says of runs of some milliseconds, as hogs are, may be
//! a tenth too fast. A mix that the other does not have is new.
//! Those of 27 November 2026 may have given `linux_2_4` and `bfs` one lock for all CPUs.

use crate::mixes::Mix;
use crate::record::geometric_mean;
use crate::repository::stop;
use std::path::Path;
use std::process::Command;

/// Each build is started so often for a policy.
const TURNS: usize = 3;
/// What an older program rounds to, in millions a second.
const SWITCHES_DIGIT: f64 = 0.01;
const EVENTS_DIGIT: f64 = 0.1;
/// The mixes of its table.
const MIXES_OF_TABLE: [&str; 4] = ["ping_pong_8", "ping_pong_400", "run_sleep_400", "hogs_400"];

/// Million switches and events a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Speed {
    switches: f64,
    events: f64,
}

impl Speed {
    fn max(self, other: Speed) -> Speed {
        Speed { switches: self.switches.max(other.switches), events: self.events.max(other.events) }
    }

    /// This speed over another one. Both builds simulate the same, so switches and events say the
    /// same: taken are those that rounding changes less.
    fn over(self, other: Speed) -> f64 {
        if SWITCHES_DIGIT / other.switches < EVENTS_DIGIT / other.events {
            self.switches / other.switches
        } else {
            self.events / other.events
        }
    }
}

/// A speed a mix, if the program has it.
type Speeds = Vec<Option<Speed>>;

/// Prints how many times as fast this build is as the other one.
pub fn print(other: &Path, policies: &[String], mixes: &[Mix]) {
    let this = std::env::current_exe().unwrap_or_else(|error| stop(&error));
    println!(
        "this build / {}: million switches a second of both and their ratio, best of {TURNS} turns",
        other.display()
    );
    print!("{:<14}", "policy");
    mixes.iter().for_each(|mix| print!("{:>24}", mix.name));
    println!();
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); mixes.len()];
    for policy in policies {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            ours = best(ours, speeds(&this, policy, mixes));
            theirs = best(theirs, speeds(other, policy, mixes));
        }
        print!("{policy:<14}");
        for ((ours, theirs), ratios) in ours.iter().zip(&theirs).zip(&mut ratios) {
            let Some((ours, theirs)) = ours.zip(*theirs) else {
                print!("{:>24}", "new");
                continue;
            };
            let ratio = ours.over(theirs);
            let cell = format!("{:.2} / {:.2} = {ratio:.2}", ours.switches, theirs.switches);
            print!("{cell:>24}");
            ratios.push(ratio);
        }
        println!();
    }
    print!("{:<14}", "geometric mean");
    for one in &ratios {
        match one.is_empty() {
            true => print!("{:>24}", "new"),
            false => print!("{:>24.3}", geometric_mean(one.iter().copied())),
        }
    }
    println!("\n{:<14}{:>24.3}", "all", geometric_mean(ratios.into_iter().flatten()));
}

fn best(before: Speeds, new: Speeds) -> Speeds {
    if before.is_empty() {
        return new;
    }
    let faster = |(one, other): (Option<Speed>, Option<Speed>)| Some(one?.max(other?));
    before.into_iter().zip(new).map(faster).collect()
}

/// What a build does under a policy, a speed a mix.
fn speeds(program: &Path, policy: &str, mixes: &[Mix]) -> Speeds {
    let text = said(program, &["--cells", policy]).ok();
    let found = match &text {
        Some(text) => speeds_in_cells(text, mixes),
        None => {
            let text = said(program, &[policy]).unwrap_or_else(|error| stop(&error));
            speeds_in_table(&text, policy, mixes)
        }
    };
    match found.iter().any(Option::is_some) {
        true => found,
        false => {
            stop(&format!("{}: no speeds under {policy} in what it prints", program.display()))
        }
    }
}

fn said(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {error}", program.display()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines that `--cells` prints.
fn speeds_in_cells(text: &str, mixes: &[Mix]) -> Speeds {
    let speed = |mix: &Mix| {
        let fields: Vec<&str> = text.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields.len() == 5 && fields[1] == mix.key).then_some(fields)
        })?;
        let number = |field: usize| fields[field].parse::<f64>().ok();
        let seconds = number(4)?;
        let million = |field| Some(number(field)? / seconds / 1e6);
        Some(Speed { switches: million(2)?, events: million(3)? })
    };
    mixes.iter().map(speed).collect()
}

/// The row of a policy in the table of an older program.
fn speeds_in_table(text: &str, policy: &str, mixes: &[Mix]) -> Speeds {
    let row = text.lines().find_map(|line| line.strip_prefix(policy)?.strip_prefix(' '));
    let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    let speed = |mix: &Mix| {
        let place = MIXES_OF_TABLE.iter().position(|key| *key == mix.key)?;
        let &[switches, "/", events] = words.chunks(3).nth(place)? else { return None };
        Some(Speed { switches: switches.parse().ok()?, events: events.parse().ok()? })
    };
    mixes.iter().map(speed).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: the speeds are found in what both kinds of programs print.

    use super::*;

    #[test]
    fn the_table_of_an_older_program_is_read() {
        let text = "simulated on osdl-8\npolicy            ping-pong, 8 tasks\n\
                    cfs_2007              0.90 / 4.5            1.40 / 5.6\n\
                    cfs                       1.41 / 5.4            1.28 / 4.9\n";
        let mixes = crate::mixes::mixes();
        let found = speeds_in_table(text, "cfs", &mixes);
        assert_eq!(found[1], Some(Speed { switches: 1.28, events: 4.9 }));
        assert_eq!(found.iter().flatten().count(), 2, "{found:?}");
        assert!(speeds_in_table(text, "bfs", &mixes).iter().all(Option::is_none));
    }

    #[test]
    fn the_lines_of_cells_are_read() {
        let mixes = crate::mixes::mixes();
        let line = |mix: &Mix| format!("fifo,{},4000000,8000000,2\n", mix.key);
        let text: String = mixes.iter().skip(1).map(line).collect();
        let mut expected = vec![Some(Speed { switches: 2.0, events: 4.0 }); mixes.len()];
        expected[0] = None;
        assert_eq!(speeds_in_cells(&text, &mixes), expected);
    }

    #[test]
    fn what_rounding_changes_less_is_compared() {
        let (new, old) =
            (Speed { switches: 0.12, events: 80.0 }, Speed { switches: 0.04, events: 40.0 });
        assert_eq!(new.over(old), 2.0);
    }
}
