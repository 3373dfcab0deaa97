//! Orders and answers over the stdin and stdout of a container's main process: one JSON line each way, matched by id.
//!
//! Several controllers can be attached to one container at once and each sees every answer: ids are drawn at random,
//! answers to others are skipped, lines that are no answers are kept to be shown in errors. Reader and writer are
//! separate tasks, since writing without reading stalls for good once both pipes are full. Everything has a deadline.
//! Nothing is ever timed through this channel: the programs in the containers stamp for themselves.

use crate::docker::{Attached, EngineError, EngineHandle};
use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use wire::Id;

/// Longest line accepted; the samples of a long load take some megabytes.
const LONGEST_LINE: u64 = 256 << 20;
/// Lines that were no answers, kept for errors.
const HEARD_LINES: usize = 8;
/// Characters of each that are kept.
const HEARD_CHARS: usize = 400;
/// Orders written but not yet taken by the pipe.
const QUEUED_ORDERS: usize = 32;
/// Answers to one order not yet read (`Watching` and the last one).
const QUEUED_ANSWERS: usize = 4;
/// Limit of asking the engine why a container ended.
const POST_MORTEM: Duration = Duration::from_secs(5);
/// Between two looks whether orders that nobody waits for have ended.
const LOOK: Duration = Duration::from_millis(5);

/// An order that brought no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The engine refused to attach.
    #[error(transparent)]
    Attach(#[from] EngineError),
    /// No answer in time.
    #[error("hear from {container} within {} after `{order}`{heard}", seconds(*.waited))]
    Deadline {
        /// Docker name of the container.
        container: String,
        /// The order, shortened.
        order: String,
        /// How long was waited.
        waited: Duration,
        /// What else it said on stdout (empty: nothing).
        heard: String,
    },
    /// The container ended, or its streams did.
    #[error("hear from {container} after `{order}`: it ended ({post_mortem}){heard}")]
    Ended {
        /// Docker name of the container.
        container: String,
        /// The order, shortened.
        order: String,
        /// The engine's words on its end.
        post_mortem: String,
        /// What else it said on stdout (empty: nothing).
        heard: String,
    },
    /// The program refused the order.
    #[error("have {container} do `{order}`: {cause}")]
    Refused {
        /// Docker name of the container.
        container: String,
        /// The order, shortened.
        order: String,
        /// Its words.
        cause: String,
    },
    /// The answer is none that this order can have: the program's version is not ours.
    #[error("understand {container}'s answer to `{order}`: {answer}")]
    Strange {
        /// Docker name of the container.
        container: String,
        /// The order, shortened.
        order: String,
        /// The answer, shortened.
        answer: String,
    },
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// A line to one program, and the answers to it.
#[derive(Clone)]
pub struct Channel {
    line: Arc<Line>,
}

/// One attachment; the last owner detaches.
struct Line {
    container: String,
    engine: EngineHandle,
    orders: mpsc::Sender<String>,
    ears: Arc<Mutex<Ears>>,
    tasks: [AbortHandle; 2],
}

/// What the reader task shares with those who wait.
#[derive(Default)]
struct Ears {
    waiting: HashMap<Id, mpsc::Sender<String>>,
    /// Orders that nobody waits for any more and that were not answered: the program is still at them.
    forsaken: HashSet<Id>,
    heard: VecDeque<String>,
    ended: bool,
}

/// An order that was sent; answers to it are read here.
pub struct Pending {
    line: Arc<Line>,
    id: Id,
    order: String,
    answers: mpsc::Receiver<String>,
    since: Instant,
    answered: bool,
}

impl Channel {
    /// Attaches to a container's main process. Works before and after its start; nothing is asked yet.
    ///
    /// # Errors
    /// The engine's refusal, or its silence until `deadline`.
    pub async fn attach(engine: EngineHandle, container: &str, deadline: Duration) -> Result<Self, ChannelError> {
        let attached = tokio::time::timeout(deadline, engine.attach(container))
            .await
            .map_err(|_| ChannelError::Deadline {
                container: container.to_owned(),
                order: "attach".to_owned(),
                waited: deadline,
                heard: String::new(),
            })??;
        Ok(Self::over(engine, container, attached))
    }

    /// The same over streams that are attached already.
    #[must_use]
    pub fn over(engine: EngineHandle, container: &str, streams: Attached) -> Self {
        let Attached { stdin, stdout } = streams;
        let ears = Arc::new(Mutex::new(Ears::default()));
        let (orders, queued) = mpsc::channel(QUEUED_ORDERS);
        let reader = tokio::spawn(listen(stdout, Arc::clone(&ears))).abort_handle();
        let writer = tokio::spawn(speak(stdin, queued)).abort_handle();
        Self {
            line: Arc::new(Line {
                container: container.to_owned(),
                engine,
                orders,
                ears,
                tasks: [reader, writer],
            }),
        }
    }

    /// Docker name of the container at the other end.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.line.container
    }

    /// Sends an order, given as one line of JSON that carries `id`.
    ///
    /// # Errors
    /// The container ended, or takes no orders until `deadline`.
    pub async fn send(&self, id: Id, order: String, json: String, deadline: Instant) -> Result<Pending, ChannelError> {
        let (sender, answers) = mpsc::channel(QUEUED_ANSWERS);
        let pending = Pending {
            line: Arc::clone(&self.line),
            id,
            order,
            answers,
            since: Instant::now(),
            answered: false,
        };
        {
            let mut ears = lock(&self.line.ears);
            // Once ended nobody would ever drop the sender: let `next` see the end at once.
            if !ears.ended {
                ears.waiting.insert(id, sender);
            }
        }
        match timeout_at(deadline, self.line.orders.send(json)).await {
            Ok(Ok(())) => Ok(pending),
            Ok(Err(_)) => Err(pending.ended().await),
            Err(_) => Err(pending.late()),
        }
    }
}

impl Channel {
    /// Orders of ours that nobody waits for any more and that the program is still at.
    #[must_use]
    pub fn forsaken(&self) -> Vec<Id> {
        lock(&self.line.ears).forsaken.iter().copied().collect()
    }

    /// Sends an order whose answer nobody waits for, if there is room for it now; for where one cannot wait.
    pub fn tell(&self, json: String) {
        // Full or ended: then it is as if it had been lost on the way, and the program's own limits hold.
        let _ = self.line.orders.try_send(json);
    }

    /// Waits until the program has answered every order of ours that nobody waits for any more; whether it has by
    /// `deadline`. A caller that stopped waiting has not stopped the program.
    pub async fn idle(&self, deadline: Instant) -> bool {
        while !lock(&self.line.ears).forsaken.is_empty() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

impl Pending {
    /// Id of the order.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// The next answer, as JSON text.
    ///
    /// # Errors
    /// None until `deadline`, or the container ended.
    pub async fn next(&mut self, deadline: Instant) -> Result<String, ChannelError> {
        match timeout_at(deadline, self.answers.recv()).await {
            Ok(Some(answer)) => {
                self.answered = true;
                Ok(answer)
            }
            Ok(None) => Err(self.ended().await),
            Err(_) => Err(self.late()),
        }
    }

    /// The program said no.
    #[must_use]
    pub fn refused(&self, cause: String) -> ChannelError {
        ChannelError::Refused {
            container: self.line.container.clone(),
            order: self.order.clone(),
            cause,
        }
    }

    /// The program said something else.
    #[must_use]
    pub fn strange(&self, answer: &str) -> ChannelError {
        ChannelError::Strange {
            container: self.line.container.clone(),
            order: self.order.clone(),
            answer: shortened(answer),
        }
    }

    fn late(&self) -> ChannelError {
        ChannelError::Deadline {
            container: self.line.container.clone(),
            order: self.order.clone(),
            waited: self.since.elapsed(),
            heard: self.heard(),
        }
    }

    async fn ended(&self) -> ChannelError {
        let asked = self.line.engine.post_mortem(&self.line.container);
        let post_mortem = match tokio::time::timeout(POST_MORTEM, asked).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => format!("failed to {error}"),
            Err(_) => "the engine does not say why".to_owned(),
        };
        ChannelError::Ended {
            container: self.line.container.clone(),
            order: self.order.clone(),
            post_mortem,
            heard: self.heard(),
        }
    }

    fn heard(&self) -> String {
        let ears = lock(&self.line.ears);
        if ears.heard.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = ears.heard.iter().map(String::as_str).collect();
        format!("; it said: {}", lines.join(" | "))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut ears = lock(&self.line.ears);
        ears.waiting.remove(&self.id);
        if !self.answered && self.answers.is_empty() && !ears.ended {
            ears.forsaken.insert(self.id);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn lock(ears: &Mutex<Ears>) -> MutexGuard<'_, Ears> {
    // A panic while it was held leaves maps and queues that are still whole.
    ears.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// An order or answer as errors show it.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(HEARD_CHARS) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_owned(),
    }
}

async fn listen(stdout: Pin<Box<dyn AsyncRead + Send>>, ears: Arc<Mutex<Ears>>) {
    #[derive(serde::Deserialize)]
    struct Head {
        id: Id,
    }
    let mut stdout = BufReader::with_capacity(64 << 10, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stdout).take(LONGEST_LINE).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        // The first line after attaching can be the rest of an answer to somebody else: kept, not an error.
        match serde_json::from_str::<Head>(&text) {
            Ok(Head { id }) => {
                let mut ears = lock(&ears);
                ears.forsaken.remove(&id);
                if let Some(waiting) = ears.waiting.get(&id) {
                    // Fails if nobody waits any more, or a program answers again and again: both are not ours to keep.
                    let _ = waiting.try_send(text.into_owned());
                }
            }
            Err(_) if text.trim().is_empty() => {}
            Err(_) => {
                let mut ears = lock(&ears);
                if ears.heard.len() == HEARD_LINES {
                    ears.heard.pop_front();
                }
                ears.heard.push_back(shortened(&text));
            }
        }
    }
    let mut ears = lock(&ears);
    ears.ended = true;
    ears.waiting.clear();
    ears.forsaken.clear();
}

async fn speak(mut stdin: Pin<Box<dyn AsyncWrite + Send>>, mut orders: mpsc::Receiver<String>) {
    while let Some(mut order) = orders.recv().await {
        order.push('\n');
        let written = async {
            stdin.write_all(order.as_bytes()).await?;
            stdin.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::fake::Fake;
    use tokio::io::DuplexStream;

    const SOON: Duration = Duration::from_secs(2);

    /// A channel and the far end of its streams, to be played by the test.
    fn channel() -> (Channel, DuplexStream) {
        let (near, far) = tokio::io::duplex(4096);
        let (stdout, stdin) = tokio::io::split(near);
        let streams = Attached {
            stdin: Box::pin(stdin),
            stdout: Box::pin(stdout),
        };
        (Channel::over(Arc::new(Fake::new()), "tb-x-probe.dc1", streams), far)
    }

    async fn send(channel: &Channel, id: Id) -> Pending {
        let (order, json) = ("Hello".to_owned(), format!("{{\"id\":{id}}}"));
        channel.send(id, order, json, Instant::now() + SOON).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_order_gets_its_own_answers_in_whatever_order_they_come() {
        let (channel, mut far) = channel();
        let (mut one, mut two) = (send(&channel, 1).await, send(&channel, 2).await);
        let lines = b"{\"id\":9,\"foreign\":true}\n{\"id\":2,\"n\":1}\n{\"id\":1}\n\n{\"id\":2,\"n\":2}\n";
        far.write_all(lines).await.unwrap();
        let soon = Instant::now() + SOON;
        assert_eq!(one.next(soon).await.unwrap().trim(), "{\"id\":1}");
        assert_eq!(two.next(soon).await.unwrap().trim(), "{\"id\":2,\"n\":1}");
        assert_eq!(two.next(soon).await.unwrap().trim(), "{\"id\":2,\"n\":2}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_at_the_deadline_with_what_else_was_said() {
        let (channel, mut far) = channel();
        let mut pending = send(&channel, 1).await;
        far.write_all(b"exec /probe: no such file\n").await.unwrap();
        let error = pending.next(Instant::now() + SOON).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ChannelError::Deadline { .. }), "{text}");
        assert!(
            text.contains("tb-x-probe.dc1") && text.contains("`Hello`") && text.contains("no such file"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_stream_is_told_to_those_who_wait_and_to_those_who_come() {
        let (channel, far) = channel();
        let mut waiting = send(&channel, 1).await;
        drop(far);
        let soon = Instant::now() + SOON;
        assert!(matches!(waiting.next(soon).await, Err(ChannelError::Ended { .. })));
        let late = channel.send(2, "Hello".to_owned(), "{}".to_owned(), soon).await;
        let ended = match late {
            Ok(mut pending) => pending.next(soon).await.err(),
            Err(error) => Some(error),
        };
        assert!(matches!(ended, Some(ChannelError::Ended { .. })), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_is_busy_until_it_answers_an_order_that_nobody_waits_for() {
        let (channel, mut far) = channel();
        drop(send(&channel, 1).await);
        assert!(!channel.idle(Instant::now() + SOON).await);
        far.write_all(b"{\"id\":1}\n").await.unwrap();
        assert!(channel.idle(Instant::now() + SOON).await);
        drop(send(&channel, 2).await);
        drop(far);
        assert!(
            channel.idle(Instant::now() + SOON).await,
            "an ended program does nothing"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_reads_nothing_does_not_hang_the_sender() {
        let (channel, _far) = channel();
        let soon = Instant::now() + SOON;
        let long = "x".repeat(1024);
        let mut refused = None;
        let mut kept = Vec::new();
        for id in 0..100 {
            match channel.send(id, "Hello".to_owned(), long.clone(), soon).await {
                Ok(pending) => kept.push(pending),
                Err(error) => refused = Some(error),
            }
        }
        assert!(matches!(refused, Some(ChannelError::Deadline { .. })), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_megabytes_arrives_whole_while_others_go_on() {
        let (channel, mut far) = channel();
        let (mut big, mut small) = (send(&channel, 1).await, send(&channel, 2).await);
        let long = format!("{{\"id\":1,\"x\":\"{}\"}}\n{{\"id\":2}}\n", "y".repeat(3 << 20));
        let written = tokio::spawn(async move { far.write_all(long.as_bytes()).await.map(|()| far) });
        let soon = Instant::now() + SOON;
        assert!(big.next(soon).await.unwrap().len() > 3 << 20);
        assert_eq!(small.next(soon).await.unwrap().trim(), "{\"id\":2}");
        written.await.unwrap().unwrap();
    }
}
