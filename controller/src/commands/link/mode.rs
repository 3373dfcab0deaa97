//! `link mode`: how all relays of a lab carry TCP connections.

use crate::cli::{Legs, Mode, ModeArgs, Order};
use crate::error::{CommandError, ExitCode};
use crate::lab::Lab;
use wire::{Nodelay, Path, StreamOrder, StreamSettings};

/// Changes the mode; what is not named of stream mode stays as it is.
pub(super) async fn change(lab: &Lab, args: &ModeArgs) -> Result<(), CommandError> {
    let there = lab.relay_states().await?;
    let path = path(args, there.first().map_or(Path::Tun, |relay| relay.path))?;
    Ok(lab.set_path(path).await?)
}

fn path(args: &ModeArgs, there: Path) -> Result<Path, CommandError> {
    let mut settings = match there {
        Path::Stream(settings) => settings,
        Path::Tun | Path::Kernel => StreamSettings::default(),
    };
    if let Some(order) = args.order {
        settings.order = match order {
            Order::Pipelined => StreamOrder::Pipelined,
            Order::Serialising => StreamOrder::Serialising,
        };
    }
    if let Some(legs) = args.nodelay {
        settings.nodelay = match legs {
            Legs::On => Nodelay::On,
            Legs::Off => Nodelay::Off,
            Legs::NearLeg => Nodelay::NearLeg,
            Legs::FarLeg => Nodelay::FarLeg,
        };
    }
    match args.mode {
        Mode::Stream => Ok(Path::Stream(settings)),
        Mode::Packet if args.order.is_none() && args.nodelay.is_none() => Ok(Path::Tun),
        Mode::Packet => {
            let text = "set `--order` or `--nodelay` of packet mode";
            Err(CommandError::new(ExitCode::Usage, text)
                .hint("they are settings of stream mode: testbed link mode stream"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::LabArg;

    fn args(mode: Mode, order: Option<Order>, nodelay: Option<Legs>) -> ModeArgs {
        ModeArgs {
            mode,
            order,
            nodelay,
            lab: LabArg { lab: None },
        }
    }

    #[test]
    fn what_is_not_named_stays() {
        let there = Path::Stream(StreamSettings {
            order: StreamOrder::Serialising,
            nodelay: Nodelay::Off,
        });
        let changed = path(&args(Mode::Stream, None, Some(Legs::FarLeg)), there).unwrap();
        assert_eq!(
            changed,
            Path::Stream(StreamSettings {
                order: StreamOrder::Serialising,
                nodelay: Nodelay::FarLeg,
            })
        );
        let first = path(&args(Mode::Stream, None, None), Path::Tun).unwrap();
        assert_eq!(first, Path::Stream(StreamSettings::default()));
    }

    #[test]
    fn packet_mode_has_no_settings() {
        assert_eq!(path(&args(Mode::Packet, None, None), Path::Tun).unwrap(), Path::Tun);
        let refused = path(&args(Mode::Packet, Some(Order::Pipelined), None), Path::Tun);
        assert_eq!(refused.unwrap_err().code, ExitCode::Usage);
    }
}
