//! The relay: `relay CONFIG`, where CONFIG is a `RelayConfig` as JSON.
//!
//! Made to be the first process of a container with NET_ADMIN, SYS_NICE and /dev/net/tun. Every step of the
//! set-up must succeed, or the relay ends with one line that names the step and its object; half a relay would
//! be a link without conditions. It ends at once on SIGTERM and SIGINT, and on nothing else.

use relay::check::{self, ConditionsError};
use relay::control::{Desk, OrderError, Wire, serve};
use relay::paths::Paths;
use relay::router::Router;
use relay::router::kernel::{Alarm, EndSignals, keep_memory, now_ns};
use relay::router::tun::{Tun, TunError};
use relay::routes::{Interface, Routes, RoutesError};
use relay::sysctls::{self, SysctlError};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::process::{ExitCode, exit};
use std::sync::mpsc::channel;
use std::thread;
use wire::{RelayConfig, RelayOrder};

/// The relay cannot start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("read arguments: expected one, the configuration as JSON")]
    Arguments,
    #[error("read configuration: {0}")]
    Configuration(#[from] serde_json::Error),
    #[error("read configuration: prefix length {0} is above 32")]
    PrefixLength(u8),
    #[error("read configuration: two links lead to `{0}`")]
    TwoLinks(String),
    #[error("read configuration: the link to `{0}` has {1}")]
    Conditions(String, ConditionsError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Routes(#[from] RoutesError),
    #[error(transparent)]
    Tun(#[from] TunError),
    #[error("create alarm: {0}")]
    Alarm(io::Error),
    #[error("start thread {0}: {1}")]
    Thread(&'static str, io::Error),
    #[error("take the path of the configuration: {0}")]
    Path(#[from] OrderError),
}

fn main() -> ExitCode {
    keep_memory();
    let signals = EndSignals::hold();
    match start() {
        Ok(()) => {
            signals.wait();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("relay: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

/// Set everything up and start both threads.
fn start() -> Result<(), StartError> {
    let config = read_config()?;
    sysctls::require()?;
    let mut routes = Routes::open(&config)?;
    let tun = Tun::open()?;
    let (offload, device) = (tun.offload(), tun.name());
    routes.set_up(
        &config,
        &Interface {
            index: tun.index(),
            name: device.to_owned(),
        },
    )?;

    let alarm = Alarm::new().map_err(StartError::Alarm)?;
    let (requests, inbox) = channel();
    let router = Router::new(&config, tun, inbox, alarm.clone());
    start_data(router)?;
    let path = config.path;
    let mut desk = Desk {
        paths: Paths::new(routes, &config),
        wire: Wire { requests, alarm },
        datacenter: config.datacenter,
        since_ns: now_ns(),
        offload,
        device,
    };
    desk.obey(RelayOrder::SetPath { path })?;
    start_control(desk)
}

fn read_config() -> Result<RelayConfig, StartError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(text), None) = (arguments.next(), arguments.next()) else {
        return Err(StartError::Arguments);
    };
    let config: RelayConfig = serde_json::from_str(&text)?;
    let prefixes = config.links.iter().map(|link| link.prefix_len);
    if let Some(length) = prefixes.chain([config.prefix_len]).find(|length| *length > 32) {
        return Err(StartError::PrefixLength(length));
    }
    for (i, link) in config.links.iter().enumerate() {
        if config.links[..i].iter().any(|earlier| earlier.to == link.to) {
            return Err(StartError::TwoLinks(link.to.clone()));
        }
        check::conditions(&link.conditions).map_err(|error| StartError::Conditions(link.to.clone(), error))?;
    }
    Ok(config)
}

/// Start the thread of the data path.
fn start_data(router: Router) -> Result<(), StartError> {
    let run = move || {
        let error = router.run();
        eprintln!("relay: failed to {error}");
        exit(1);
    };
    let thread = thread::Builder::new().name("data".into()).spawn(run);
    thread.map_err(|source| StartError::Thread("data", source)).map(drop)
}

/// Start the thread that answers orders.
fn start_control(mut desk: Desk) -> Result<(), StartError> {
    let run = move || {
        let mut input: Box<dyn io::Read> = Box::new(io::stdin());
        loop {
            let mut reader = BufReader::new(input);
            if let Err(error) = serve(&mut reader, &mut io::stdout(), |order| desk.obey(order)) {
                eprintln!("relay: failed to answer: {error}");
            }
            match reopen_stdin() {
                Some(file) => input = Box::new(file),
                None => return,
            }
        }
    };
    let thread = thread::Builder::new().name("control".into()).spawn(run);
    thread.map_err(|source| StartError::Thread("control", source)).map(drop)
}

/// Wait for the next writer if stdin is a named pipe; anything else that has ended stays so.
fn reopen_stdin() -> Option<File> {
    const STDIN: &str = "/proc/self/fd/0";
    let target = fs::read_link(STDIN).ok()?;
    let named = target.is_absolute() && {
        use std::os::unix::fs::FileTypeExt;
        fs::metadata(STDIN).ok()?.file_type().is_fifo()
    };
    if named { File::open(STDIN).ok() } else { None }
}
