//! The client: drives [`RpmRun`] over real connections, down and then up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Uri;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use vtare_methods::rpm::{Direction, RpmEvent, RpmFigures, RpmProbe, RpmRun, RpmSettings, RpmStep};
use vtare_units::Random;

use crate::connect::{Connector, Open, fetch};
use crate::load::Loads;
use crate::site::{Site, address_of};
use crate::{RpmError, now, since};

/// Longest configuration, bytes.
const MOST_CONFIGURATION_BYTE: usize = 65_536;
/// Longest answer to a probe, bytes: one is wanted.
const MOST_SMALL_BYTE: usize = 1_024;
/// Probes of the idle path.
const IDLE_PROBES: usize = 5;
/// A probe without an answer for so long has none.
const PROBE_TIME: Duration = Duration::from_secs(10);
/// Before the first answer, and for the configuration.
const REACH_TIME: Duration = Duration::from_secs(10);
/// Queues of one direction are empty after this.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Probes of each kind that wait for their answers at most.
const MOST_WAITING: usize = 128;

/// What a task of a direction ended with.
enum Ended {
    Foreign(Result<RpmProbe, RpmError>),
    OnLoad(Result<RpmProbe, RpmError>),
    Lost(RpmError),
}

/// Measures both directions and reports what happens. Ends early, with what is known, once `stop` holds true.
///
/// # Errors
/// Where the far end cannot be reached or has no valid configuration. One that is lost later is part of the events.
pub async fn measure(
    peer: &str,
    seed: u64,
    settings: RpmSettings,
    mut stop: watch::Receiver<bool>,
    report: &mut impl FnMut(&RpmEvent),
) -> Result<(), RpmError> {
    let reached = tokio::select! {
        reached = timeout(REACH_TIME, reach(peer)) => reached,
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let late = |_| RpmError::Peer(format!("{peer}: no answer for {} s", REACH_TIME.as_secs()));
    let (site, connector, idle_rtt_ns) = reached.map_err(late)??;
    let congestion = connector.congestion().to_owned();
    report(&RpmEvent::Reached { address: connector.address(), congestion, idle_rtt_ns });
    for direction in [Direction::Down, Direction::Up] {
        let loads = Loads::new(&connector, &site, direction);
        let mut run = Run::new(settings, seed, connector.clone(), loads, site.small.clone());
        let lost = tokio::select! {
            lost = run.drive(direction, report) => lost,
            _ = stop.wait_for(|stop| *stop) => None,
        };
        let (figures, failed_probes) = (run.figures(), run.failed);
        drop(run);
        let ended = lost.is_some() || *stop.borrow();
        let lost = lost.map(|error| error.to_string());
        report(&RpmEvent::Direction { direction, figures, failed_probes, lost });
        if ended {
            break;
        }
        sleep(DRAIN_TIME).await;
    }
    Ok(())
}

/// Fetches the configuration, and probes the idle path.
async fn reach(peer: &str) -> Result<(Arc<Site>, Connector, u64), RpmError> {
    let address = address_of(peer)?;
    let connector = Connector::find(&Site::of_configuration(&address)?).await?;
    let text = with_connection(connector.open().await?, |send| async move {
        fetch(&send, &address, MOST_CONFIGURATION_BYTE).await
    });
    let site = Site::of_json(&text.await?)?;
    let connector = Connector::find(&site).await?;
    let mut idle = Vec::new();
    for _ in 0..IDLE_PROBES {
        if let RpmProbe::Foreign { tcp_ns, .. } = foreign(&connector, &site.small).await? {
            idle.push(tcp_ns);
        }
    }
    idle.sort_unstable();
    Ok((Arc::new(site), connector, idle[IDLE_PROBES / 2]))
}

/// Polls a connection while `work` has its requests answered.
async fn with_connection<T, F>((send, connection, _): Open, work: impl FnOnce(SendRequest<Bytes>) -> F) -> F::Output
where
    F: Future<Output = Result<T, RpmError>>,
{
    tokio::select! {
        done = work(send) => done,
        ended = connection => Err(match ended {
            Ok(()) => RpmError::Peer("the far end closed the connection".to_owned()),
            Err(error) => RpmError::Peer(error.to_string()),
        }),
    }
}

/// A foreign probe.
async fn foreign(connector: &Connector, small: &Uri) -> Result<RpmProbe, RpmError> {
    let open = connector.open().await?;
    let (tcp_ns, tls_ns) = (open.2.tcp_ns, open.2.tls_ns);
    let begin = now();
    let http = with_connection(open, |send| async move {
        fetch(&send, small, MOST_SMALL_BYTE).await?;
        Ok(since(begin))
    });
    Ok(RpmProbe::Foreign { tcp_ns, tls_ns, http_ns: http.await? })
}

/// A self probe. The connection is polled by its load.
async fn on_load(send: SendRequest<Bytes>, small: &Uri) -> Result<RpmProbe, RpmError> {
    let begin = now();
    fetch(&send, small, MOST_SMALL_BYTE).await?;
    Ok(RpmProbe::OnLoad { http_ns: since(begin) })
}

/// What is not answered in time has failed.
async fn in_time(probe: impl Future<Output = Result<RpmProbe, RpmError>>) -> Result<RpmProbe, RpmError> {
    let late = |_| RpmError::Peer("a probe was not answered in time".to_owned());
    timeout(PROBE_TIME, probe).await.map_err(late)?
}

/// One direction under way. Dropping it closes its connections.
struct Run {
    run: RpmRun,
    settings: RpmSettings,
    connector: Connector,
    loads: Loads,
    small: Uri,
    random: Random,
    tasks: JoinSet<Ended>,
    /// Foreign and self probes that wait for their answers.
    waiting: [usize; 2],
    failed: u64,
}

impl Run {
    fn new(settings: RpmSettings, seed: u64, connector: Connector, loads: Loads, small: Uri) -> Self {
        Self {
            run: RpmRun::new(settings),
            settings,
            connector,
            loads,
            small,
            random: Random::new(seed),
            tasks: JoinSet::new(),
            waiting: [0, 0],
            failed: 0,
        }
    }

    fn figures(&self) -> RpmFigures {
        self.run.figures()
    }

    fn add_loads(&mut self, count: usize) {
        for _ in 0..count {
            let load = self.loads.clone();
            self.tasks.spawn(async move {
                match load.run().await {
                    Ok(never) => match never {},
                    Err(error) => Ended::Lost(error),
                }
            });
        }
    }

    /// Launches a probe. One that would be one too many to wait is left out.
    fn launch(&mut self, is_foreign: bool) {
        let waiting = &mut self.waiting[usize::from(!is_foreign)];
        if *waiting >= MOST_WAITING {
            return;
        }
        let small = self.small.clone();
        if is_foreign {
            let connector = self.connector.clone();
            self.tasks.spawn(async move { Ended::Foreign(in_time(foreign(&connector, &small)).await) });
        } else if let Some(send) = self.loads.any(&mut self.random) {
            self.tasks.spawn(async move { Ended::OnLoad(in_time(on_load(send, &small)).await) });
        } else {
            return;
        }
        *waiting += 1;
    }

    /// Goes on until the direction is measured, or a load-generating connection is lost: then the error.
    async fn drive(&mut self, direction: Direction, report: &mut impl FnMut(&RpmEvent)) -> Option<RpmError> {
        let interval = Duration::from_nanos(self.settings.interval_ns);
        self.add_loads(self.settings.initial_connections);
        let (mut begin, mut number) = (now(), 0);
        let (mut interval_end, mut next_probe) = (Instant::now() + interval, Instant::now());
        let mut is_foreign = true;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(interval_end) => {
                    let step = self.run.close_interval(self.loads.take_moved(), since(begin));
                    (begin, number, interval_end) = (now(), number + 1, interval_end + interval);
                    match step {
                        RpmStep::Add(count) => self.add_loads(count),
                        RpmStep::Done => return None,
                    }
                }
                () = sleep_until(next_probe) => {
                    self.launch(is_foreign);
                    is_foreign = !is_foreign;
                    // After a stall those that were due meanwhile are left out.
                    next_probe = (next_probe + self.half_gap()).max(Instant::now());
                }
                Some(ended) = self.tasks.join_next() => {
                    let (kind, probe) = match ended {
                        Ok(Ended::Foreign(probe)) => (0, probe),
                        Ok(Ended::OnLoad(probe)) => (1, probe),
                        Ok(Ended::Lost(error)) => return Some(error),
                        Err(error) => return Some(RpmError::Machine(format!("a task ended early: {error}"))),
                    };
                    self.waiting[kind] -= 1;
                    match probe {
                        Ok(probe) => {
                            self.run.observe(probe);
                            report(&RpmEvent::Probe { direction, interval: number, probe });
                        }
                        Err(_) => self.failed += 1,
                    }
                }
            }
        }
    }

    /// The two kinds of probes interleave.
    fn half_gap(&self) -> Duration {
        Duration::from_nanos(self.run.pair_gap_ns() / 2)
    }
}
