//! What a round and many rounds came to, for people.

use std::fmt::Write;

use super::ledger::{Trouble, percentile};
use super::nemesis::Nemesis;

/// One round.
#[derive(Clone, Debug)]
pub struct Report {
    pub nemesis: Nemesis,
    pub seed: u64,
    /// The longest time without an acknowledged write to any client.
    pub pause_us: u64,
    /// The same for each writer and teller.
    pub client_pauses_us: Vec<u64>,
    /// The longest that each had before anything went wrong.
    pub usual_us: Vec<u64>,
    pub acknowledged: u64,
    /// Reads whose promise was checked.
    pub checked: u64,
    pub lost: u64,
    pub doubled: u64,
    /// Errors that clients must not see, broken connections among them.
    pub errors: u64,
    /// Errors counted apart: replays that differ, unknown outcomes, lost pins, killed routers.
    pub apart: [u64; 4],
    /// How long each change of the primary took from the first router that published it to the last.
    pub known_ms: Vec<u64>,
    /// What Heddle says of the steps of each change of the primary; see [`steps`].
    pub steps: Vec<Steps>,
    /// Everything that fails the round, for people.
    pub wrong: Vec<String>,
    /// Errors counted apart, with their texts, and others where the round allows them.
    pub notes: Vec<String>,
    /// Heddle's events and messages, where the round failed.
    pub timeline: String,
}

/// The steps of one change of the primary, each with the time that it took on the slowest server.
pub type Steps = Vec<(String, u64)>;

/// The name of the whole among [`Steps`].
const WHOLE: &str = "from the first doubt to the publication";

/// The steps that the event `failover_timed` tells of, in microseconds, the whole first:
/// «g1-2 took over after 61.3 ms (crashed): confirm_loss 0.4, stop_receiving 3.0».
pub fn steps(told: &str) -> Option<Steps> {
    let (whole, parts) = told.split_once(" took over after ")?.1.split_once("): ")?;
    let us = |text: &str| {
        let (ms, tenths) = text.split_once('.')?;
        Some(ms.parse::<u64>().ok()? * 1000 + tenths.parse::<u64>().ok()? * 100)
    };
    let mut all = vec![(WHOLE.to_owned(), us(whole.split_once(" ms")?.0)?)];
    for part in parts.split(", ") {
        let (step, took) = part.rsplit_once(' ')?;
        all.push((step.to_owned(), us(took)?));
    }
    Some(all)
}

/// The kinds counted apart, in the order of [`Report::apart`].
pub const APART: [Trouble; 4] = [
    Trouble::Replay,
    Trouble::UnknownOutcome,
    Trouble::LostPin,
    Trouble::RouterDied,
];

impl Report {
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    /// One line; with what went wrong below it.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: pause {} ms, clients' longest {} ms (usual {} ms), {} acknowledged, {} reads checked, \
             lost {}, doubled {}, errors {}, apart {:?}, known to all within {:?} ms, seed {}\n",
            self.nemesis.name(),
            ms(self.pause_us),
            ms(percentile(&self.client_pauses_us, 100)),
            ms(percentile(&self.usual_us, 100)),
            self.acknowledged,
            self.checked,
            self.lost,
            self.doubled,
            self.errors,
            self.apart,
            self.known_ms,
            self.seed,
        );
        for (word, lines) in [("WRONG", &self.wrong), ("note", &self.notes)] {
            for line in lines {
                let _ = writeln!(text, "  {word}: {line}");
            }
        }
        text + &self.timeline
    }
}

/// One line for each fault, over its rounds.
pub fn table(title: &str, reports: &[Report]) -> String {
    let mut text = format!(
        "\n# {title}\n\n| fault | rounds | good | pause of all p50 / p99 / max ms | \
         pause of a client p50 / p99 / max ms | usual p99 ms | acknowledged | lost | doubled | errors | \
         replay / unknown / pin / router | known to all p50 / p99 / max ms |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for nemesis in Nemesis::ALL {
        let rounds: Vec<&Report> = reports
            .iter()
            .filter(|one| one.nemesis == nemesis)
            .collect();
        if rounds.is_empty() {
            continue;
        }
        let pauses: Vec<u64> = rounds.iter().map(|one| one.pause_us).collect();
        let of = |pick: fn(&Report) -> &Vec<u64>| -> Vec<u64> {
            rounds
                .iter()
                .flat_map(|one| pick(one).iter().copied())
                .collect()
        };
        let known: Vec<u64> = of(|one| &one.known_ms).iter().map(|ms| ms * 1000).collect();
        let total = |pick: fn(&Report) -> u64| rounds.iter().map(|one| pick(one)).sum::<u64>();
        let apart: Vec<String> = (0..APART.len())
            .map(|kind| {
                rounds
                    .iter()
                    .map(|one| one.apart[kind])
                    .sum::<u64>()
                    .to_string()
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            nemesis.name(),
            rounds.len(),
            rounds.iter().filter(|one| one.is_good()).count(),
            three(&pauses),
            three(&of(|one| &one.client_pauses_us)),
            ms(percentile(&of(|one| &one.usual_us), 99)),
            total(|one| one.acknowledged),
            total(|one| one.lost),
            total(|one| one.doubled),
            total(|one| one.errors),
            apart.join(" / "),
            three(&known),
        );
    }
    text + &steps_table(reports)
}

/// One line for each step that changes of the primary had, over all rounds of a fault.
fn steps_table(reports: &[Report]) -> String {
    let mut text = String::new();
    for nemesis in Nemesis::ALL {
        let rounds = reports.iter().filter(|one| one.nemesis == nemesis);
        let mut all: Vec<(&str, Vec<u64>)> = Vec::new();
        for (step, took_us) in rounds.flat_map(|one| &one.steps).flatten() {
            match all.iter_mut().find(|(known, _)| known == step) {
                Some((_, times)) => times.push(*took_us),
                None => all.push((step, vec![*took_us])),
            }
        }
        for (step, times) in all {
            let (name, count) = (nemesis.name(), times.len());
            let _ = writeln!(text, "| {name} | {step} | {count} | {} |", three(&times));
        }
    }
    let head = "\n| fault | step of a change of primary | changes | p50 / p99 / max ms |\n\
                | --- | --- | ---: | ---: |\n";
    match text.is_empty() {
        true => text,
        false => format!("{head}{text}"),
    }
}

fn three(values: &[u64]) -> String {
    let [p50, p99, max] = [50, 99, 100].map(|percent| ms(percentile(values, percent)));
    format!("{p50} / {p99} / {max}")
}

fn ms(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_heddle_tells_of_steps_is_read() {
        let told = "g1-2 took over after 61.3 ms (crashed): confirm_loss 0.4, stop_receiving 3.0";
        let expected = [
            (WHOLE, 61_300),
            ("confirm_loss", 400),
            ("stop_receiving", 3000),
        ];
        let expected = expected.map(|(step, us)| (step.to_owned(), us));
        assert_eq!(steps(told).as_deref(), Some(&expected[..]));
        assert_eq!(steps("g1-2 takes the writes"), None);
    }
}
