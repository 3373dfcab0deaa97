//! Containers that are paused, killed and stopped, by the rules of a real engine.

use super::{Fake, State, World, refused};
use crate::docker::{EngineError, Faults, Refusal};
use async_trait::async_trait;
use std::time::Duration;

#[async_trait]
impl Faults for Fake {
    async fn pause(&self, container: &str) -> Result<(), EngineError> {
        let to = |_: &str| State::Paused;
        self.change("pause container", container, &State::Running, to).await
    }

    async fn resume(&self, container: &str) -> Result<(), EngineError> {
        let to = |_: &str| State::Running;
        self.change("resume container", container, &State::Paused, to).await
    }

    async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let to = |name: &str| State::Exited(137, format!("{name} was killed"));
        self.change("kill container", container, &State::Running, to).await
    }

    async fn stop(&self, container: &str, _: Duration) -> Result<(), EngineError> {
        let to = |name: &str| State::Exited(0, format!("{name} ended in order"));
        self.change("stop container", container, &State::Running, to).await
    }
}

impl Fake {
    async fn change(
        &self,
        verb: &'static str,
        container: &str,
        from: &State,
        to: impl FnOnce(&str) -> State + Send,
    ) -> Result<(), EngineError> {
        let name = self.world().name_of(container);
        self.call(verb, &name, |world| world.change(verb, &name, from, to(&name)))
            .await
    }
}

impl World {
    fn change(&mut self, verb: &'static str, name: &str, from: &State, to: State) -> Result<(), EngineError> {
        let Some(found) = self.container(name) else {
            return Err(refused(verb, name, Refusal::NotFound, "No such container"));
        };
        let state = found.state.borrow().clone();
        if state != *from {
            let cause = format!("Container is {}", state.as_str());
            return Err(refused(verb, name, Refusal::Other, &cause));
        }
        found.state.send_replace(to);
        Ok(())
    }
}
