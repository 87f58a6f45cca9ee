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
    /// Everything that fails the round, for people.
    pub wrong: Vec<String>,
    /// Errors counted apart, with their texts, and others where the round allows them.
    pub notes: Vec<String>,
    /// Heddle's events and messages, where the round failed.
    pub timeline: String,
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
    text
}

fn three(values: &[u64]) -> String {
    let [p50, p99, max] = [50, 99, 100].map(|percent| ms(percentile(values, percent)));
    format!("{p50} / {p99} / {max}")
}

fn ms(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}
