//! The order of kernel releases.

use std::cmp::Ordering;

/// A release such as `6.18.15+deb13-cloud-amd64`, ordered by its numbers.
///
/// Numbers are compared as numbers wherever they stand, so `6.1.0-50` is later than `6.1.0-9`; a
/// release candidate comes before its release. Equal numbers leave the text to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    numbers: Vec<u32>,
    text: String,
}

impl Release {
    /// 6.6 made EEVDF the scheduler.
    pub const FIRST_WITH_EEVDF: Version = Version(6, 6);
    /// 6.5 made whoever starts a CPU pause between two looks at it: `cpuhp_wait_for_sync_state`.
    pub const FIRST_TO_PAUSE_FOR_CPUS: Version = Version(6, 5);

    /// Reads a release; `None` unless it begins with two numbers, as in `6.1`.
    pub fn parse(text: &str) -> Option<Release> {
        let (first, rest) = number(text)?;
        let (second, mut rest) = number(rest.strip_prefix('.')?)?;
        let mut numbers = vec![first, second];
        while let Some((next, after)) = rest.strip_prefix(['.', '-']).and_then(number) {
            numbers.push(next);
            rest = after;
        }
        Some(Release { numbers, text: text.to_owned() })
    }

    /// Its first two numbers, as in `6.18`.
    pub fn series(&self) -> String {
        format!("{}.{}", self.numbers[0], self.numbers[1])
    }

    /// As it was read.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn is_candidate(&self) -> bool {
        self.text.contains("-rc") || self.text.contains("~rc")
    }
}

/// A version with nothing behind its first two numbers, to compare releases with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u32, u32);

impl PartialEq<Version> for Release {
    fn eq(&self, other: &Version) -> bool {
        (self.numbers[0], self.numbers[1]) == (other.0, other.1)
    }
}

impl PartialOrd<Version> for Release {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some((self.numbers[0], self.numbers[1]).cmp(&(other.0, other.1)))
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Release) -> Ordering {
        // 7.3.0-rc7 and 7.3.0 have equal numbers.
        let trimmed = |release: &Release| {
            let end = release.numbers.iter().rposition(|&n| n != 0).map_or(0, |last| last + 1);
            release.numbers[..end].to_vec()
        };
        trimmed(self)
            .cmp(&trimmed(other))
            .then_with(|| other.is_candidate().cmp(&self.is_candidate()))
            .then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Release) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether `release` is `series` or begins with it, up to the end of a number.
pub fn is_of_series(release: &str, series: &str) -> bool {
    let rest = release.strip_prefix(series);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number_and_candidates_come_first() {
        let ordered = [
            "5.10.0-9-amd64",
            "5.10.0-30-amd64",
            "6.1.0-50-cloud-amd64",
            "6.9.1",
            "6.12.94+deb13",
            "6.12.107+deb13",
            "7.3.0-rc7",
            "7.3.0",
            "7.3.4+deb13",
            "7.3.4+deb14",
        ];
        let releases: Vec<Release> = ordered.iter().map(|t| Release::parse(t).unwrap()).collect();
        for (earlier, later) in releases.iter().zip(&releases[1..]) {
            assert!(earlier < later, "{} before {}", earlier.as_str(), later.as_str());
        }
    }

    #[test]
    fn a_version_stands_for_all_its_releases() {
        let release = |text| Release::parse(text).unwrap();
        assert!(release("6.5.13") < Release::FIRST_WITH_EEVDF);
        assert!(release("6.6-rc1") >= Release::FIRST_WITH_EEVDF);
        assert!(release("6.12") >= Release::FIRST_WITH_EEVDF);
    }

    #[test]
    fn a_series_ends_at_the_end_of_a_number() {
        assert!(is_of_series("6.1.0-50", "6.1"));
        assert!(is_of_series("6.1", "6.1"));
        assert!(!is_of_series("6.12.9", "6.1"));
        assert_eq!(Release::parse("6.18.15+deb13").unwrap().series(), "6.18");
        for bad in ["", "six", "6", "6.", ".1", "%s"] {
            assert_eq!(Release::parse(bad), None, "{bad:?}");
        }
    }
}
