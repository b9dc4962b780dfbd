//! How the kernel may be interrupted at its own work.

/// The preemption model from what the system shows: `/sys/kernel/debug/sched/preempt` (needs root and debugfs),
/// `/sys/kernel/realtime`, the version text (`uname -v`) and the boot command line.
pub(super) fn model(
    debug: Option<&str>,
    realtime: Option<&str>,
    version: Option<&str>,
    command_line: Option<&str>,
) -> Option<String> {
    // The choice in force stands in round brackets: `none voluntary (full) lazy`.
    let chosen = debug.and_then(|text| Some(text.split_once('(')?.1.split_once(')')?.0));
    if let Some(chosen) = chosen {
        return Some(chosen.to_owned());
    }
    if realtime == Some("1") {
        return Some("rt".to_owned());
    }
    let has = |word: &str| version.is_some_and(|text| text.split_whitespace().any(|part| part == word));
    let at_boot = command_line
        .and_then(|line| line.split_whitespace().filter_map(|part| part.strip_prefix("preempt=")).next_back());
    let model = if has("PREEMPT_RT") {
        "rt"
    } else if has("PREEMPT_DYNAMIC") {
        // Without the word at boot the default of the build decides, and no file shows that.
        at_boot.filter(|word| ["none", "voluntary", "full", "lazy"].contains(word)).unwrap_or("dynamic")
    } else if has("PREEMPT_LAZY") {
        "lazy"
    } else if has("PREEMPT") {
        "full"
    } else if version.is_some() {
        // `uname -v` does not distinguish these two.
        "none or voluntary"
    } else {
        return None;
    };
    Some(model.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_in_force_is_taken_from_debugfs() {
        let version = Some("#1 SMP PREEMPT_DYNAMIC Debian 6.1.148-1");
        assert_eq!(model(Some("none voluntary (full)"), None, version, None).as_deref(), Some("full"));
        assert_eq!(model(Some("none voluntary full (lazy)"), None, version, None).as_deref(), Some("lazy"));
    }

    #[test]
    fn without_debugfs_the_version_and_the_command_line_tell() {
        let dynamic = Some("#1 SMP PREEMPT_DYNAMIC @0");
        assert_eq!(model(None, None, dynamic, Some("quiet")).as_deref(), Some("dynamic"));
        assert_eq!(model(None, None, dynamic, Some("preempt=none quiet preempt=full")).as_deref(), Some("full"));
        assert_eq!(model(None, None, Some("#1 SMP PREEMPT_RT Debian"), None).as_deref(), Some("rt"));
        assert_eq!(model(None, Some("1"), Some("#1 SMP"), None).as_deref(), Some("rt"));
        assert_eq!(model(None, None, Some("#1 SMP PREEMPT"), None).as_deref(), Some("full"));
        assert_eq!(model(None, None, Some("#1 SMP Debian 4.19"), None).as_deref(), Some("none or voluntary"));
    }

    #[test]
    fn a_silent_system_gives_no_model() {
        assert_eq!(model(None, None, None, None), None);
    }
}
