use vtare_pathsim::PeerClock;
use vtare_wire::full;
use vtare_wire::session::{Arrivals, ClientError, Counters, Grant, Limits, Reason, ReversePlan};

use crate::link::ProbeLink;
use crate::sim::{Responder, SimLink};

/// The far end of a session for trains.
pub trait Far<L: ?Sized> {
    /// Why it cannot be asked, or what it refuses.
    type Error: std::error::Error + 'static;

    /// What has been recorded from place `from` on.
    ///
    /// # Errors
    /// Where the far end cannot be asked.
    fn arrivals(&mut self, link: &mut L, from: u64) -> Result<Arrivals, Self::Error>;

    /// Has it send a train, and gives the number of the first packet.
    ///
    /// # Errors
    /// Where it refuses, or cannot be asked.
    fn reverse(&mut self, link: &mut L, plan: ReversePlan) -> Result<u64, Self::Error>;

    /// Its counters.
    ///
    /// # Errors
    /// Where the far end cannot be asked.
    fn count(&mut self, link: &mut L) -> Result<Counters, Self::Error>;
}

/// The far end of a simulated path, asked without delay.
#[derive(Clone, Debug)]
pub struct SimFar {
    /// The session, opened in the [`Responder`]'s table for available bandwidth.
    pub grant: Grant,
    /// The clock of the simulated far end.
    pub clock: PeerClock,
}

impl SimFar {
    fn refused(reason: Reason) -> ClientError {
        ClientError::Refused(Limits::default().refuse(reason))
    }
}

impl Far<SimLink<Responder>> for SimFar {
    type Error = ClientError;

    fn arrivals(&mut self, link: &mut SimLink<Responder>, from: u64) -> Result<Arrivals, Self::Error> {
        let (now, drops) = (link.now(), link.far_dropped() as u32);
        let table = &mut link.far_side_mut().table;
        table.note_socket_drops(Some(drops));
        table.arrivals(now, self.grant.session, from).ok_or_else(|| Self::refused(Reason::UnknownSession))
    }

    fn reverse(&mut self, link: &mut SimLink<Responder>, plan: ReversePlan) -> Result<u64, Self::Error> {
        let now = link.now();
        let order = link.far_side_mut().table.reverse(now, self.grant.session, plan);
        let order = order.map_err(ClientError::Refused)?;
        let plan = &order.plan;
        let mut datagram = vec![0; plan.size_byte.into()];
        for (number, due) in plan.spacing.due(plan.packets).enumerate() {
            let at = now + due;
            let sequence = order.first_sequence + number as u64;
            let packet = full::Reverse { session: order.session, sequence, sent: self.clock.at(at) };
            packet.encode(&order.key, &mut datagram).expect("the size was checked when the train was granted");
            link.send_from_far(at, &datagram);
        }
        link.far_side_mut().table.reversed(&order, plan.packets.into());
        Ok(order.first_sequence)
    }

    fn count(&mut self, link: &mut SimLink<Responder>) -> Result<Counters, Self::Error> {
        let (now, drops) = (link.now(), link.far_dropped() as u32);
        let table = &mut link.far_side_mut().table;
        table.note_socket_drops(Some(drops));
        table.count(now, self.grant.session).ok_or_else(|| Self::refused(Reason::UnknownSession))
    }
}
