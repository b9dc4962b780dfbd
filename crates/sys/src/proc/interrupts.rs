//! `/proc/interrupts` and `/proc/softirqs`: events by line and CPU.

/// One line: a device's interrupt, a kind of interrupt of the kernel itself, or a softirq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedLine {
    /// The short name: `36`, `LOC`, `NET_RX`.
    pub name: String,
    /// What the kernel writes behind the counts: `Local timer interrupts`, `PCI-MSIX-... virtio1-req.0`; may be empty.
    pub description: String,
    /// Events on each CPU, in the order of [`PerCpuCounts::cpus`].
    pub counts: Vec<u64>,
}

/// Events by line and CPU since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerCpuCounts {
    /// The CPUs that have a column.
    pub cpus: Vec<usize>,
    /// The lines, in the kernel's order. Lines that are no count per CPU (`ERR`, `MIS`) are left out.
    pub lines: Vec<CountedLine>,
}

impl PerCpuCounts {
    /// Parses `/proc/interrupts` or `/proc/softirqs`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let header = lines.next()?;
        let cpus: Vec<usize> =
            header.split_whitespace().map(|word| word.strip_prefix("CPU")?.parse().ok()).collect::<Option<_>>()?;
        if cpus.is_empty() {
            return None;
        }
        let parse_line = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let mut rest = rest.trim_start();
            let mut counts = Vec::with_capacity(cpus.len());
            while counts.len() < cpus.len() {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                counts.push(rest[..end].parse().ok()?);
                rest = rest[end..].trim_start();
            }
            let description = rest.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(CountedLine { name: name.trim().to_owned(), description, counts })
        };
        let lines = lines.filter_map(parse_line).collect();
        Some(Self { cpus, lines })
    }

    /// All events on `cpu`; `None` where it has no column.
    #[must_use]
    pub fn total_on(&self, cpu: usize) -> Option<u64> {
        let column = self.cpus.iter().position(|known| *known == cpu)?;
        Some(self.lines.iter().map(|line| line.counts[column]).fold(0, u64::saturating_add))
    }

    /// The lines that counted something on `cpu`, most first.
    #[must_use]
    pub fn busiest_on(&self, cpu: usize) -> Vec<(&CountedLine, u64)> {
        let Some(column) = self.cpus.iter().position(|known| *known == cpu) else { return Vec::new() };
        let mut lines: Vec<_> =
            self.lines.iter().map(|line| (line, line.counts[column])).filter(|(_, count)| *count > 0).collect();
        lines.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        lines
    }

    /// What was added since `earlier`, line by line; a line that is new, gone or went back is left out. `None` where
    /// the CPUs have changed.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        if self.cpus != earlier.cpus {
            return None;
        }
        let lines = self.lines.iter().filter_map(|line| {
            let before =
                earlier.lines.iter().find(|other| other.name == line.name && other.description == line.description)?;
            let counts = line
                .counts
                .iter()
                .zip(&before.counts)
                .map(|(now, then)| now.checked_sub(*then))
                .collect::<Option<_>>()?;
            Some(CountedLine { counts, ..line.clone() })
        });
        Some(Self { cpus: self.cpus.clone(), lines: lines.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORDED: &str = "           CPU0       CPU1       \n \
        24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
        36:          0     115807 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        LOC:      26629      40116   Local timer interrupts\nERR:          0\nMIS:          0\n";
    const SOFTIRQS: &str = "                    CPU0       CPU1       \n          HI:          0          0\n       \
        TIMER:       9985      12708\n      NET_TX:          4          0\n";

    #[test]
    fn lines_have_a_name_a_description_and_a_count_for_each_cpu() {
        let found = PerCpuCounts::parse(RECORDED).expect("a recorded text");
        assert_eq!(found.cpus, [0, 1]);
        assert_eq!(found.lines.len(), 3, "ERR and MIS are no counts per CPU");
        assert_eq!(found.lines[1].name, "36");
        assert_eq!(found.lines[1].description, "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0");
        assert_eq!(found.total_on(1), Some(155_923));
        assert_eq!(found.total_on(2), None);
        let busiest: Vec<_> =
            found.busiest_on(1).into_iter().map(|(line, count)| (line.name.as_str(), count)).collect();
        assert_eq!(busiest, [("36", 115_807), ("LOC", 40_116)]);
    }

    #[test]
    fn softirqs_are_read_alike() {
        let found = PerCpuCounts::parse(SOFTIRQS).expect("a recorded text");
        assert_eq!(found.total_on(0), Some(9_989));
    }

    #[test]
    fn a_difference_holds_what_was_added() {
        let earlier = PerCpuCounts::parse(RECORDED).expect("a recorded text");
        let later = PerCpuCounts::parse(&RECORDED.replace("26629", "26700")).expect("a recorded text");
        let added = later.since(&earlier).expect("the same CPUs");
        assert_eq!((added.total_on(0), added.total_on(1)), (Some(71), Some(0)));
        assert!(
            earlier.since(&later).expect("the same CPUs").lines.iter().all(|line| line.name != "LOC"),
            "LOC went back"
        );
    }

    #[test]
    fn another_set_of_cpus_gives_no_difference() {
        let one = PerCpuCounts::parse("  CPU0 \nLOC: 5 Local timer interrupts\n").expect("a valid text");
        assert_eq!(one.since(&PerCpuCounts::parse(RECORDED).expect("a recorded text")), None);
        assert_eq!(PerCpuCounts::parse(""), None);
        assert_eq!(PerCpuCounts::parse("no header here\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            header in "( CPU[0-9]{1,22}){0,3}",
            body in "([ A-Z0-9]{0,5}:?[ 0-9\u{e9}]{0,40}\n){0,5}",
        ) {
            if let Some(found) = PerCpuCounts::parse(&format!("{header}\n{body}")) {
                let _ = (found.total_on(0), found.busiest_on(0), found.since(&found));
            }
        }
    }
}
