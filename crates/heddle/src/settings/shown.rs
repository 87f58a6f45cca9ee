//! The settings in force as people and `config settings` see them.

use control::configuration::ShownSetting;

use super::{Applies, Setting, Settings, TABLE};

/// True for a setting whose value is nobody's business.
pub fn is_secret(name: &str) -> bool {
    name.ends_with("_password") || name == "otlp_headers"
}

/// Every setting as it is, and who says so.
pub fn shown(settings: &Settings) -> Vec<ShownSetting> {
    let row = |setting: &'static Setting| {
        let given = settings.given.get(setting.name);
        let value = given.map_or(setting.default, |given| &given.value);
        let hidden = is_secret(setting.name) && !value.is_empty();
        ShownSetting {
            name: setting.name,
            value: if hidden { "(hidden)" } else { value }.to_owned(),
            from: given.map_or("default", |given| &given.from).to_owned(),
            default: setting.default,
            of_farm: setting.applies == Applies::Live,
        }
    };
    TABLE.iter().map(row).collect()
}
