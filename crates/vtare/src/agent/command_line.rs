//! What the kernel's command line tells a micro guest: `vtare.KEY=VALUE` words.

use std::net::Ipv4Addr;

/// The guest's settings. What is not said stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `vtare.port`: the control channel, as `vtare agent --port` takes it.
    pub(crate) port: String,
    /// `vtare.device`: the interface that gets the address.
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: "org.vtare.agent".to_owned(),
            device: "eth0".to_owned(),
            address: None,
            mtu_byte: None,
            neighbours: Vec::new(),
            queue: None,
        }
    }
}

impl Settings {
    /// Reads the words that are vtare's; others are the kernel's.
    ///
    /// Gives the settings with a sentence for each word that says nothing.
    pub(crate) fn parse(line: &str) -> (Self, Vec<String>) {
        let (mut settings, mut problems) = (Self::default(), Vec::new());
        for word in line.split_ascii_whitespace().filter(|word| word.starts_with("vtare.")) {
            if let Err(wanted) = settings.take(word) {
                problems.push(format!("kernel command line: found '{word}', want {wanted}"));
            }
        }
        (settings, problems)
    }

    fn take(&mut self, word: &str) -> Result<(), &'static str> {
        let (key, value) = word.split_once('=').ok_or("KEY=VALUE")?;
        match key {
            "vtare.port" => value.clone_into(&mut self.port),
            "vtare.device" => value.clone_into(&mut self.device),
            "vtare.address" => self.address = Some(network(value).ok_or("A.B.C.D/LENGTH")?),
            "vtare.mtu" => self.mtu_byte = Some(value.parse().map_err(|_| "a number of bytes")?),
            "vtare.neighbours" => {
                let all: Option<Vec<_>> = value.split(',').map(neighbour).collect();
                self.neighbours = all.ok_or("A.B.C.D@xx:xx:xx:xx:xx:xx, several with commas between")?;
            }
            "vtare.queue" => {
                self.queue = Some(match value {
                    "fq" => Queue::Fq,
                    "etf" => Queue::Etf,
                    _ => return Err("fq or etf"),
                });
            }
            _ => {
                return Err("one of vtare.port, vtare.device, vtare.address, vtare.mtu, vtare.neighbours, vtare.queue");
            }
        }
        Ok(())
    }
}

fn network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, length) = text.split_once('/')?;
    let length = length.parse().ok().filter(|length| *length <= 32)?;
    Some((address.parse().ok()?, length))
}

fn neighbour(text: &str) -> Option<(Ipv4Addr, [u8; 6])> {
    let (address, hardware) = text.split_once('@')?;
    let bytes: Option<Vec<u8>> =
        hardware.split(':').map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok())?).collect();
    Some((address.parse().ok()?, bytes?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_vtare_are_read_and_those_of_the_kernel_are_not() {
        let line = "console=ttyS0 quiet vtare.queue=etf vtare.address=10.77.1.2/16 clocksource=hpet vtare.mtu=9000 vtare.port=/dev/ttyS1 \
                    vtare.neighbours=10.77.2.1@02:76:0a:4d:02:01,10.77.2.2@02:76:0a:4d:02:02 rdinit=/vtare -- agent --init";
        let (settings, problems) = Settings::parse(line);
        assert_eq!(problems, Vec::<String>::new());
        let wanted = Settings {
            port: "/dev/ttyS1".to_owned(),
            address: Some((Ipv4Addr::new(10, 77, 1, 2), 16)),
            mtu_byte: Some(9000),
            neighbours: vec![
                (Ipv4Addr::new(10, 77, 2, 1), [2, 0x76, 0x0a, 0x4d, 2, 1]),
                (Ipv4Addr::new(10, 77, 2, 2), [2, 0x76, 0x0a, 0x4d, 2, 2]),
            ],
            queue: Some(Queue::Etf),
            ..Settings::default()
        };
        assert_eq!(settings, wanted);
    }

    #[test]
    fn a_word_that_says_nothing_is_named_and_changes_nothing() {
        let line = "vtare.address=10.77.1.2/33 vtare.mtu=big vtare.neighbours=10.0.0.1@2:76:0a:4d:02:01 vtare.x=1 vtare.port vtare.queue=fq_codel";
        let (settings, problems) = Settings::parse(line);
        assert_eq!((settings, problems.len()), (Settings::default(), 6));
        assert!(problems[0].contains("'vtare.address=10.77.1.2/33', want A.B.C.D/LENGTH"), "{problems:?}");
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "(vtare\\.(port|device|address|mtu|neighbours|queue)=[0-9a-f.:@,/ é]{0,30} ?){0,5}") {
            Settings::parse(&line);
        }
    }
}
