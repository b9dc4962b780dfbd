//! The page that a daemon keeps and all processes of this machine read.

use std::io;
use std::path::{Path, PathBuf};

use vtare_clock::{Clock, Confirmed, HEARTBEAT, Keeper, PAGE_WORDS, Unconfirmed, UtcInterval, UtcLine, UtcPage};
use vtare_sys::clocks;
use vtare_sys::shared_page::SharedPage;
use vtare_sys::vmgenid::Restores;
use vtare_units::Monotonic;

use crate::ask::{WitnessError, Witnesses};

/// Where the page is unless `VTARE_UTC_PAGE` names another file.
const USUAL: &str = "/run/vtare/utc";

/// Where the page is.
#[must_use]
pub fn page_path() -> PathBuf {
    std::env::var_os("VTARE_UTC_PAGE").map_or_else(|| PathBuf::from(USUAL), PathBuf::from)
}

/// The page, as a process reads it.
#[derive(Debug)]
pub struct PageReader {
    page: SharedPage<PAGE_WORDS>,
    state: UtcPage,
}

impl PageReader {
    /// Opens the page.
    ///
    /// # Errors
    /// Where there is none, or others than root and this user could write it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedPage::read(path)?, state: UtcPage::default() })
    }

    /// UTC now: no system call, no lock.
    #[inline]
    #[must_use]
    pub fn interval(&self, clock: &Clock) -> UtcInterval {
        self.state.interval(clock, self.page.words())
    }
}

/// The page, as the daemon keeps it.
#[derive(Debug)]
pub struct PageWriter {
    page: SharedPage<PAGE_WORDS>,
}

impl PageWriter {
    /// Opens the page, made where there is none.
    ///
    /// # Errors
    /// Where it cannot be made, or another daemon keeps it.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
            std::fs::create_dir(directory)?;
        }
        let page = SharedPage::write(path)?;
        if !UtcPage::is_new(page.words()) && UtcPage::load(page.words()).is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no page of vtare clock"));
        }
        Ok(Self { page })
    }

    /// Writes a line.
    pub fn write(&self, line: &UtcLine) {
        UtcPage::write(self.page.words(), line);
    }

    /// Asks the witnesses once a heartbeat until `ended`, and writes what they confirm; `report` gets each round.
    ///
    /// # Errors
    /// [`WitnessError::System`].
    pub fn keep(
        &self,
        witnesses: &Witnesses,
        clock: &Clock,
        ended: &dyn Fn() -> bool,
        mut report: impl FnMut(&UtcLine, &Result<Confirmed, Unconfirmed>),
    ) -> Result<(), WitnessError> {
        let socket = witnesses.socket()?;
        let before = UtcPage::load(self.page.words()).unwrap_or_default();
        let mut keeper = Keeper::new(witnesses.own_host(), HEARTBEAT, &before);
        // Without it a restore shows a heartbeat later.
        let restores = Restores::listen().ok();
        while !ended() {
            let round = witnesses.ask(clock, &socket, HEARTBEAT)?;
            let next = round.begun + HEARTBEAT;
            if restores.as_ref().is_some_and(Restores::happened) {
                keeper.disrupt();
            }
            let (line, confirmed) = keeper.next(round);
            self.write(&line);
            report(&line, &confirmed);
            // A clock that was set back must not be waited for longer than that.
            let until = next.min(clocks::now::<Monotonic>() + HEARTBEAT);
            let restored = match &restores {
                Some(restores) => restores.sleep_until(until),
                None => {
                    let _ = clocks::sleep_until(until);
                    false
                }
            };
            if restored {
                self.write(&keeper.disrupt());
            }
        }
        Ok(())
    }
}
