//! What is done on purpose to running containers: one engine call each.

use super::{Docker, EngineError, Faults};
use async_trait::async_trait;
use bollard::query_parameters::{KillContainerOptions, StopContainerOptions};
use std::time::Duration;

#[async_trait]
impl Faults for Docker {
    async fn pause(&self, container: &str) -> Result<(), EngineError> {
        let done = self.timed(self.api.pause_container(container)).await;
        done.map_err(|error| self.refused("pause container", container, &error))
    }

    async fn resume(&self, container: &str) -> Result<(), EngineError> {
        let done = self.timed(self.api.unpause_container(container)).await;
        done.map_err(|error| self.refused("resume container", container, &error))
    }

    async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions {
            signal: "SIGKILL".to_owned(),
        };
        let done = self.timed(self.api.kill_container(container, Some(options))).await;
        done.map_err(|error| self.refused("kill container", container, &error))
    }

    async fn stop(&self, container: &str, grace: Duration) -> Result<(), EngineError> {
        let options = StopContainerOptions {
            // Engines count whole seconds; a part of one is rounded up, so that none becomes none.
            t: Some(i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)),
            ..StopContainerOptions::default()
        };
        let stopped = self.api.stop_container(container, Some(options));
        let done = self.clone().with_limit(self.limit + grace).timed(stopped).await;
        done.map_err(|error| self.refused("stop container", container, &error))
    }
}
