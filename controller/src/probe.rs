//! Client of a probe: as `relay`, with the probe's orders and answers.
//!
//! Intended shape: `ProbeClient::attach(engine, container, deadline)`, `client.order(ProbeOrder, deadline: Duration) ->
//! Result<ProbeAnswer, ChannelError>` (`&self`, callable concurrently), `client.watch(order, deadline) -> Result<Watching, _>`
//! for `Poll`/`Watch`: returns once `Watching` was announced, `watching.finish().await` gives the second answer.
//! Thin typed wrappers: `redis(target, &[&str]) -> Reply`, `samples(...)`, `echo(...)`.
