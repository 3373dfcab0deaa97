//! When an application is ready: it runs, and listens where its topology says so. The probe of its own datacenter tries the
//! port, so that no link is on the way.

use super::LabError;
use super::ready::{Asker, Bounds, NotYet, until};
use crate::plan::PlannedApplication;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Limit of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);

impl Asker<'_> {
    /// Waits until an application runs and accepts connections on its port, if it has one.
    pub(super) async fn application(&self, application: &PlannedApplication, bounds: &Bounds) -> Result<(), LabError> {
        let PlannedApplication {
            name,
            datacenter,
            container,
            ..
        } = application;
        let what = match application.ready {
            Some(port) => format!("application {name} (it listens on port {port})"),
            None => format!("application {name} (it runs)"),
        };
        until(&what, bounds, |_| async move {
            self.runs(datacenter, name, container).await?;
            if let Some(port) = application.ready {
                // Without a command nothing is sent: it is a connection and no more.
                let target = SocketAddrV4::new(application.address, port);
                self.probe.redis_all(target, Vec::new(), ATTEMPT).await?;
            }
            Ok::<(), NotYet>(())
        })
        .await
    }
}
