//! `heddle trace show`: what the flight recorder of a router kept, as a timeline.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::event::when;
use clap::Args;
use recorder::{Filter, Line, Timeline, read};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::flight::home::newest;
use crate::printing::{complain, put};

/// Flags of `heddle trace show`.
#[derive(Args, Clone, Debug)]
pub struct Show {
    /// Dumps, rings, or the state directory of a router (that of `up` is in its data directory)
    #[arg(value_name = "PATH", required = true)]
    pub of: Vec<PathBuf>,
    /// Only this session: the connection id that its client knows
    #[arg(long, value_name = "ID")]
    pub session: Option<u32>,
    /// Only what is about this group or a server of it
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Only what is about this server
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Option<String>,
    /// Only steps of this name
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
    /// Only the last N of them
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// Prints one JSON array of row objects
    #[arg(long)]
    pub json: bool,
}

/// Prints the timeline.
///
/// # Errors
/// A file cannot be read, or is no trace.
pub fn run(flags: &Show) -> Result<(), Failure> {
    let mut timeline = Timeline::default();
    for path in &flags.of {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let files = match path.is_dir() {
            true => newest(path).map_err(failed)?,
            false => vec![path.clone()],
        };
        for file in files {
            add(&mut timeline, &file)?;
        }
    }
    let filter = Filter {
        session: flags.session,
        group: flags.group.clone(),
        server: flags.server.clone(),
        step: flags.step.clone(),
        last: flags.last,
    };
    let lines = timeline.lines(&filter);
    put(&match flags.json {
        true => Value::from_iter(lines.iter().map(row)).to_string() + "\n",
        false => text(&lines),
    });
    if timeline.torn > 0 {
        complain(&format!(
            "{} records are damaged and left out",
            timeline.torn
        ));
    }
    if timeline.is_cut {
        complain("a file ends early: what it had behind is missing");
    }
    Ok(())
}

fn add(timeline: &mut Timeline, file: &Path) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    let bytes = fs::read(file).map_err(|error| failed(&error))?;
    timeline.add(read(&bytes).map_err(|error| failed(&error))?);
    Ok(())
}

fn text(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "(nothing)\n".to_owned();
    }
    lines
        .iter()
        .map(|line| line.text(&moment(line.at_us)) + "\n")
        .collect()
}

fn row(line: &Line) -> Value {
    let values = line.values.iter();
    let values: Map<String, Value> = values
        .map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())))
        .collect();
    json!({
        "at": moment(line.at_us),
        "process": line.process,
        "core": line.core,
        "session": line.session,
        "step": line.step,
        "values": values,
    })
}

/// As events have it, to the microsecond.
fn moment(at_us: u64) -> String {
    let ms = when(at_us / 1000);
    format!("{}{:03}Z", ms.trim_end_matches('Z'), at_us % 1000)
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_told_to_the_microsecond() {
        assert_eq!(moment(1_795_690_533_123_456), "2026-11-26T10:55:33.123456Z");
    }
}
