//! The relay to compare with: it ends TCP, and holds each portion of bytes back with tokio's sleep, as relays of byte
//! streams do. On loopback, with TCP_NODELAY on all sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;

/// Round trips through it minus twice the delay, minus the median round trip through it at zero delay; microseconds.
pub async fn errors(delay: Duration, count: u32, pause: Duration) -> io::Result<Vec<f64>> {
    let echo = echo()?;
    let path_us = super::quantile(
        &round_trips(relay(echo, Duration::ZERO).await?, count, pause).await?,
        0.5,
    );
    let held = round_trips(relay(echo, delay).await?, count, pause).await?;
    let own_us = 2e6 * delay.as_secs_f64();
    Ok(held.into_iter().map(|us| us - own_us - path_us).collect())
}

/// A server that sends back what it gets.
fn echo() -> io::Result<SocketAddr> {
    let listener = StdListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || -> io::Result<()> {
                stream.set_nodelay(true)?;
                let mut byte = [0];
                loop {
                    stream.read_exact(&mut byte)?;
                    stream.write_all(&byte)?;
                }
            });
        }
    });
    Ok(address)
}

/// A relay to `target`, for one connection.
async fn relay(target: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (near, _) = listener.accept().await?;
        let far = TcpStream::connect(target).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        tokio::spawn(carry(near_read, far_write, delay));
        tokio::spawn(carry(far_read, near_write, delay));
        io::Result::Ok(())
    });
    Ok(address)
}

/// One direction: each portion leaves its delay after it came.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) -> io::Result<()> {
    let (held, mut due) = unbounded_channel::<(tokio::time::Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, portion)) = due.recv().await {
            if !delay.is_zero() {
                tokio::time::sleep_until(at).await;
            }
            to.write_all(&portion).await?;
        }
        io::Result::Ok(())
    });
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0
            || held
                .send((tokio::time::Instant::now() + delay, buffer[..length].to_vec()))
                .is_err()
        {
            return Ok(());
        }
    }
}

/// From a thread of its own, with blocking sockets.
async fn round_trips(relay: SocketAddr, count: u32, pause: Duration) -> io::Result<Vec<f64>> {
    let measure = move || {
        let mut stream = StdStream::connect(relay)?;
        stream.set_nodelay(true)?;
        let mut spans = Vec::new();
        for _ in 0..count {
            thread::sleep(pause);
            let began = Instant::now();
            stream.write_all(&[1])?;
            stream.read_exact(&mut [0])?;
            spans.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(spans)
    };
    tokio::task::spawn_blocking(measure).await?
}
