//! The process that raises a lab, in words that another process can check: who it is, and whether it is dead.
//!
//! A number of a process alone proves nothing: it is given again, and on another host it is somebody else's. So a process is
//! known by its kernel (the boot id), its namespaces, its number and its start. What cannot be checked from here, on another
//! host, in another container, without a /proc, is never called dead.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Namespaces without which a number and a start mean nothing.
const NAMESPACES: [&str; 2] = ["pid", "time"];

/// A process that makes labs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Name of its host, for people.
    pub host: String,
    /// Its user, for people.
    pub user: String,
    /// Its number.
    pub pid: u32,
    /// When it began, RFC 3339, for people.
    pub since: String,
    /// Id of this run of its kernel (empty: it has none to tell).
    boot: String,
    /// Its namespaces of processes and of time.
    namespaces: String,
    /// Its start, in ticks of the kernel's clock.
    start: u64,
}

/// What is known of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Alive,
    /// It is gone.
    Dead,
    /// It cannot be seen from here.
    Unknown,
}

/// A process of this machine.
enum Seen {
    /// There is none of this number, or it has ended and nobody has asked how.
    Gone,
    /// It began at this tick.
    Since(u64),
    /// It is there and must not be looked at.
    Hidden,
}

impl Controller {
    /// This process.
    #[must_use]
    pub fn own() -> &'static Self {
        static OWN: OnceLock<Controller> = OnceLock::new();
        OWN.get_or_init(|| {
            let pid = std::process::id();
            let start = match look(pid) {
                Seen::Since(start) => start,
                Seen::Gone | Seen::Hidden => 0,
            };
            Self {
                host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                user: std::env::var("USER").unwrap_or_else(|_| format!("uid {}", rustix::process::getuid().as_raw())),
                pid,
                since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
                // Without a start the number could be anybody's: then nothing can be checked.
                boot: if start == 0 { String::new() } else { boot() },
                namespaces: namespaces(),
                start,
            }
        })
    }

    /// As label value; two labels are the same only if the process is.
    #[must_use]
    pub fn label(&self) -> String {
        serde_json::to_string(self).expect("a controller is JSON")
    }

    /// From a label value (`None`: of another version of testbed).
    #[must_use]
    pub fn from_label(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn fate(&self) -> Fate {
        if self.boot.is_empty() || self.boot != boot() || self.namespaces != namespaces() {
            return Fate::Unknown;
        }
        match look(self.pid) {
            Seen::Gone => Fate::Dead,
            Seen::Since(start) if start != self.start => Fate::Dead,
            Seen::Since(_) => Fate::Alive,
            Seen::Hidden => Fate::Unknown,
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host, user, pid, since, ..
        } = self;
        write!(f, "process {pid} of {user} on {host}, at work since {since}")
    }
}

fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn namespaces() -> String {
    let each = NAMESPACES.iter().map(|name| {
        let link = std::fs::read_link(Path::new("/proc/self/ns").join(name));
        // A kernel without such a namespace has one for all.
        link.map(|to| to.to_string_lossy().into_owned()).unwrap_or_default()
    });
    each.collect::<Vec<_>>().join(" ")
}

fn look(pid: u32) -> Seen {
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let Some(number) = number else { return Seen::Gone };
    // The kernel is asked first: /proc can be mounted so that it hides the processes of other users.
    if rustix::process::test_kill_process(number) == Err(rustix::io::Errno::SRCH) {
        return Seen::Gone;
    }
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => read(&stat),
        Err(_) => Seen::Hidden,
    }
}

/// State and start out of /proc/PID/stat, the third and the 22nd field. The second, the program's name, can contain anything.
fn read(stat: &str) -> Seen {
    let fields: Vec<&str> = match stat.rsplit_once(") ") {
        Some((_, rest)) => rest.split(' ').collect(),
        None => return Seen::Hidden,
    };
    match (fields.first(), fields.get(19).and_then(|start| start.parse().ok())) {
        (Some(&("Z" | "X")), _) => Seen::Gone,
        (_, Some(start)) => Seen::Since(start),
        (_, None) => Seen::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn this_process_is_alive_and_survives_its_label() {
        let own = Controller::own();
        assert_eq!(own.fate(), Fate::Alive);
        assert_eq!(Controller::from_label(&own.label()).as_ref(), Some(own));
        assert!(own.to_string().contains(&std::process::id().to_string()), "{own}");
    }

    #[test]
    fn a_number_given_again_is_another_process() {
        let before = Controller {
            start: Controller::own().start - 1,
            ..Controller::own().clone()
        };
        assert_eq!(before.fate(), Fate::Dead);
    }

    #[test]
    fn one_that_ended_is_dead_before_anybody_has_asked_how() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let Seen::Since(start) = look(child.id()) else {
            panic!("a child can be seen");
        };
        let controller = Controller {
            pid: child.id(),
            start,
            ..Controller::own().clone()
        };
        assert_eq!(controller.fate(), Fate::Alive);
        drop(child.stdin.take());
        let begun = std::time::Instant::now();
        while controller.fate() != Fate::Dead {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "it has ended and nobody has waited for it"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert_eq!(controller.fate(), Fate::Dead);
    }

    #[test]
    fn what_cannot_be_checked_from_here_is_never_called_dead() {
        let gone = Controller {
            pid: u32::MAX >> 1,
            ..Controller::own().clone()
        };
        assert_eq!(gone.fate(), Fate::Dead);
        for elsewhere in [
            Controller {
                boot: "another".to_owned(),
                ..gone.clone()
            },
            Controller {
                boot: String::new(),
                ..gone.clone()
            },
            Controller {
                namespaces: "pid:[1]".to_owned(),
                ..gone.clone()
            },
        ] {
            assert_eq!(elsewhere.fate(), Fate::Unknown, "{elsewhere:?}");
        }
    }

    #[test]
    fn a_programs_name_cannot_move_the_fields() {
        let rest = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert!(matches!(read(&format!("7 (a) Z 1 (b) {rest}")), Seen::Since(4711)));
        assert!(matches!(read("7 (a) Z 1 1 1"), Seen::Gone));
        assert!(matches!(read("nothing"), Seen::Hidden));
    }
}
