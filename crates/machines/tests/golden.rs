//! Plays the scenarios of `testdata` to the machine and compares what it does with what stands there.
//!
//! A scenario is a log: `MILLISECONDS EVENT`, and below each event the actions that followed. Lines
//! that begin with `#` say what it is about; a line `policy KEY VALUE` changes a setting before the
//! start. `HEDDLE_WRITE_GOLDEN=1 cargo test -p machines` writes the actions anew: commit them only if
//! you can say why they changed.

use std::fs;
use std::path::Path;

use machines::failover::script::{Script, moment, parse_moment};
use machines::failover::{Acks, Failover, Policy};

fn set(
    policy: &mut Policy,
    active: &mut bool,
    several: &mut bool,
    line: &str,
) -> Result<(), String> {
    let mut words = line.split(' ');
    let (key, value) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let ms = || parse_moment(value).ok_or_else(|| format!("«{line}» needs milliseconds"));
    match key {
        "acks" => {
            policy.acks = match value {
                "servers" => Acks::Servers { forever: true },
                "servers-for-a-while" => Acks::Servers { forever: false },
                "router" => Acks::Router,
                "nobody" => Acks::Nobody,
                _ => return Err(format!("«{value}» acknowledges nothing")),
            }
        }
        "detections" => policy.detections = value.parse().map_err(|_| "a number")?,
        "fence" => policy.fence = value == "yes",
        "inactive" => *active = false,
        "several" => *several = true,
        "lossy_promotion_after" => policy.lossy_promotion_after_us = Some(ms()?),
        "failover_interval" => policy.failover_interval_us = ms()?,
        "veto_max" => policy.veto_max_us = Some(ms()?),
        _ => return Err(format!("«{key}» is no setting")),
    }
    Ok(())
}

/// The scenario with the actions as the machine gives them now.
fn play(text: &str) -> Result<String, String> {
    let (mut policy, mut active, mut several) = (Policy::default(), true, false);
    let (mut script, mut machine) = (Script::default(), None);
    let mut played = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("->") {
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            played.push_str(&format!("{line}\n"));
            continue;
        }
        if let Some(setting) = line.strip_prefix("policy ") {
            set(&mut policy, &mut active, &mut several, setting)?;
            played.push_str(&format!("{line}\n"));
            continue;
        }
        let machine = machine.get_or_insert_with(|| match several {
            true => Failover::among_peers(policy.clone(), active),
            false => Failover::new(policy.clone(), active),
        });
        let (at, event) = line
            .trim_start()
            .split_once(' ')
            .ok_or("a line without event")?;
        let at = parse_moment(at).ok_or_else(|| format!("«{line}» has no moment"))?;
        let event = script.parse(event.trim())?;
        let again = script.clone().event(&event);
        if let Some((_, said)) = line.trim_start().split_once(' ')
            && !matches!(event, machines::failover::Event::Done { .. })
            && said.trim() != again
        {
            return Err(format!("«{}» is written back as «{again}»", said.trim()));
        }
        let said = line
            .trim_start()
            .split_once(' ')
            .map_or("", |(_, said)| said.trim());
        played.push_str(&format!("{:>9} {said}\n", moment(at)));
        for action in machine.step(at, event) {
            played.push_str(&format!("          -> {}\n", script.action(&action)));
        }
    }
    Ok(played)
}

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the scenarios")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(files.len() > 10, "only {} scenarios", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a scenario");
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match play(&text) {
            Ok(played) if played == text => {}
            Ok(played) if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() => {
                fs::write(&path, played).expect("a scenario can be written");
            }
            Ok(played) => wrong.push(format!("{name}: now\n{played}")),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
