//! Delays: text with a unit in, nanoseconds out. Refuses bare numbers, negative ones, and what no link has.

use std::time::Duration;

/// Longest delay, one way or round trip; ten seconds is beyond every orbit, and `20m` (minutes) a slip.
const LONGEST: Duration = Duration::from_secs(10);

/// Why a delay is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDelay {
    /// Only a number.
    #[error("has no unit")]
    NoUnit,
    /// Below zero.
    #[error("is negative")]
    Negative,
    /// More than ten seconds.
    #[error("is longer than 10 s")]
    TooLong,
    /// No time at all.
    #[error("is no time")]
    Unreadable,
}

impl BadDelay {
    /// What to write instead of `text`.
    #[must_use]
    pub fn hint(&self, text: &str) -> String {
        let number: String = text
            .trim()
            .trim_start_matches(['-', '+'])
            .chars()
            .take_while(|&c| c.is_ascii_digit() || c == '.')
            .collect();
        match self {
            Self::NoUnit if number.is_empty() || number.len() < text.trim().len() => {
                "write a number and a unit: 20ms, 1.5ms, 500us, 1s".to_owned()
            }
            Self::NoUnit => format!("write `{number}ms` if milliseconds are meant"),
            Self::Negative => "nothing arrives before it was sent; write a delay of 0ms or more".to_owned(),
            Self::TooLong if text.trim_start_matches(|c: char| !c.is_alphabetic()) == "m" => {
                format!("`m` is minutes; write `{number}ms` for milliseconds")
            }
            Self::TooLong => "no link is that long; units are ns, us, ms, s".to_owned(),
            Self::Unreadable => "write a number and a unit: 20ms, 1.5ms, 500us, 1s".to_owned(),
        }
    }
}

/// A delay in nanoseconds.
///
/// # Errors
/// Why it is none.
pub fn parse_delay(text: &str) -> Result<u64, BadDelay> {
    parse_within(text, LONGEST)
}

/// A time up to `longest`, nanoseconds.
pub(super) fn parse_within(text: &str, longest: Duration) -> Result<u64, BadDelay> {
    let trimmed = text.trim();
    if let Some(rest) = trimmed.strip_prefix('-')
        && rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return Err(BadDelay::Negative);
    }
    if !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || ".eE_+".contains(c)) {
        return Err(BadDelay::NoUnit);
    }
    let delay = humantime::parse_duration(trimmed).map_err(|error| match error {
        // The same error says that a number is beyond the library's precision, as 0.5ns is.
        humantime::DurationError::NumberOverflow if !trimmed.contains('.') => BadDelay::TooLong,
        _ => BadDelay::Unreadable,
    })?;
    if delay > longest {
        return Err(BadDelay::TooLong);
    }
    u64::try_from(delay.as_nanos()).map_err(|_| BadDelay::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_has_a_unit() {
        for (text, ns) in [
            ("20ms", 20_000_000),
            ("1.5ms", 1_500_000),
            ("500us", 500_000),
            ("1s 500ms", 1_500_000_000),
            ("0ms", 0),
            ("10s", 10_000_000_000),
        ] {
            assert_eq!(parse_delay(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn bare_negative_and_absurd_delays_are_refused() {
        assert_eq!(parse_delay("20"), Err(BadDelay::NoUnit));
        assert_eq!(parse_delay("0"), Err(BadDelay::NoUnit));
        assert_eq!(parse_delay("1e3"), Err(BadDelay::NoUnit));
        assert_eq!(parse_delay("-20ms"), Err(BadDelay::Negative));
        assert_eq!(parse_delay("11s"), Err(BadDelay::TooLong));
        assert_eq!(parse_delay("20m"), Err(BadDelay::TooLong));
        assert_eq!(parse_delay("99999999999999999999s"), Err(BadDelay::TooLong));
        for text in ["", "fast", "20 parsecs", "ms", "20ms-", "0.5ns", "∞"] {
            assert_eq!(parse_delay(text), Err(BadDelay::Unreadable), "{text}");
        }
    }

    #[test]
    fn minutes_get_a_hint_of_their_own() {
        assert!(BadDelay::TooLong.hint("20m").contains("`20ms`"));
    }
}
