//! A real lab of topologies/two-dc.yaml for a test of its own, removed at its end whatever becomes of it.

use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::prepare::{self, Ground};
use testbed::commands::source;
use testbed::docker::Docker;
use testbed::lab::Lab;
use testbed::names::{DatacenterName, LabName};
use testbed::progress::Progress;
use testbed::stop::Stop;

/// Limit of raising it, for a busy machine.
const READY: Duration = Duration::from_secs(60);

/// See the top of the file.
pub struct Ours {
    lab: Lab,
    _gone: Gone,
}

/// Removes what has this name, a lab half made too.
struct Gone(LabName);

impl Ours {
    /// Raises a lab whose name begins like this.
    pub async fn raise(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/two-dc.yaml");
        let source = source::read(&file, Format::Text, Color::Never).unwrap();
        let releases = prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).unwrap();
        let docker = Docker::connect(None).await.unwrap();
        let ground = Ground::prepare(docker, source, releases, &Progress::silent())
            .await
            .unwrap();
        let name = LabName::new(&format!("{name}-{}", std::process::id())).unwrap();
        let gone = Gone(name.clone());
        let raised = ground
            .raise(&name, None, &Progress::silent(), &Stop::never(), READY)
            .await;
        Self {
            lab: raised.unwrap_or_else(|error| panic!("{error:?}")),
            _gone: gone,
        }
    }
}

impl Deref for Ours {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        let down = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["down", "-q", "-y", "-p", self.0.as_str()])
            .stdout(Stdio::null())
            .status();
        let removed = down.is_ok_and(|status| status.success());
        assert!(removed || std::thread::panicking(), "lab `{}` is left behind", self.0);
    }
}

/// A datacenter by name.
pub fn dc(name: &str) -> DatacenterName {
    DatacenterName::new(name).unwrap()
}
