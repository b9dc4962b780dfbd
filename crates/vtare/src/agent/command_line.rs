//! The settings that the kernel's command line gives a micro guest: `vtare.KEY=VALUE` words.

use std::net::Ipv4Addr;

use crate::quantities::not;

/// The guest's settings. What is not given stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `vtare.port`: the control channel, as `vtare agent --port` takes it.
    pub(crate) port: String,
    /// `vtare.forward=1`: pass packets on between the interfaces.
    pub(crate) forward: bool,
    /// `vtare.disk`: the block device, as in `vda`, whose ext4 file system becomes `/tmp`.
    pub(crate) disk: Option<String>,
    /// `vtare.tmp=root`: `/tmp` is left to the root file system, which another machine shares, instead of memory.
    pub(crate) root_tmp: bool,
    /// Each `vtare.device` begins one, to which the words behind it belong; words before the first are eth0's.
    pub(crate) interfaces: Vec<Interface>,
}

/// What one interface gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// `vtare.device`: its name, or its hardware address.
    pub(crate) device: String,
    /// `vtare.address=A.B.C.D/LENGTH`: its address.
    pub(crate) address: Option<(Ipv4Addr, u8)>,
    /// `vtare.mtu`: its MTU in bytes.
    pub(crate) mtu_byte: Option<u32>,
    /// `vtare.neighbours=A.B.C.D@xx:xx:xx:xx:xx:xx,..`: hardware addresses that nobody needs to ask for.
    pub(crate) neighbours: Vec<(Ipv4Addr, [u8; 6])>,
    /// `vtare.queue`: its queue discipline, `fq` or `etf`.
    pub(crate) queue: Option<Queue>,
}

/// A queue discipline that keeps launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Fair queueing.
    Fq,
    /// Earliest launch time first.
    Etf,
}

impl Interface {
    fn of(device: &str) -> Self {
        Self { device: device.to_owned(), address: None, mtu_byte: None, neighbours: Vec::new(), queue: None }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: "org.vtare.agent".to_owned(),
            forward: false,
            disk: None,
            root_tmp: false,
            interfaces: vec![Interface::of("eth0")],
        }
    }
}

impl Settings {
    /// Reads the words that are vtare's; others are the kernel's.
    ///
    /// Gives the settings with a sentence for each word that has no meaning.
    pub(crate) fn parse(line: &str) -> (Self, Vec<String>) {
        let mut settings = Self { interfaces: Vec::new(), ..Self::default() };
        let mut problems = Vec::new();
        for word in line.split_ascii_whitespace().filter(|word| word.starts_with("vtare.")) {
            if let Err(wanted) = settings.take(word) {
                problems.push(format!("kernel command line: {}", not(word, wanted)));
            }
        }
        if settings.interfaces.is_empty() {
            settings.interfaces = Self::default().interfaces;
        }
        (settings, problems)
    }

    fn take(&mut self, word: &str) -> Result<(), &'static str> {
        let (key, value) = word.split_once('=').ok_or("KEY=VALUE")?;
        match key {
            "vtare.port" => value.clone_into(&mut self.port),
            "vtare.forward" if value == "1" => self.forward = true,
            "vtare.forward" => return Err("vtare.forward=1, or no such word"),
            "vtare.tmp" if value == "root" => self.root_tmp = true,
            "vtare.tmp" => return Err("vtare.tmp=root, or no such word"),
            "vtare.disk" if is_name(value) => self.disk = Some(value.to_owned()),
            "vtare.disk" => return Err("the name of a block device, as in vda"),
            "vtare.device" => self.interfaces.push(Interface::of(value)),
            "vtare.address" => self.last().address = Some(network(value).ok_or("A.B.C.D/LENGTH")?),
            "vtare.mtu" => self.last().mtu_byte = Some(value.parse().map_err(|_| "a number of bytes")?),
            "vtare.neighbours" => {
                let all: Option<Vec<_>> = value.split(',').map(neighbour).collect();
                self.last().neighbours = all.ok_or("A.B.C.D@xx:xx:xx:xx:xx:xx, several with commas between")?;
            }
            "vtare.queue" => {
                self.last().queue = Some(match value {
                    "fq" => Queue::Fq,
                    "etf" => Queue::Etf,
                    _ => return Err("fq or etf"),
                });
            }
            _ => {
                return Err(
                    "one of vtare.port, vtare.forward, vtare.disk, vtare.tmp, vtare.device, vtare.address, vtare.mtu, \
                     vtare.neighbours, vtare.queue",
                );
            }
        }
        Ok(())
    }

    /// The interface that words now belong to.
    fn last(&mut self) -> &mut Interface {
        if self.interfaces.is_empty() {
            self.interfaces = Self::default().interfaces;
        }
        let at = self.interfaces.len() - 1;
        &mut self.interfaces[at]
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, length) = text.split_once('/')?;
    let length = length.parse().ok().filter(|length| *length <= 32)?;
    Some((address.parse().ok()?, length))
}

fn neighbour(text: &str) -> Option<(Ipv4Addr, [u8; 6])> {
    let (address, hardware) = text.split_once('@')?;
    Some((address.parse().ok()?, hardware_address(hardware)?))
}

/// Reads `xx:xx:xx:xx:xx:xx`.
pub(crate) fn hardware_address(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok())?).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_vtare_are_read_and_those_of_the_kernel_are_not() {
        let line = "console=ttyS0 quiet vtare.queue=etf vtare.address=10.77.1.2/16 clocksource=hpet vtare.mtu=9000 \
                    vtare.disk=vda vtare.port=/dev/ttyS1 \
                    vtare.neighbours=10.77.2.1@02:76:0a:4d:02:01,10.77.2.2@02:76:0a:4d:02:02 \
                    rdinit=/vtare -- agent --init";
        let (settings, problems) = Settings::parse(line);
        assert_eq!(problems, Vec::<String>::new());
        let eth0 = Interface {
            device: "eth0".to_owned(),
            address: Some((Ipv4Addr::new(10, 77, 1, 2), 16)),
            mtu_byte: Some(9000),
            neighbours: vec![
                (Ipv4Addr::new(10, 77, 2, 1), [2, 0x76, 0x0a, 0x4d, 2, 1]),
                (Ipv4Addr::new(10, 77, 2, 2), [2, 0x76, 0x0a, 0x4d, 2, 2]),
            ],
            queue: Some(Queue::Etf),
        };
        let wanted = Settings {
            port: "/dev/ttyS1".to_owned(),
            forward: false,
            disk: Some("vda".to_owned()),
            root_tmp: false,
            interfaces: vec![eth0],
        };
        assert_eq!(settings, wanted);
    }

    #[test]
    fn each_device_gets_the_words_behind_it() {
        let line = "vtare.forward=1 vtare.tmp=root vtare.device=02:76:c6:01:00:01 vtare.address=198.18.1.1/16 \
                    vtare.mtu=9000 vtare.device=in1 vtare.address=198.19.1.1/16 \
                    vtare.neighbours=198.19.0.1@02:76:c6:00:00:02";
        let (settings, problems) = Settings::parse(line);
        assert_eq!(problems, Vec::<String>::new());
        let first = Interface {
            address: Some((Ipv4Addr::new(198, 18, 1, 1), 16)),
            mtu_byte: Some(9000),
            ..Interface::of("02:76:c6:01:00:01")
        };
        let second = Interface {
            address: Some((Ipv4Addr::new(198, 19, 1, 1), 16)),
            neighbours: vec![(Ipv4Addr::new(198, 19, 0, 1), [2, 0x76, 0xc6, 0, 0, 2])],
            ..Interface::of("in1")
        };
        assert_eq!((settings.forward, settings.root_tmp, settings.interfaces), (true, true, vec![first, second]));
        // What stands before the first device is eth0's.
        let (settings, _) = Settings::parse("vtare.mtu=1400 vtare.device=eth1");
        let names: Vec<&str> = settings.interfaces.iter().map(|one| one.device.as_str()).collect();
        assert_eq!((names, settings.interfaces[0].mtu_byte), (vec!["eth0", "eth1"], Some(1400)));
    }

    #[test]
    fn a_word_that_states_nothing_is_named_and_changes_nothing() {
        let line = "vtare.address=10.77.1.2/33 vtare.mtu=big vtare.neighbours=10.0.0.1@2:76:0a:4d:02:01 vtare.x=1 \
            vtare.port vtare.forward=0 vtare.queue=fq_codel vtare.disk=../vda vtare.tmp=disk";
        let (settings, problems) = Settings::parse(line);
        assert_eq!((settings, problems.len()), (Settings::default(), 9));
        assert!(problems[0].contains("'vtare.address=10.77.1.2/33' is not A.B.C.D/LENGTH"), "{problems:?}");
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "(vtare\\.(port|forward|disk|tmp|device|address|mtu|neighbours|queue)=[0-9a-f.:\
            @,/ é]{0,30} ?){0,5}") {
            Settings::parse(&line);
        }
    }
}
