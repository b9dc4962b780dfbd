use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use vtare_link::xdp::XdpError;
use vtare_sys::SysError;
use vtare_sys::net::{Layer, PathMtu, Socket, StampFlags, tcp};
use vtare_units::Span;
use vtare_wire::session::{Discards, Table};

use crate::control_server::{self, ControlServer};
use crate::error::ServeError;
use crate::journal::{Journal, Line};
use crate::kernel::{Attached, XdpReflector};
use crate::options::Options;
use crate::probe_socket::LOOK_EVERY;
use crate::reflector::{self, Reflector};
use crate::reverse;
use crate::sink::Watch;
use crate::stamp::{self, StampOptions, StampSocket};
use crate::tally::Tally;
use crate::witness::Witness;

/// Asked of the kernel for the probes' receive buffer: 20,000 datagrams of 64 B, 20 ms at 1 Mpps.
const BUFFER_BYTE: i32 = 16 << 20;

/// Connections that may wait in the kernel's queue until they are accepted: 2 s of a flood of 2,000 a second, for times
/// in which the thread that accepts them does not run. The kernel bounds it by net.core.somaxconn (4,096 by default).
const WAITING: u16 = 4_096;

/// What the kernel gave to the probes' socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Obtained {
    /// Arrivals are stamped by the kernel.
    pub rx_stamp: bool,
    /// Bytes of the receive buffer; the kernel counts its own overhead in.
    pub receive_buffer_byte: i32,
    /// What was refused, as the system reports them.
    pub refusals: Vec<String>,
}

/// What a responder did in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Sessions opened.
    pub sessions: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Of those, judged by a program in the kernel.
    pub in_kernel: u64,
    /// Replies that the kernel took.
    pub replies: u64,
    /// Replies that it did not take.
    pub unsent: u64,
    /// Datagrams that no session could be charged with.
    pub discards: Discards,
    /// Datagrams that the kernel dropped because the receive buffer was full; `None` where it does not report it.
    pub socket_drops: Option<u64>,
    /// Connections that were closed before they had shown the key.
    pub turned_away: u64,
}

/// A responder whose sockets are open.
#[derive(Debug)]
pub struct Responder {
    options: Options,
    listener: mio::net::TcpListener,
    poll: mio::Poll,
    watch: Watch,
    probes: Socket,
    address: SocketAddr,
    obtained: Obtained,
    witness: Witness,
    stamp: Option<StampSocket>,
    xdp: Option<XdpReflector>,
}

impl Responder {
    /// Opens the sockets.
    ///
    /// # Errors
    /// [`ServeError::NeedsKey`], [`ServeError::Listen`]; where the system refuses descriptors.
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let listen = options.listen;
        if options.keys.is_empty() && !listen.ip().to_canonical().is_loopback() {
            return Err(ServeError::NeedsKey { listen });
        }
        // In a static program the random source is a file, which can no longer be opened once privileges are given up.
        getrandom::fill(&mut [0; 1]).map_err(|error| ServeError::Io {
            doing: "reading the system's random source",
            source: std::io::Error::other(error.to_string()),
        })?;
        let refused = |layer| move |source| ServeError::Listen { listen, layer, source };
        let mut listener = mio::net::TcpListener::bind(listen).map_err(refused("TCP"))?;
        tcp::wait_in_queue(&listener, WAITING)?;
        // Port 0 lets the kernel choose for TCP; UDP takes the same one.
        let address = listener.local_addr().map_err(refused("TCP"))?;
        let probes = Socket::open(Layer::Udp, address)?;
        probes.bind(address).map_err(|error| ServeError::Listen {
            listen: address,
            layer: "UDP",
            source: error.into(),
        })?;
        let obtained = prepare(&probes)?;
        probes
            .may_wait(LOOK_EVERY)
            .map_err(|source| ServeError::Io { doing: "letting the probes' socket wait", source })?;
        let poll = control_server::watch_listener(&mut listener)?;
        let watch = Watch::new()?;
        // Its clock reads files that cannot be opened later.
        let witness = Witness::new(&options.keys);
        Ok(Self { options, listener, poll, watch, probes, address, obtained, witness, stamp: None, xdp: None })
    }

    /// Offers a STAMP reflector (RFC 8762) at `listen`, too, and gives its address. It answers each packet with as many
    /// bytes as came; without a key whoever asks.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub fn offer_stamp(&mut self, listen: SocketAddr, options: StampOptions) -> Result<SocketAddr, ServeError> {
        let (socket, address) = StampSocket::bind(listen, options)?;
        self.stamp = Some(socket);
        Ok(address)
    }

    /// Has a program in the kernel answer what comes in over `interface`, where it can; the rest goes on to the socket.
    /// Done before privileges are given up.
    ///
    /// # Errors
    /// Where the kernel or the interface cannot do it.
    pub fn attach_xdp(&mut self, interface: &str) -> Result<(), XdpError> {
        self.xdp = Some(XdpReflector::attach(interface, self.address, self.options.limits.sessions)?);
        Ok(())
    }

    /// Where a program in the kernel answers, if one does.
    #[must_use]
    pub fn in_kernel(&self) -> Option<&Attached> {
        self.xdp.as_ref()?.attached()
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the kernel gave.
    #[must_use]
    pub const fn obtained(&self) -> &Obtained {
        &self.obtained
    }

    /// Serves until `stop` is set, and checks it at least every 100 ms. Lines of the journal go to `write`.
    ///
    /// # Errors
    /// Where a thread cannot be started or pinned, or the kernel fails a socket.
    pub fn run(self, stop: &AtomicBool, write: impl FnMut(&Line) + Send) -> Result<Summary, ServeError> {
        let Self { options, listener, poll, mut watch, probes, witness, stamp, xdp, .. } = self;
        let silent = options.limits.tcp.unwrap_or_default().silent_ns;
        let (sink_handle, sink) = watch.split(Span::from_unsigned_nanos(silent));
        let table = Table::new(options.limits);
        let table = Mutex::new(match xdp {
            Some(xdp) => table.with_offload(Box::new(xdp)),
            None => table,
        });
        let tally = Tally::default();
        // Either thread's failure ends the other.
        let over = AtomicBool::new(false);
        let ended = || stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed);
        let (order, orders) = std::sync::mpsc::channel();
        let (probes, ended) = (&probes, &ended);
        let (reflected, received) = std::thread::scope(|scope| {
            let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let (table, tally, over, options) = (&table, &tally, &over, &options);
            let control = named("control").spawn_scoped(scope, move || {
                let journal = Journal::new(write);
                let result =
                    ControlServer::new(options, listener, poll, table, tally, (journal, probes, order, sink_handle))
                        .serve(ended);
                over.store(true, Ordering::Relaxed);
                result
            });
            let reverse = named("reverse")
                .spawn_scoped(scope, move || reverse::send_trains(probes, table, &orders, options.segments, ended));
            let drained = named("sink").spawn_scoped(scope, move || {
                let result = sink.drain(ended);
                over.store(true, Ordering::Relaxed);
                result
            });
            let stamped = named("stamp").spawn_scoped(scope, move || stamp::run(stamp.as_ref(), tally, over, ended));
            let reflected = match (&control, &reverse, &stamped, &drained) {
                (Ok(_), Ok(_), Ok(_), Ok(_)) => Reflector::new(probes, table, tally, options.segments, witness)
                    .reflect(options.spin, options.cpu, ended),
                _ => Ok(reflector::Counts::default()),
            };
            over.store(true, Ordering::Relaxed);
            let failed = |source| ServeError::Io { doing: "starting a thread", source };
            let received = match control {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(source) => Err(failed(source)),
            };
            let stamped = match stamped {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(source) => Err(failed(source)),
            };
            let drained = match drained {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(source) => Err(failed(source)),
            };
            let stamped = stamped.and(drained);
            (reverse.map_err(failed).and(reflected).and_then(|counts| stamped.map(|()| counts)), received)
        });
        let (counts, counted) = (reflected?, received?);
        let table = table.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (discards, in_kernel) = (table.discards(), table.offloaded());
        Ok(Summary {
            sessions: counted.sessions,
            datagrams: counts.datagrams + in_kernel.datagrams(),
            replies: counts.replies + in_kernel.replied,
            in_kernel: in_kernel.datagrams(),
            unsent: counts.unsent,
            discards,
            socket_drops: counts.socket_drops,
            turned_away: counted.turned_away,
        })
    }
}

fn prepare(probes: &Socket) -> Result<Obtained, SysError> {
    let mut refusals = Vec::new();
    let stamps = probes.stamp(StampFlags { receive_software: true, ..StampFlags::default() });
    let rx_stamp = stamps.map_err(|error| refusals.push(error.to_string())).is_ok();
    let (receive_buffer_byte, _) = probes.set_buffers(BUFFER_BYTE)?;
    // Bound to all addresses, the kernel would answer from the one that its routing prefers, and a client takes no
    // answer from another address than it asked.
    if probes.local_address().is_ok_and(|local| local.ip().is_unspecified()) {
        probes.report_local().unwrap_or_else(|error| refusals.push(error.to_string()));
    }
    probes.report_class().unwrap_or_else(|error| refusals.push(error.to_string()));
    probes.path_mtu(PathMtu::FragmentAtInterface).unwrap_or_else(|error| refusals.push(error.to_string()));
    if receive_buffer_byte < BUFFER_BYTE {
        refusals.push(format!(
            "receive buffer of {receive_buffer_byte} B, wanted {BUFFER_BYTE} B: run as root or raise net.core.rmem_max"
        ));
    }
    Ok(Obtained { rx_stamp, receive_buffer_byte, refusals })
}
