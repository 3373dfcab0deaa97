//! The two directions of a link and the two legs of a connection that crosses it.
//!
//! Pure. Out is the direction of those who dial, and leads to the far leg; back leads to the near one. A cut of either
//! direction is a matter of the whole connection if it ends connections, and of its own direction if it is silent.

use wire::{CutKind, Mirror, Nodelay};

/// Both directions of a link, as its connections see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directions {
    /// From those who dial.
    pub out: Mirror,
    /// To them.
    pub back: Mirror,
}

impl Directions {
    /// The direction in which `side` is reached.
    pub fn toward(&self, side: Side) -> &Mirror {
        match side {
            Side::Near => &self.back,
            Side::Far => &self.out,
        }
    }

    /// How connections are ended and refused, if they are: a reset beats a close.
    pub fn refusal(&self) -> Option<CutKind> {
        let cuts = [self.out.cut, self.back.cut];
        [CutKind::Reset, CutKind::Close]
            .into_iter()
            .find(|kind| cuts.contains(&Some(*kind)))
    }

    /// Whether a direction destroys all in silence, so that nobody who dials is heard.
    pub fn is_silent(&self) -> bool {
        [self.out.cut, self.back.cut].contains(&Some(CutKind::Drop))
    }
}

/// One end of a terminated connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The node that dialled.
    Near,
    /// The node that was dialled.
    Far,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Near, Self::Far];

    /// The one at the other end.
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// Whether TCP_NODELAY is to be on at a leg.
pub fn nodelay_on(nodelay: Nodelay, side: Side) -> bool {
    match nodelay {
        Nodelay::On => true,
        Nodelay::Off => false,
        Nodelay::NearLeg => side == Side::Near,
        Nodelay::FarLeg => side == Side::Far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(out: Option<CutKind>, back: Option<CutKind>) -> Directions {
        let direction = |cut| Mirror {
            cut,
            ..Mirror::default()
        };
        Directions {
            out: direction(out),
            back: direction(back),
        }
    }

    #[test]
    fn a_cut_of_either_direction_refuses_or_silences_and_a_reset_beats_a_close() {
        use CutKind::{Close, Drop, Reset};
        for (out, back, refusal, silent) in [
            (None, None, None, false),
            (Some(Close), None, Some(Close), false),
            (None, Some(Reset), Some(Reset), false),
            (Some(Close), Some(Reset), Some(Reset), false),
            (Some(Drop), None, None, true),
            (Some(Close), Some(Drop), Some(Close), true),
        ] {
            let directions = cut(out, back);
            assert_eq!(
                (directions.refusal(), directions.is_silent()),
                (refusal, silent),
                "{out:?} {back:?}"
            );
        }
    }

    #[test]
    fn a_leg_is_reached_in_the_direction_that_leads_to_it() {
        let directions = cut(Some(CutKind::Drop), None);
        assert_eq!(directions.toward(Side::Far).cut, Some(CutKind::Drop));
        assert_eq!(directions.toward(Side::Near).cut, None);
        assert!(
            Side::BOTH
                .iter()
                .all(|side| side.other().other() == *side && side.other() != *side)
        );
    }

    #[test]
    fn nodelay_names_its_leg() {
        let legs = |nodelay| Side::BOTH.map(|side| nodelay_on(nodelay, side));
        assert_eq!(legs(Nodelay::On), [true, true]);
        assert_eq!(legs(Nodelay::Off), [false, false]);
        assert_eq!(legs(Nodelay::NearLeg), [true, false]);
        assert_eq!(legs(Nodelay::FarLeg), [false, true]);
    }
}
