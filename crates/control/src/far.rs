//! The responder at the other end of a control connection as the far end of trains.

use vtare_probe::train::Far;
use vtare_wire::session::{Arrivals, Counters, ReversePlan};

use crate::client::{ControlError, OpenedSession};

impl<L: ?Sized> Far<L> for OpenedSession {
    type Error = ControlError;

    fn arrivals(&mut self, _: &mut L, from: u64) -> Result<Arrivals, ControlError> {
        OpenedSession::arrivals(self, from)
    }

    fn reverse(&mut self, _: &mut L, plan: ReversePlan) -> Result<u64, ControlError> {
        OpenedSession::reverse(self, plan)
    }

    fn count(&mut self, _: &mut L) -> Result<Counters, ControlError> {
        OpenedSession::count(self)
    }
}
