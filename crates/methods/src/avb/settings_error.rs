/// Settings that cannot be.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsError {
    /// Which, by its name in the settings.
    pub what: &'static str,
    /// What it is.
    pub found: String,
    /// What it may be, and the way out.
    pub want: String,
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} is {}: use {}", self.what, self.found, self.want)
    }
}

impl std::error::Error for SettingsError {}
