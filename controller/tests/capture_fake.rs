//! Captures on the engine in memory, whose relays tell of one packet each time they are asked: whatever happens, the relays
//! are told to end the capture. The clock is the test's: waiting takes no time.

#![allow(clippy::unwrap_used)]

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use testbed::capture::{Capture, CaptureError};
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::{prepare, source};
use testbed::docker::EngineHandle;
use testbed::docker::fake::Fake;
use testbed::lab::{self, Lab};
use testbed::names::{DatacenterName, LabName};
use testbed::plan::{self, Images};
use testbed::progress::Progress;
use testbed::stop::Stop;
use tokio::io::AsyncWrite;

async fn raised(fake: &Fake) -> Lab {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/two-dc.yaml");
    let source = source::read(&file, Format::Text, Color::Never).unwrap();
    let images = Images {
        relay: "testbed/relay:0".to_owned(),
        probe: "testbed/probe:0".to_owned(),
        releases: prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).unwrap(),
    };
    let name = LabName::new("one").unwrap();
    let plan = plan::plan(&source.topology, &source.hash, &name, None, &images, &[]).unwrap();
    let engine: EngineHandle = Arc::new(fake.clone());
    let limit = Duration::from_secs(60);
    let lab = lab::raise(engine.into(), plan, &Progress::silent(), &Stop::never(), limit).await;
    lab.unwrap_or_else(|error| panic!("{error}"))
}

async fn begin(lab: &Lab) -> Result<Capture, CaptureError> {
    let [one, other] = ["dc1", "dc2"].map(|name| DatacenterName::new(name).unwrap());
    Capture::begin(lab, &[(&one, &other), (&other, &one)], 100).await
}

async fn capturing(lab: &Lab) -> Vec<bool> {
    let links = lab.links().await.unwrap();
    links.iter().map(|link| link.status.capturing).collect()
}

/// A disk that is full after the head of the file.
struct Full {
    writes: usize,
}

impl AsyncWrite for Full {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes += 1;
        Poll::Ready(match self.writes {
            1 => Ok(bytes.len()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_capture_asks_again_and_again_and_is_ended() {
    let lab = raised(&Fake::new()).await;
    let mut capture = begin(&lab).await.unwrap();
    assert_eq!(capturing(&lab).await, [true, true]);
    let mut file = Vec::new();
    // Five looks, 50 ms apart, and the last one when the time is up.
    let until = tokio::time::sleep(Duration::from_millis(275));
    capture.follow(&mut file, until).await.unwrap();
    let counts: Vec<_> = capture
        .counts()
        .map(|(_, counts)| (counts.arrived, counts.lost))
        .collect();
    assert_eq!(counts, [(6, 6), (6, 6)]);
    assert_eq!(capturing(&lab).await, [false, false]);
    let packets = file.windows(4).filter(|bytes| *bytes == [0x45, 0, 0, 20]).count();
    assert_eq!(packets, 12, "all that was counted is in the file");
}

#[tokio::test(start_paused = true)]
async fn a_second_capture_is_refused_and_the_first_goes_on() {
    let lab = raised(&Fake::new()).await;
    let first = begin(&lab).await.unwrap();
    let refused = begin(&lab).await.err().map(|error| error.to_string());
    assert_eq!(
        refused.as_deref(),
        Some("capture dc1:dc2: it is being captured already")
    );
    assert_eq!(capturing(&lab).await, [true, true]);
    first.end().await.unwrap();
    assert_eq!(capturing(&lab).await, [false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_capture_that_cannot_be_written_is_ended() {
    let lab = raised(&Fake::new()).await;
    let mut capture = begin(&lab).await.unwrap();
    let followed = capture
        .follow(&mut Full { writes: 0 }, std::future::pending::<()>())
        .await;
    assert!(matches!(followed, Err(CaptureError::Write(_))), "{followed:?}");
    assert_eq!(capturing(&lab).await, [false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_ends_does_not_keep_the_other_from_being_told() {
    let fake = Fake::new();
    let lab = raised(&fake).await;
    let mut capture = begin(&lab).await.unwrap();
    let end = async {
        tokio::time::sleep(Duration::from_millis(75)).await;
        fake.end("tb-one-relay.dc2", 137, "killed");
        std::future::pending::<()>().await;
    };
    let mut file = Vec::new();
    let followed = capture.follow(&mut file, end).await;
    let Err(CaptureError::Channel(error)) = followed else {
        panic!("{followed:?}");
    };
    assert!(error.to_string().contains("tb-one-relay.dc2"), "{error}");
    let [one, other] = ["dc1", "dc2"].map(|name| DatacenterName::new(name).unwrap());
    assert!(!lab.link(&one, &other).await.unwrap().status.capturing);
    let packets = file.windows(4).filter(|bytes| *bytes == [0x45, 0, 0, 20]).count();
    assert!(packets >= 2, "what was told before is in the file: {packets}");
}
