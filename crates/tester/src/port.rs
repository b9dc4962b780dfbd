use vtare_sys::net::frames::interface_index;
use vtare_sys::net::{interface, route};

use crate::error::TesterError;
use crate::options::Engine;
use crate::size::{ETHERNET_BYTE, FCS_BYTE, LARGEST_BYTE, SMALLEST_BYTE};

/// A port of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) index: u32,
    pub(crate) address: [u8; 6],
    pub(crate) kind: Option<String>,
}

impl Port {
    fn find(name: &str, frame_byte: u32) -> Result<Self, TesterError> {
        let name_of = || name.to_owned();
        let Some(index) = interface_index(name) else {
            let known = interface::all().unwrap_or_default().into_iter().map(|it| it.name).collect::<Vec<_>>();
            return Err(TesterError::NoPort { name: name_of(), known: known.join(", ") });
        };
        let link = route::link(index)?;
        let up = interface::all()?.into_iter().any(|it| it.index == index && it.up);
        if !up {
            return Err(TesterError::Down { name: name_of() });
        }
        let Some(address) = link.address.filter(|address| *address != [0; 6]) else {
            return Err(TesterError::NoEthernet { name: name_of() });
        };
        let wanted_byte = frame_byte - FCS_BYTE - ETHERNET_BYTE;
        if wanted_byte > link.mtu_byte {
            return Err(TesterError::Mtu { name: name_of(), frame_byte, wanted_byte, mtu_byte: link.mtu_byte });
        }
        Ok(Self { index, address, kind: link.kind })
    }
}

/// Both ports, where they and the engine carry frames of this size.
pub(crate) fn ports(tx: &str, rx: &str, frame_byte: u32, engine: Engine) -> Result<(Port, Port), TesterError> {
    let most_byte = engine.most_frame_byte();
    if frame_byte < SMALLEST_BYTE || frame_byte > most_byte {
        let because = if (SMALLEST_BYTE..=LARGEST_BYTE).contains(&frame_byte) {
            " with this engine: use engine packet"
        } else {
            ""
        };
        return Err(TesterError::Size { found_byte: frame_byte, most_byte, because });
    }
    Ok((Port::find(tx, frame_byte)?, Port::find(rx, frame_byte)?))
}

/// Sees that both ports are there and up, and that they and the engine carry frames of this size: before hours are
/// spent on smaller ones.
///
/// # Errors
/// [`TesterError`], with the way out.
pub fn check(tx: &str, rx: &str, frame_byte: u32, engine: Engine) -> Result<(), TesterError> {
    ports(tx, rx, frame_byte, engine).map(drop)
}

/// The hardware address of a port.
///
/// # Errors
/// [`TesterError`], where there is none.
pub fn hardware_address(port: &str) -> Result<[u8; 6], TesterError> {
    Port::find(port, SMALLEST_BYTE).map(|port| port.address)
}
