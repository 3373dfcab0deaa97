//! A link that was asked to do more to packets than to delay them. It does what it should, so the instrument is not in doubt;
//! but what an operation costs on it, in round trips, is not what the claims are about.

use super::doubt::Doubt;
use super::seen::Seen;
use crate::conditions::{Condition, Key};
use wire::Conditions;

/// Conditions under which packets are lost, damaged, or take different times. A rate limit is none of them: it says itself
/// when it drops.
const UNSTEADY: [Key; 5] = [Key::Jitter, Key::Loss, Key::Duplicate, Key::Reorder, Key::Corrupt];

/// Doubts about the links of a block, one for all that were asked for the same.
pub fn doubts(seen: &Seen<'_>) -> Vec<Doubt> {
    let mut links: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for link in &seen.links {
        let told = link.conditions().map(asked).unwrap_or_default();
        match links.iter_mut().find(|(known, _)| *known == told) {
            Some((_, names)) => names.push(link.name()),
            None => links.push((told, vec![link.name()])),
        }
    }
    let unsteady = links.iter().filter(|(told, _)| !told.is_empty());
    unsteady
        .map(|(told, names)| {
            Doubt::suspect(format!(
                "the link from {} was asked for {}: a cost in round trips means something on a link that only delays",
                names.join(" and "),
                told.join(", ")
            ))
        })
        .collect()
}

fn asked(conditions: &Conditions) -> Vec<String> {
    let plain = Conditions::delay(conditions.delay_ns);
    let asked = UNSTEADY.into_iter().filter_map(|key| {
        let condition = Condition::of(key, conditions);
        (condition != Condition::of(key, &plain)).then(|| format!("{}={}", key.as_str(), condition.value()))
    });
    asked.collect()
}
