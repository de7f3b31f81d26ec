//! Goal: `timering` keeps CFS's promises with an error of a slot, within one ring, and gives more
//! than its share to whoever leaps over the ring's end. Method: closed forms on hogs, `cfs` beside
//! it, and the ring against a list sorted by slots, step by step, in `orders/ring_trace.bpf.c`.

use crate::support::*;
use simulator::Options;

const HZ: u32 = 1000;
const TICK_NS: u64 = MS;
const LATENCY_NS: u64 = 20 * MS;
const MIN_GRANULARITY_NS: u64 = 4 * MS;

#[test]
fn the_ring_keeps_the_order_of_a_list_sorted_by_slots() {
    let trace = compile("crates/simulator/tests/orders/ring_trace.bpf.c");
    let (machine, workload) = (costless(1, HZ), together(vec![hog("hog", 0)]));
    let mut clamped = [0, 0];
    for pattern in 0..4 {
        for (nodes, keys, steps) in [(8, 500, 20_000), (100, 100, 5_000), (1_000, 700, 1_500)] {
            // A storm takes and adds half of all in each step.
            let steps = if pattern == 2 { steps / 20 } else { steps };
            for slots in [64, 128, 256] {
                let tunables = settings(&[
                    ("pattern", pattern),
                    ("nodes_most", nodes),
                    ("keys", keys),
                    ("steps", steps),
                    ("slots", slots),
                    ("granularity_ns", 3),
                ]);
                let options = Options { tunables, ..Options::default() };
                let result = attempt_with(&trace, &machine, &workload, &options);
                let said = result.error.expect("it says that it is done");
                let numbers = said.message.strip_prefix("scx_bpf_error (done, ");
                let numbers = numbers.unwrap_or_else(|| panic!("{options:?}: {}", said.message));
                let mut numbers = numbers.split(' ').filter_map(|word| word.parse::<u64>().ok());
                clamped = clamped.map(|sum| sum + numbers.next().expect("two numbers"));
            }
        }
    }
    assert!(clamped.into_iter().all(|sum| sum > 1_000), "{clamped:?}");
}

#[test]
fn two_tasks_of_a_cpu_are_scheduled_as_cfs_does_if_slots_are_short() {
    // At most one waits: only who runs is ever compared with it, to a slot of 1 ns.
    let exact = [("granularity_ns", 1)];
    for nices in [[0, 0], [0, 5], [-5, 15], [0, 19]] {
        for second in [hog("second", nices[1]), sleeper(nices[1], 7 * MS + 300 * US, 9 * MS)] {
            let workload = together(vec![hog("first", nices[0]), second]);
            let of = |policy: &str, tunables: &[(&str, i64)]| {
                let result = outcome(policy, &costless(1, HZ), &workload, 5 * S, tunables);
                all_stays(&result)
            };
            assert_eq!(of("timering", &exact), of("cfs", &[]), "{nices:?}");
        }
    }
}

#[test]
fn shares_are_proportional_to_weights_within_one_ring() {
    for nice in -20..=19 {
        let hogs = vec![hog("zero", 0), hog("zero", 0), hog("other", nice)];
        let result = outcome("timering", &machine(1, HZ), &together(hogs), 60 * S, &[]);
        // A turn of 1 ms is 68 ms of vruntime at nice 19: within the 255 ms of the ring.
        let expected = weight(nice) / weight(0);
        let got = 2.0 * share(&result, "other") / share(&result, "zero");
        assert!((got / expected - 1.0).abs() < 0.02, "nice {nice}: {got} for {expected}");
    }
}

#[test]
fn who_leaps_over_the_end_of_the_ring_comes_round_with_it() {
    // A turn of 4 ms is 4 x 1024 / 15 = 273 ms of vruntime at nice 19.
    let hogs = vec![hog("zero", 0), hog("zero", 0), hog("nicest", 19)];
    let workload = together(hogs);
    let of = |slots: i64, granularity_ns: u64| {
        let tunables = [("slots", slots), ("granularity_ns", granularity_ns as i64)];
        let result = outcome("timering", &machine(1, 250), &workload, 60 * S, &tunables);
        share(&result, "nicest")
    };
    let due = weight(19) / (weight(19) + 2.0 * weight(0));
    for (slots, granularity_ns) in [(256, 2 * MS), (128, 4 * MS)] {
        let got = of(slots, granularity_ns);
        assert!((got / due - 1.0).abs() < 0.05, "{slots} slots: {got} for {due}");
    }
    // Else it runs each time that the two others have gone through the ring, and so much early.
    for (slots, granularity_ns) in [(64, MS), (128, MS), (64, 2 * MS), (64, MS / 2)] {
        let ring_ns = ((slots - 1) * granularity_ns) as f64;
        let expected = 4e6 / (4e6 + 2.0 * ring_ns);
        let got = of(slots as i64, granularity_ns);
        assert!(got > 1.5 * due, "{slots} slots: {got}");
        assert!((got / expected - 1.0).abs() < 0.15, "{slots} slots: {got} for {expected}");
    }
}

#[test]
fn tasks_of_one_slot_take_turns_in_the_order_in_which_they_came() {
    // Vruntimes begin at 2^40, so those of 68 s are one slot: weights only make turns longer or
    // shorter.
    let tunables = [("granularity_ns", 1 << 36)];
    let names = ["a", "b", "c", "d"];
    let hogs = names.iter().zip([0, -3, 2, 5]).map(|(name, nice)| hog(name, nice)).collect();
    let result = outcome("timering", &costless(1, HZ), &together(hogs), 5 * S, &tunables);
    let names_by_pid = result.timeline_names.as_ref().expect("asked for");
    let order: Vec<&str> =
        all_stays(&result).iter().map(|stay| names_by_pid[&stay.3].as_str()).collect();
    assert!(order.len() > 200, "{}", order.len());
    for round in order[4..].windows(5) {
        assert_eq!(round[0], round[4], "{order:?}");
        assert!(names.iter().all(|name| round.contains(name)), "{round:?}");
    }
}

#[test]
fn nobody_waits_longer_than_for_a_turn_and_a_slot_of_each_other_task() {
    for nr in [2_u64, 5, 16, 40] {
        for granularity_ns in [MS / 4, MS, 8 * MS] {
            let tunables = [("granularity_ns", granularity_ns as i64)];
            let turn_ns = LATENCY_NS.max(nr * MIN_GRANULARITY_NS) / nr + TICK_NS;
            let bound_ns = (nr - 1) * (turn_ns + granularity_ns);
            for wait_ns in longest_waits_ns("timering", nr, HZ, &tunables) {
                assert!(wait_ns <= bound_ns, "{nr} hogs: {wait_ns} > {bound_ns}");
            }
        }
    }
}

#[test]
fn a_sleeper_comes_before_the_base_and_not_behind_those_that_wait() {
    let hogs = (0..4).map(|_| hog("hog", 0));
    let workload = together(hogs.chain([sleeper(0, 97 * MS + 300 * US, MS)]).collect());
    let p50 = |granularity_ns: u64| {
        // No buddies, which would bring it forward whatever the ring says.
        let tunables =
            [("granularity_ns", granularity_ns as i64), ("next_buddy", 0), ("last_buddy", 0)];
        let result = outcome("timering", &machine(1, HZ), &workload, 20 * S, &tunables);
        let stays = stays(&result, "sleeper");
        assert!(stays.len() > 100, "{}", stays.len());
        let mut ends_ns: Vec<u64> = stays.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        ends_ns.sort_unstable();
        ends_ns[ends_ns.len() / 2] - 98 * MS - 300 * US
    };
    assert!(p50(MS) < 100 * US, "{}", p50(MS));
    // In one slot it waits for the turns of the three.
    assert!(p50(1 << 36) > 10 * MS, "{}", p50(1 << 36));
}

#[test]
fn a_newly_idle_cpu_that_pulls_leaves_no_cpu_idle_beside_waiting_tasks() {
    let pulls = [("newidle", 1), ("newidle_load_index", 0), ("cache_nice_tries", 0)];
    assert_a_newly_idle_cpu_pulls("timering", &pulls);
}
