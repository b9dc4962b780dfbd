//! The name that was probably meant.

/// Names at least this alike are near; the command line's parser has the same bound for options.
const ALIKE: f64 = 0.7;

/// The nearest of `names`; `None` where none is near.
pub(crate) fn nearest<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.into_iter().map(|name| (strsim::jaro(found, name), name)).filter(|(alike, _)| *alike > ALIKE);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// The end of a message about a value that is none of `names`: `: use one of A, B`, after the nearest of them, if any.
pub(crate) fn instead_of(value: &str, names: &[&str]) -> String {
    let list = names.join(", ");
    match nearest(value, names.iter().copied()) {
        Some(name) => format!(". Did you mean '{name}'? Use one of {list}"),
        None => format!(": use one of {list}"),
    }
}

/// The three of `names` that come nearest, near or not.
pub(crate) fn nearest_three<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let mut near: Vec<(f64, &str)> = names.into_iter().map(|name| (strsim::jaro_winkler(found, name), name)).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().take(3).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::instead_of;

    #[test]
    fn a_near_miss_gets_its_name_and_a_far_one_none() {
        let names = ["usleep", "clock_nanosleep", "two_phase", "adaptive", "spin"];
        let list = names.join(", ");
        for (value, near) in [("adptive", "adaptive"), ("usleap", "usleep")] {
            assert_eq!(instead_of(value, &names), format!(". Did you mean '{near}'? Use one of {list}"));
        }
        assert_eq!(instead_of("qqq", &names), format!(": use one of {list}"));
    }
}
