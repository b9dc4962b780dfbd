//! Which container is around this process, from the marks that container managers leave.

/// The marks. Absent and unreadable files are `None` or false: no mark.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// `/proc/1/cgroup`.
    pub(super) cgroup_of_init: Option<String>,
    /// `/proc/1/environ`, or this process's own where that is not readable; NUL between entries.
    pub(super) environment_of_init: Option<String>,
    /// `/run/systemd/container`, which systemd writes inside a container, or `/run/host/container-manager`, which what
    /// started it writes.
    pub(super) systemd_says: Option<String>,
    /// `/run/.containerenv` exists.
    pub(super) podman_file: bool,
    /// `/.dockerenv` exists.
    pub(super) docker_file: bool,
    /// The kernel is gVisor's own: `/proc/gvisor` exists, or its release ends in `-gvisor`.
    pub(super) gvisor_kernel: bool,
    /// The first process of this PID namespace is bubblewrap's, which waits for all others.
    pub(super) bubblewrap_is_init: bool,
    /// A pod's secrets are mounted.
    pub(super) kubernetes_secret: bool,
}

/// The container's kind. gVisor comes before the engine that started it, since its kernel answers the system calls,
/// and before the marks of the host, whose files it may show; so does bubblewrap, whose sandbox has what files it is
/// given. Kubernetes comes next because it runs on one of the
/// others; a name that the manager gives itself (`container=`) before files, files before paths of control groups,
/// which namespaces hide.
pub(super) fn name(signs: &Signs) -> Option<String> {
    if signs.gvisor_kernel {
        return Some("gvisor".to_owned());
    }
    if signs.bubblewrap_is_init {
        return Some("bubblewrap".to_owned());
    }
    let environment = signs.environment_of_init.as_deref().unwrap_or("");
    let entry =
        |key: &str| environment.split('\0').find_map(|entry| entry.strip_prefix(key)).filter(|value| !value.is_empty());
    let paths = signs.cgroup_of_init.as_deref().unwrap_or("");
    if signs.kubernetes_secret || entry("KUBERNETES_SERVICE_HOST=").is_some() || paths.contains("kubepods") {
        return Some("kubernetes".to_owned());
    }
    // systemd's own convention: https://systemd.io/CONTAINER_INTERFACE
    let stated = entry("container=").or(signs.systemd_says.as_deref());
    if let Some(stated) = stated.filter(|name| *name != "oci") {
        return Some(stated.to_owned());
    }
    if signs.podman_file {
        return Some("podman".to_owned());
    }
    if signs.docker_file {
        return Some("docker".to_owned());
    }
    let by_path = paths.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find_map(name_in_path);
    by_path.or(stated).map(str::to_owned)
}

fn name_in_path(path: &str) -> Option<&'static str> {
    path.split('/').find_map(|part| {
        if part == "docker" || part.starts_with("docker-") {
            Some("docker")
        } else if part.starts_with("libpod-") || part == "libpod_parent" {
            Some("podman")
        } else if part == "lxc" || part.starts_with("lxc.payload") {
            Some("lxc")
        } else if part.starts_with("cri-containerd-") {
            Some("containerd")
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_cgroup(text: &str) -> Option<String> {
        name(&Signs { cgroup_of_init: Some(text.to_owned()), ..Signs::default() })
    }

    fn from_environment(text: &str) -> Option<String> {
        name(&Signs { environment_of_init: Some(text.to_owned()), ..Signs::default() })
    }

    #[test]
    fn a_bare_host_is_no_container() {
        assert_eq!(
            from_cgroup("12:cpuset:/\n3:cpu,cpuacct:/init.scope\n1:name=systemd:/init.scope\n0::/init.scope\n"),
            None
        );
        assert_eq!(from_cgroup("0::/\n"), None);
        assert_eq!(from_environment("HOME=/\0TERM=linux\0BOOT_IMAGE=/vmlinuz\0"), None);
        assert_eq!(name(&Signs::default()), None);
    }

    #[test]
    fn docker_is_known_by_its_paths_and_its_file() {
        let id = "3f1a0c7b2d9e";
        assert_eq!(
            from_cgroup(&format!("11:memory:/docker/{id}\n1:name=systemd:/docker/{id}\n")).as_deref(),
            Some("docker")
        );
        assert_eq!(from_cgroup(&format!("0::/system.slice/docker-{id}.scope\n")).as_deref(), Some("docker"));
        let hidden_by_a_namespace =
            Signs { cgroup_of_init: Some("0::/\n".to_owned()), docker_file: true, ..Signs::default() };
        assert_eq!(name(&hidden_by_a_namespace).as_deref(), Some("docker"));
    }

    #[test]
    fn podman_and_lxc_and_nspawn_name_themselves() {
        assert_eq!(from_environment("PATH=/bin\0container=podman\0").as_deref(), Some("podman"));
        assert_eq!(from_environment("container=lxc\0").as_deref(), Some("lxc"));
        assert_eq!(from_environment("container=systemd-nspawn\0").as_deref(), Some("systemd-nspawn"));
        assert_eq!(name(&Signs { podman_file: true, ..Signs::default() }).as_deref(), Some("podman"));
        assert_eq!(from_cgroup("0::/machine.slice/libpod-3f1a.scope/container\n").as_deref(), Some("podman"));
        assert_eq!(from_cgroup("4:memory:/lxc/web\n").as_deref(), Some("lxc"));
        assert_eq!(from_cgroup("0::/lxc.payload.web/init.scope\n").as_deref(), Some("lxc"));
    }

    #[test]
    fn nspawn_is_known_by_the_file_that_it_writes_where_its_own_first_process_hides_its_environment() {
        let systemd_says = Some("systemd-nspawn".to_owned());
        let signs = Signs { systemd_says, environment_of_init: Some(String::new()), ..Signs::default() };
        assert_eq!(name(&signs).as_deref(), Some("systemd-nspawn"));
    }

    #[test]
    fn gvisor_comes_before_the_files_of_the_host_that_it_shows() {
        let signs = Signs { gvisor_kernel: true, docker_file: true, kubernetes_secret: true, ..Signs::default() };
        assert_eq!(name(&signs).as_deref(), Some("gvisor"));
    }

    #[test]
    fn bubblewrap_is_known_by_its_first_process() {
        let environment_of_init = Some("container=docker\0".to_owned());
        let signs = Signs { bubblewrap_is_init: true, environment_of_init, ..Signs::default() };
        assert_eq!(name(&signs).as_deref(), Some("bubblewrap"));
    }

    #[test]
    fn kubernetes_comes_before_the_runtime_below_it() {
        let path = "11:memory:/kubepods/burstable/pod8d1/3f1a0c\n1:name=systemd:/docker/3f1a0c\n";
        assert_eq!(from_cgroup(path).as_deref(), Some("kubernetes"));
        assert_eq!(
            from_cgroup("0::/kubepods.slice/kubepods-pod8d1.slice/cri-containerd-3f1a.scope\n").as_deref(),
            Some("kubernetes")
        );
        assert_eq!(
            from_environment("KUBERNETES_SERVICE_HOST=10.0.0.1\0container=oci\0").as_deref(),
            Some("kubernetes")
        );
        let pod = Signs { kubernetes_secret: true, docker_file: true, ..Signs::default() };
        assert_eq!(name(&pod).as_deref(), Some("kubernetes"));
    }

    #[test]
    fn the_vague_word_oci_gives_way_to_a_better_one_and_stands_alone_otherwise() {
        let with_file =
            Signs { environment_of_init: Some("container=oci\0".to_owned()), docker_file: true, ..Signs::default() };
        assert_eq!(name(&with_file).as_deref(), Some("docker"));
        assert_eq!(from_environment("container=oci\0").as_deref(), Some("oci"));
    }

    #[test]
    fn another_variable_that_ends_in_container_is_no_sign() {
        assert_eq!(from_environment("my_container=x\0CONTAINER_NAME=y\0container=\0"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(cgroup: String, environment: String) {
            let (cgroup_of_init, environment_of_init) = (Some(cgroup), Some(environment));
            let signs = Signs { cgroup_of_init, environment_of_init, ..Signs::default() };
            let _ = name(&signs);
        }
    }
}
