//! How the command line names links: `dc1-dc2` and `dc1:dc2`.

use crate::error::{CommandError, ExitCode};
use crate::names::DatacenterName;

/// A link as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkName {
    pub(super) from: DatacenterName,
    pub(super) to: DatacenterName,
    both: bool,
}

impl LinkName {
    pub(super) fn parse(text: &str) -> Result<Self, CommandError> {
        let parts = text
            .split_once(':')
            .map(|parts| (parts, false))
            .or_else(|| text.split_once('-').map(|parts| (parts, true)));
        let named = parts.and_then(|((from, to), both)| {
            let (from, to) = (DatacenterName::new(from).ok()?, DatacenterName::new(to).ok()?);
            (from != to).then_some(Self { from, to, both })
        });
        named.ok_or_else(|| {
            CommandError::new(ExitCode::Usage, format!("understand link `{text}`"))
                .hint("dc1-dc2 means both directions, dc1:dc2 the one from dc1 to dc2")
        })
    }

    /// Directed links that it means.
    pub(super) fn directions(&self) -> Vec<(&DatacenterName, &DatacenterName)> {
        let mut directions = vec![(&self.from, &self.to)];
        if self.both {
            directions.push((&self.to, &self.from));
        }
        directions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_means_both_directions_and_a_colon_one() {
        let both = LinkName::parse("dc1-dc2").unwrap();
        assert_eq!(both.directions().len(), 2);
        let one = LinkName::parse("dc1:dc2").unwrap();
        assert_eq!(one.directions(), [(&one.from, &one.to)]);
        for bad in ["dc1", "dc1-", "dc1-dc1", "dc1:dc2:dc3", "dc1-dc2-dc3", ""] {
            assert!(LinkName::parse(bad).is_err(), "{bad}");
        }
    }
}
