//! What makes the calls of the counter function.

use super::function::{Call, Machine, Size};
use super::language::Language;
use super::parameters::Parameters;
use super::program::Program;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::Note;
use crate::sentences::counter as words;

/// What makes the calls: this process, or a program in another language.
pub(super) enum Caller<'c> {
    /// This process, in Rust.
    Own(Machine<'c>),
    /// A program in another language.
    Other(Box<Program>),
}

impl<'c> Caller<'c> {
    /// Finds the speed of the function in the language asked for; `None` where a request to stop came first.
    pub(super) fn start(parameters: &Parameters, context: &'c Context) -> Result<Option<Self>, Failure> {
        Ok(match parameters.language {
            Language::Rust => {
                let machine = Machine::calibrate(context.clock(), parameters.unit_ms, parameters.max_exponent);
                Some(Self::Own(machine))
            }
            _ => Program::start(parameters, context)?.map(|program| Self::Other(Box::new(program))),
        })
    }

    /// How calls are cut on this machine.
    pub(super) fn size(&self) -> &Size {
        match self {
            Self::Own(machine) => &machine.size,
            Self::Other(program) => &program.size,
        }
    }

    /// Makes the first of the `upcoming` calls, if there is any, and gives each gap to `on_gap`; `None` where a request
    /// to stop came first.
    pub(super) fn call(
        &mut self,
        mut upcoming: impl Iterator<Item = u64>,
        context: &Context,
        on_gap: impl FnMut(i64),
    ) -> Result<Option<Call>, Failure> {
        match self {
            Self::Own(machine) => Ok(upcoming.next().and_then(|argument| machine.call(argument, context, on_gap))),
            Self::Other(program) => program.call(upcoming, context, on_gap),
        }
    }

    /// What people should know of it.
    pub(super) fn notes(&self) -> Vec<Note> {
        let index = words::speed_index(self.size().steps_per_ms);
        let mut notes = vec![Note::new("machine_speed_index", index)];
        if let Self::Other(program) = self {
            notes.push(Note::new("program", program.described()));
        }
        notes
    }
}
