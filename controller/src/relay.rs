//! Client of a relay: orders out, its own answers back, over the container's stdin and stdout. Skips answers to others'
//! orders (several controllers can be attached at once); never times anything through this channel.
//!
//! Intended shape: `RelayClient::attach(engine, container, deadline) -> Result<RelayClient, ChannelError>`,
//! `client.order(RelayOrder) -> Result<RelayStatus, ChannelError>` (`&self`, callable concurrently), and dropping it detaches.
