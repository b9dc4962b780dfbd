//! What CPUID and the hypervisor report of themselves.
//!
//! `cpuid` traps to the hypervisor in a guest (3.5 us here), so it is asked at start only.

use serde::Serialize;

/// What CPUID reports about time and the hypervisor. On CPUs other than x86-64 the x86 facts are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Features {
    /// CPUID 80000007h EDX\[8\]: the counter's rate does not change with frequency or sleep states.
    pub invariant_tsc: Option<bool>,
    /// Whether RDTSCP exists.
    pub rdtscp: Option<bool>,
    /// The hypervisor's CPUID vendor text (`KVMKVMKVM`, `XenVMMXenVMM`, `VMwareVMware`, `Microsoft Hv`,
    /// `TCGTCGTCGTCG`, ...); `None` where no hypervisor shows itself.
    pub hypervisor_vendor: Option<String>,
    /// The TSC rate that CPUID 15h or 40000010h states, in Hz.
    pub stated_tsc_hz: Option<u64>,
}

impl Features {
    /// Asks this CPU.
    #[must_use]
    pub fn read() -> Self {
        read_features()
    }

    /// The hypervisor by its common name: `kvm`, `xen`, `vmware`, `hyperv`, `tcg`, `bhyve`, `parallels`, or the vendor
    /// text.
    #[must_use]
    pub fn hypervisor_name(&self) -> Option<String> {
        self.hypervisor_vendor.as_deref().map(|vendor| {
            match vendor {
                "KVMKVMKVM" | "Linux KVM Hv" => "kvm",
                "XenVMMXenVMM" => "xen",
                "VMwareVMware" => "vmware",
                "Microsoft Hv" => "hyperv",
                "TCGTCGTCGTCG" => "tcg",
                "bhyve bhyve" => "bhyve",
                " lrpepyh  vr" | "prl hyperv" => "parallels",
                "VBoxVBoxVBox" => "virtualbox",
                other => other,
            }
            .to_owned()
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> core::arch::x86_64::CpuidResult {
    #[allow(unused_unsafe, reason = "Rust 1.92 and older want the block")]
    // SAFETY: CPUID is in every x86-64 CPU.
    unsafe {
        core::arch::x86_64::__cpuid(leaf)
    }
}

#[cfg(target_arch = "x86_64")]
fn read_features() -> Features {
    let text = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    };
    let leaf1 = cpuid(1);
    let top = cpuid(0).eax;
    let top_extended = cpuid(0x8000_0000).eax;
    let hypervisor = (leaf1.ecx >> 31 & 1 == 1).then(|| cpuid(0x4000_0000));
    // Intel SDM 18.7.3: crystal clock (ECX) x EBX / EAX; any of them 0 means not stated.
    let from_crystal = (top >= 0x15)
        .then(|| cpuid(0x15))
        .filter(|leaf| leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0)
        .map(|leaf| u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
    let from_hypervisor = hypervisor
        .filter(|leaf| leaf.eax >= 0x4000_0010)
        .map(|_| u64::from(cpuid(0x4000_0010).eax) * 1_000)
        .filter(|hz| *hz != 0);
    Features {
        invariant_tsc: Some(top_extended >= 0x8000_0007 && cpuid(0x8000_0007).edx >> 8 & 1 == 1),
        rdtscp: Some(top_extended >= 0x8000_0001 && cpuid(0x8000_0001).edx >> 27 & 1 == 1),
        hypervisor_vendor: hypervisor.map(|leaf| text(&[leaf.ebx, leaf.ecx, leaf.edx])),
        stated_tsc_hz: from_crystal.or(from_hypervisor),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_features() -> Features {
    Features { invariant_tsc: None, rdtscp: None, hypervisor_vendor: None, stated_tsc_hz: None }
}

/// Whether this process may read the counter. `PR_SET_TSC` can make RDTSC raise SIGSEGV (x86-64 only).
#[must_use]
pub fn counter_permitted() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
        // SAFETY: PR_GET_TSC writes one int to a live, aligned address.
        let answer = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
        answer != 0 || mode != libc::PR_TSC_SIGSEGV
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        super::counter::AVAILABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(vendor: &str) -> Features {
        Features { hypervisor_vendor: Some(vendor.to_owned()), ..Features::read() }
    }

    #[test]
    fn hypervisors_are_known_by_their_common_names() {
        assert_eq!(features("KVMKVMKVM").hypervisor_name().as_deref(), Some("kvm"));
        assert_eq!(features("TCGTCGTCGTCG").hypervisor_name().as_deref(), Some("tcg"));
        assert_eq!(features("NovelVisor").hypervisor_name().as_deref(), Some("NovelVisor"));
    }
}
