//! Settings for tests: the defaults, and what some assignments change.

use super::Settings;

impl Settings {
    /// # Panics
    /// An assignment names no setting, or has no value of it.
    pub fn assigned(assignments: &[&str]) -> Settings {
        let mut settings = Settings::default();
        for assignment in assignments {
            settings.assign(assignment).expect("a value");
        }
        settings
    }
}
