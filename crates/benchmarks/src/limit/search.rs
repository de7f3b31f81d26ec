//! Doubling, then bisecting, and nothing believed that was seen once only.

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The largest number that succeeded [`CONFIRMATIONS`] times.
    pub most: u32,
    /// The next one, if it failed: what the search ended by. `None`: `cap` was reached.
    pub failed: Option<u32>,
}

/// How often the result must succeed.
pub const CONFIRMATIONS: u32 = 3;

/// The largest number up to `cap` at which `succeeds`; 0 if not even 1 does.
///
/// An error of `succeeds` ends the search. Success need not be monotone: a number that fails when
/// it is confirmed is taken for a failure, and the search goes on below.
pub fn search<E>(cap: u32, mut succeeds: impl FnMut(u32) -> Result<bool, E>) -> Result<Found, E> {
    let (mut most, mut failed) = (0, None);
    let mut next = 1;
    while failed.is_none() && next <= cap && most < cap {
        if succeeds(next)? {
            most = next;
            next = next.saturating_mul(2).min(cap);
        } else {
            failed = Some(next);
        }
    }
    loop {
        while let Some(above) = failed.filter(|&above| above - most > 1) {
            let middle = most + (above - most) / 2;
            if succeeds(middle)? {
                most = middle;
            } else {
                failed = Some(middle);
            }
        }
        // It has succeeded once; what fails now fails for good.
        let mut confirmed = 1;
        while most > 0 && confirmed < CONFIRMATIONS && succeeds(most)? {
            confirmed += 1;
        }
        if most == 0 || confirmed == CONFIRMATIONS {
            return Ok(Found { most, failed });
        }
        failed = Some(most);
        most = 0;
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the limit is found wherever it lies, with few attempts, and never beyond the cap.

    use super::*;

    fn found(cap: u32, limit: u32) -> (Found, Vec<u32>) {
        let mut tried = vec![];
        let found = search::<()>(cap, |groups| {
            tried.push(groups);
            Ok(groups <= limit)
        });
        (found.unwrap_or(Found { most: u32::MAX, failed: None }), tried)
    }

    #[test]
    fn every_limit_is_found() {
        for cap in [1, 2, 3, 7, 8, 100] {
            for limit in 0..=cap + 2 {
                let (found, tried) = found(cap, limit);
                assert_eq!(found.most, limit.min(cap), "cap {cap}");
                let expected = (limit < cap).then_some(limit + 1);
                assert_eq!(found.failed, expected, "cap {cap}, limit {limit}");
                assert!(tried.iter().all(|&groups| (1..=cap).contains(&groups)), "{tried:?}");
                let confirmed = tried.iter().filter(|&&groups| groups == limit.min(cap)).count();
                assert!(limit == 0 || confirmed == CONFIRMATIONS as usize, "{tried:?}");
                assert!(tried.len() <= 2 * 8 + CONFIRMATIONS as usize, "{tried:?}");
            }
        }
    }

    #[test]
    fn what_succeeds_once_only_is_no_limit() {
        let mut times = [0; 64];
        let found = search::<()>(40, |groups| {
            times[groups as usize] += 1;
            Ok(groups <= 20 || (groups <= 25 && times[groups as usize] == 1))
        });
        assert_eq!(found, Ok(Found { most: 20, failed: Some(21) }));
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(search(10, |groups| if groups < 4 { Ok(true) } else { Err(groups) }), Err(4));
    }
}
