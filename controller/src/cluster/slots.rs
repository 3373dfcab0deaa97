//! Hash slots: sets of them, and the slot of a key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many there are.
pub const SLOTS: u16 = 16_384;

/// A set of hash slots, as ranges in order; written `0-5460,10923`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Slots(Vec<(u16, u16)>);

/// A text that is no set of slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSlots {
    /// It is none at all.
    #[error("`{0}` is no range of slots")]
    Unreadable(String),
    /// There is no such slot.
    #[error("there is no slot {0}")]
    Beyond(u32),
    /// A range whose end comes before its begin.
    #[error("{0}-{1} ends before it begins")]
    Reversed(u16, u16),
    /// A slot twice.
    #[error("slots {0} stand there twice")]
    Twice(String),
}

impl Slots {
    /// From `0-5460`, `7` or several of these with commas between.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadSlots> {
        let mut all = Self::default();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (slot(first, part)?, slot(last, part)?);
            if last < first {
                return Err(BadSlots::Reversed(first, last));
            }
            let range = Self(vec![(first, last)]);
            let common = all.shared(&range);
            if !common.is_empty() {
                return Err(BadSlots::Twice(common.to_string()));
            }
            all = all.with(&range);
        }
        Ok(all)
    }

    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![(0, SLOTS - 1)])
    }

    /// All slots in `parts` parts as equal as they can be, as `redis-cli --cluster create` makes them.
    #[must_use]
    pub fn even(parts: usize) -> Vec<Self> {
        let parts = u32::try_from(parts).unwrap_or(u32::MAX).clamp(1, u32::from(SLOTS));
        let slot = |part: u32| u16::try_from((2 * u32::from(SLOTS) * part + parts) / (2 * parts)).unwrap_or(SLOTS);
        (0..parts)
            .map(|part| (slot(part), slot(part + 1)))
            .filter(|(first, after)| first < after)
            .map(|(first, after)| Self(vec![(first, after - 1)]))
            .collect()
    }

    /// Ranges in order, both ends included.
    #[must_use]
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Whether there is none in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether a slot is among them.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// These and those.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut ranges: Vec<(u16, u16)> = self.0.iter().chain(&others.0).copied().collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Those that are in both.
    #[must_use]
    pub fn shared(&self, others: &Self) -> Self {
        let mut shared = Self::default();
        for (first, last) in &self.0 {
            for (other_first, other_last) in &others.0 {
                let range = (*first.max(other_first), *last.min(other_last));
                if range.0 <= range.1 {
                    shared = shared.with(&Self(vec![range]));
                }
            }
        }
        shared
    }

    /// All others.
    #[must_use]
    pub fn missing(&self) -> Self {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in &self.0 {
            if next < *first {
                missing.push((next, first - 1));
            }
            next = last + 1;
        }
        if next < SLOTS {
            missing.push((next, SLOTS - 1));
        }
        Self(missing)
    }

    /// For people: `slots 0-5460`, `no slots`.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.is_empty() {
            return "no slots".to_owned();
        }
        format!("slots {self}")
    }
}

fn slot(text: &str, part: &str) -> Result<u16, BadSlots> {
    let digits = !text.is_empty() && text.len() <= 9 && text.chars().all(|c| c.is_ascii_digit());
    let number = text.parse::<u32>().ok().filter(|_| digits);
    let number = number.ok_or_else(|| BadSlots::Unreadable(part.to_owned()))?;
    match u16::try_from(number) {
        Ok(slot) if slot < SLOTS => Ok(slot),
        _ => Err(BadSlots::Beyond(number)),
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Slots {
    type Error = BadSlots;
    fn try_from(text: String) -> Result<Self, BadSlots> {
        match text.is_empty() {
            true => Ok(Self::default()),
            false => Self::parse(&text),
        }
    }
}

impl From<Slots> for String {
    fn from(slots: Slots) -> Self {
        slots.to_string()
    }
}

/// The slot of a key: of the part between the first `{` and the next `}` if there is one between them, else of all of it.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..open + 1 + length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, begins with 0. The cluster specification of Redis gives 0x31C3 for `123456789`.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mut crc: u16 = crc ^ (u16::from(*byte) << 8);
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str) -> Slots {
        Slots::parse(text).expect("a set of slots")
    }

    #[test]
    fn the_slot_of_a_key_is_that_of_the_servers() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // `CLUSTER KEYSLOT` of Redis 7.0.15.
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("{foo}.x", 12182)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"foo{}x"), crc16(b"foo{}x") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of(b"a{b}{c}"), slot_of(b"b"));
        assert_eq!(slot_of(b"a{b"), crc16(b"a{b") % SLOTS);
    }

    #[test]
    fn sets_are_read_and_written_alike() {
        for text in ["0-5460", "7", "0-99,200-16383", "1,3,5-7"] {
            assert_eq!(slots(text).to_string(), text);
        }
        assert_eq!(slots("5-7, 0-4").to_string(), "0-7", "neighbours join");
        assert_eq!(slots("0-16383"), Slots::all());
        assert_eq!(Slots::all().count(), SLOTS);
    }

    #[test]
    fn what_is_no_set_is_refused() {
        assert_eq!(Slots::parse("5-2"), Err(BadSlots::Reversed(5, 2)));
        assert_eq!(Slots::parse("16384"), Err(BadSlots::Beyond(16384)));
        assert_eq!(Slots::parse("1-4,4-6"), Err(BadSlots::Twice("4".to_owned())));
        for bad in ["", "a", "1-", "-1", "1-2-3", "1..2", "99999999999"] {
            assert!(matches!(Slots::parse(bad), Err(BadSlots::Unreadable(_))), "{bad}");
        }
    }

    #[test]
    fn equal_parts_cover_everything_once() {
        for parts in [1, 3, 7, 15] {
            let all = Slots::even(parts);
            assert_eq!(all.len(), parts);
            assert_eq!(
                all.iter().map(|part| u32::from(part.count())).sum::<u32>(),
                u32::from(SLOTS)
            );
            let together = all.iter().fold(Slots::default(), |together, part| together.with(part));
            assert_eq!(together, Slots::all());
        }
        let shown: Vec<String> = Slots::even(3).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["0-5460", "5461-10922", "10923-16383"]);
    }

    #[test]
    fn common_and_missing_slots_are_found() {
        assert_eq!(slots("0-10,20-30").shared(&slots("5-25")).to_string(), "5-10,20-25");
        assert_eq!(slots("1-5,7-16383").missing().to_string(), "0,6");
        assert!(Slots::all().missing().is_empty());
        assert!(slots("0-4,6").contains(6) && !slots("0-4,6").contains(5));
    }
}
