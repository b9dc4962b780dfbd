//! Which product runs this virtual machine, and whether its memory is closed to its host: from marks of both.

/// The marks. Absent and unreadable files are `None` or false: no mark.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// `/sys/hypervisor/type`.
    pub(super) kernel_names: Option<String>,
    /// The hypervisor that CPUID names.
    pub(super) cpuid_names: Option<String>,
    /// `vendor_id` of `/proc/cpuinfo`.
    pub(super) cpu_vendor: Option<String>,
    /// `/proc/sys/kernel/osrelease`.
    pub(super) kernel_release: Option<String>,
    /// `/sys/class/dmi/id/sys_vendor`.
    pub(super) dmi_vendor: Option<String>,
    /// `/sys/class/dmi/id/chassis_asset_tag`.
    pub(super) dmi_asset_tag: Option<String>,
    /// Who made the ACPI tables: bytes 10 to 15 of `/sys/firmware/acpi/tables/FACP`, which root alone can read.
    pub(super) acpi_maker: Option<String>,
    /// The guest's device of AMD's SEV-SNP exists, or the kernel shows its privilege level.
    pub(super) sev_snp: bool,
    /// The register in which AMD's hardware states what is on in this guest (SEV_STATUS, MSR C0010131h), which root
    /// alone can read, by the module msr.
    pub(super) sev_status: Option<u64>,
    /// The guest's device of Intel's TDX exists, or the kernel shows its flag.
    pub(super) tdx: bool,
}

/// The asset tag of every machine of Azure.
const AZURE: &str = "7783-7084-3265-9085-8269-3286-77";

/// The hypervisor next below this kernel. What the kernel states of itself comes first: user-mode Linux is a process
/// and sees the CPUID of its machine; so does a paravirtual guest of Xen without CPUID faulting.
pub(super) fn hypervisor(signs: &Signs) -> Option<String> {
    if signs.cpu_vendor.as_deref() == Some("User Mode Linux") {
        return Some("uml".to_owned());
    }
    signs.kernel_names.clone().or_else(|| signs.cpuid_names.clone())
}

/// The product: `firecracker`, `aws-nitro`, `azure`, `wsl2`; `None` where none shows itself.
pub(super) fn product(signs: &Signs) -> Option<&'static str> {
    let vendor = signs.dmi_vendor.as_deref();
    match hypervisor(signs)?.as_str() {
        "kvm" if signs.acpi_maker.as_deref() == Some("FIRECK") => Some("firecracker"),
        "kvm" if vendor == Some("Amazon EC2") => Some("aws-nitro"),
        // The kernel of WSL 1 is Windows' own, and no virtual machine.
        "hyperv" if signs.kernel_release.as_deref().is_some_and(|release| release.contains("WSL2")) => Some("wsl2"),
        "hyperv" if signs.dmi_asset_tag.as_deref() == Some(AZURE) => Some("azure"),
        _ => None,
    }
}

//= AMD64 Architecture Programmer's Manual 2, 15.34.10: SEV_STATUS
const SNP_ACTIVE: u64 = 1 << 2;
const SECURE_TSC: u64 = 1 << 11;

/// What closes the guest's memory and registers to its host: `sev-snp`, `sev-snp-secure-tsc` where the host cannot
/// change the guest's counter either, or `tdx`, where it never can.
pub(super) fn confidential(signs: &Signs) -> Option<&'static str> {
    let status = signs.sev_status.unwrap_or(0);
    if status & (SNP_ACTIVE | SECURE_TSC) == SNP_ACTIVE | SECURE_TSC {
        return Some("sev-snp-secure-tsc");
    }
    if signs.sev_snp || status & SNP_ACTIVE != 0 {
        return Some("sev-snp");
    }
    signs.tdx.then_some("tdx")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_bare_machine_is_no_virtual_one() {
        let metal = Signs { dmi_vendor: text("Amazon EC2"), cpu_vendor: text("GenuineIntel"), ..Signs::default() };
        assert_eq!((hypervisor(&metal), product(&metal), confidential(&metal)), (None, None, None));
    }

    #[test]
    fn user_mode_linux_is_known_although_cpuid_names_the_hypervisor_of_its_machine() {
        let signs = Signs { cpu_vendor: text("User Mode Linux"), cpuid_names: text("kvm"), ..Signs::default() };
        assert_eq!(hypervisor(&signs).as_deref(), Some("uml"));
        assert_eq!(product(&signs), None);
    }

    #[test]
    fn guests_of_kvm_differ_by_their_firmware() {
        let kvm = |signs: Signs| product(&Signs { cpuid_names: text("kvm"), ..signs });
        assert_eq!(kvm(Signs { acpi_maker: text("FIRECK"), ..Signs::default() }), Some("firecracker"));
        assert_eq!(kvm(Signs { dmi_vendor: text("Amazon EC2"), ..Signs::default() }), Some("aws-nitro"));
        assert_eq!(
            kvm(Signs { dmi_vendor: text("QEMU"), acpi_maker: text("BOCHS "), ..Signs::default() }),
            None,
            "QEMU's own"
        );
    }

    #[test]
    fn guests_of_hyper_v_differ_by_kernel_and_asset_tag() {
        let hyperv = |signs: Signs| product(&Signs { cpuid_names: text("hyperv"), ..signs });
        let kernel = text("5.15.153.1-microsoft-standard-WSL2");
        assert_eq!(hyperv(Signs { kernel_release: kernel.clone(), ..Signs::default() }), Some("wsl2"));
        assert_eq!(hyperv(Signs { dmi_asset_tag: text(AZURE), ..Signs::default() }), Some("azure"));
        let own = Signs { dmi_vendor: text("Microsoft Corporation"), ..Signs::default() };
        assert_eq!(hyperv(own), None);
        assert_eq!(
            product(&Signs { kernel_release: kernel, ..Signs::default() }),
            None,
            "a kernel built for WSL elsewhere"
        );
    }

    #[test]
    fn a_confidential_guest_shows_the_device_that_attests_it() {
        assert_eq!(confidential(&Signs { sev_snp: true, ..Signs::default() }), Some("sev-snp"));
        let with = |sev_status| confidential(&Signs { sev_status: Some(sev_status), ..Signs::default() });
        assert_eq!(with(0x807), Some("sev-snp-secure-tsc"));
        assert_eq!(with(0x7), Some("sev-snp"));
        assert_eq!((with(0x3), with(0x800)), (None, None), "SEV-ES, whose counter is the host's; a bit alone");
        assert_eq!(confidential(&Signs { tdx: true, ..Signs::default() }), Some("tdx"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(kernel: String, vendor: String, release: String) {
            let (kernel_names, cpu_vendor, kernel_release) = (Some(kernel), Some(vendor), Some(release));
            let signs = Signs { kernel_names, cpu_vendor, kernel_release, ..Signs::default() };
            let _ = (hypervisor(&signs), product(&signs), confidential(&signs));
        }
    }
}
