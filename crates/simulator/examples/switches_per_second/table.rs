//! The first table: what each policy does in a second, beside the bare loop and the build before.

use crate::measuring::Cell;
use crate::mixes::{MACHINE, Mix};
use crate::record::{
    Record, Share, Shares, best_of_bare_loop, geometric_mean, noise, this_processor,
};

/// This build over the one before, of one policy and mix.
struct Change<'a> {
    mix: &'a str,
    policy: &'a str,
    now: &'a Share,
    before: &'a Share,
}

impl Change<'_> {
    fn ratio(&self) -> f64 {
        self.now.best() / self.before.best()
    }
}

/// Prints all mixes.
pub fn print(mixes: &[Mix], cells: &[Cell], shares: &Shares, before: Option<&Record>) {
    println!(
        "simulated on {MACHINE} without its common lock, one core, CPU time, best of the rounds"
    );
    for mix in mixes {
        let bare = best_of_bare_loop(cells, mix.key) / 1e6;
        println!(
            "\n{}: the bare loop makes {bare:.1} million {} a second",
            mix.name,
            mix.unit.name()
        );
        println!(
            "{:<14}{:>12}{:>12}{:>10}{:>14}{:>14}",
            "policy", "M switches/s", "M events/s", "CPU s", "of bare loop", "now / before"
        );
        for cell in cells.iter().filter(|cell| cell.mix == mix.key) {
            print_row(cell, shares, before);
        }
    }
    println!();
    match before {
        Some(before) => print_changes(mixes, shares, before),
        None => println!("There is no build before on record: `make bench-record` keeps this one."),
    }
}

fn print_row(cell: &Cell, shares: &Shares, before: Option<&Record>) {
    let key = (cell.mix.to_owned(), cell.policy.clone());
    let (now, seconds) = (shares[&key].best(), cell.best_seconds());
    let before = before.and_then(|before| before.shares.get(&key));
    let change = before.map_or("new".to_owned(), |before| format!("{:.2}", now / before.best()));
    let million = |count: u64| count as f64 / seconds / 1e6;
    println!(
        "{:<14}{:>12.2}{:>12.1}{seconds:>10.3}{now:>14.4}{change:>14}",
        cell.policy,
        million(cell.switches),
        million(cell.events)
    );
}

fn print_changes(mixes: &[Mix], shares: &Shares, before: &Record) {
    let changes: Vec<Change> = changes(shares, &before.shares);
    println!("before: {}, on {}; now on {}", before.build, before.processor, this_processor());
    println!(
        "Compared are shares of the bare loop's speed, not times: a record of another machine \
         serves as well."
    );
    println!(
        "\n{:<26}{:>12}{:>28}",
        "geometric mean", "now / before", "differed between rounds by"
    );
    let mut slower = Vec::new();
    let mut row = |name: &str, of: &[&Change]| {
        if of.is_empty() {
            return;
        }
        let (ratio, noise) = (geometric_mean(of.iter().map(|one| one.ratio())), noise_of(of));
        println!("{name:<26}{ratio:>12.3}{:>26.1} %", noise * 100.0);
        slower.extend(told_if_slower(name, ratio, noise));
    };
    for mix in mixes {
        let of: Vec<&Change> = changes.iter().filter(|change| change.mix == mix.key).collect();
        row(mix.name, &of);
    }
    row("all", &changes.iter().collect::<Vec<_>>());
    for mix in mixes {
        // By luck the rounds of one cell differ less than those of the others.
        let of = || changes.iter().filter(|change| change.mix == mix.key);
        let usual = median(of().map(|one| noise_of(&[one])).collect());
        for one in of() {
            let noise = noise_of(&[one]).max(usual);
            let name = format!("{} under {}", mix.name, one.policy);
            slower.extend(told_if_slower(&name, one.ratio(), noise));
        }
    }
    if slower.is_empty() {
        println!("\nNothing is slower than before by more than rounds differed.");
    } else {
        println!("\nSLOWER than before, by more than rounds differed:\n{}", slower.join("\n"));
    }
}

/// What both have, in the order of keys.
fn changes<'a>(now: &'a Shares, before: &'a Shares) -> Vec<Change<'a>> {
    let both = now.iter().filter_map(|(key, share)| Some((key, share, before.get(key)?)));
    both.map(|((mix, policy), now, before)| Change { mix, policy, now, before }).collect()
}

/// How much rounds differed, now or before: whichever is more.
fn noise_of(changes: &[&Change]) -> f64 {
    let now = noise(changes.iter().map(|change| change.now));
    now.max(noise(changes.iter().map(|change| change.before)))
}

/// The upper one of the middle; 0 of none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// What is said of it, if it is slower than the noise explains.
fn told_if_slower(name: &str, ratio: f64, noise: f64) -> Option<String> {
    (ratio * (1.0 + noise) < 1.0).then(|| {
        let noise = noise * 100.0;
        format!("- {name}: {ratio:.3} of before, while rounds differed by {noise:.1} %")
    })
}

#[cfg(test)]
mod tests {
    //! Goal: a build that is slower is told, and noise is not.

    use super::*;

    #[test]
    fn what_is_slower_by_more_than_the_noise_is_told() {
        assert!(told_if_slower("x", 0.90, 0.05).is_some());
        assert!(told_if_slower("x", 0.96, 0.05).is_none());
        assert!(told_if_slower("x", 1.50, 0.00).is_none());
    }

    #[test]
    fn the_noise_of_a_change_is_that_of_the_noisier_build() {
        let quiet = Share { rounds: vec![1.0, 1.0] };
        let loud = Share { rounds: vec![1.0, 1.5] };
        let change = Change { mix: "m", policy: "p", now: &quiet, before: &loud };
        assert!((noise_of(&[&change]) - 0.5).abs() < 1e-9);
    }
}
