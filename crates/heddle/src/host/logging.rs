//! Where `tracing` events go: stderr, in the form that the settings say.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// Starts logging; a second call in one process does nothing. `HEDDLE_LOG` (for example
/// `info,session=debug`) wins over `log_level`.
pub fn start(settings: &Settings) {
    let level = settings.log_level.0.to_string();
    let filter = EnvFilter::try_from_env("HEDDLE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let _ = match settings.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
