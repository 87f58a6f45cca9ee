//! Statements that are gathered, answered once more by sending tables to the groups: in each way that the planner allows,
//! whatever it moves, the rows are those of one server.

use std::sync::Arc;

use farm::Engine;
use planner::Answer;
use testkit::Release;

use crate::contradicts::contradicts_itself;
use crate::corpus::{self, Step};
use crate::outcome::{Care, Outcome, difference};
use crate::spread::Spread;
use crate::{Tally, is_plain_read, show};

impl Tally {
    /// Plays a read in all ways that send tables. `here`: what one server says.
    pub fn play_sent(
        &mut self,
        spread: &mut Spread,
        (place, step): (&str, &Step),
        care: Care,
        (here, gathered): (&Outcome, &Answer),
    ) {
        for sent in spread.broadcasts(&step.text, gathered) {
            self.sent += 1;
            let sending = sent.sending.as_ref();
            self.divided +=
                usize::from(sending.is_some_and(|it| it.divided.iter().any(Option::is_some)));
            if self.only.is_some() {
                show(&format!("{place} {sent:#?}\n"));
            }
            let there = spread.carry(&sent);
            let Some(what) = difference(step, care, here, &there) else {
                continue;
            };
            let mariadb = spread.engine() == Engine::MariaDb;
            let differs = |spread: &mut Spread| {
                let here = spread.one.query(&step.text);
                let there = spread.carry(&sent);
                difference(step, care, &here, &there).is_some()
            };
            let both = here.is_ok() && there.is_ok();
            if both && contradicts_itself(&step.text, mariadb, spread, Spread::tell, differs) {
                self.contradicted += 1;
                continue;
            }
            self.wrong += 1;
            let text = &step.text;
            show(&format!(
                "{place} sent: {text}\n  {}\n  {what}\n",
                told(&sent)
            ));
        }
    }
}

/// What is sent, and what the groups run.
fn told(answer: &Answer) -> String {
    let sent = answer.sending.iter().flat_map(|it| &it.fragments);
    let texts = sent.chain(&answer.fragments).map(|it| it.text.clone());
    texts.collect::<Vec<_>>().join("\n  ")
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A table is sent without one of its conditions, which is not asked once more.
    LostFilter,
    /// Each group keeps the rows of a table that is sent: it is the side of an outer join whose rows are all there.
    Preserved,
    /// One group does not get the table's rows.
    LostRows,
    /// Each row goes to the other group than that of its key.
    WrongGroup,
    /// Rows whose key is NULL go to no group.
    LostNulls,
    /// A table that is divided is sent to each group as a whole.
    NotDivided,
}

const FAULTS: [Fault; 6] = [
    Fault::LostFilter,
    Fault::Preserved,
    Fault::LostRows,
    Fault::WrongGroup,
    Fault::LostNulls,
    Fault::NotDivided,
];

impl Fault {
    /// The text that one server is asked, and what the groups are sent instead of what the planner says.
    fn plant(self, text: &str, answer: &Answer) -> Option<(String, Answer)> {
        let mut answer = answer.clone();
        let sending = answer.sending.as_mut()?;
        match self {
            Fault::LostFilter => {
                let sent = &mut sending.fragments[0].text;
                let at = sent.find(" WHERE ")?;
                sent.truncate(at);
                Some((text.to_owned(), answer))
            }
            Fault::Preserved => {
                // The first table of a join is sent, and an inner join becomes an outer one.
                let name = &sending.tables[0].name;
                let own = &mut answer.fragments[0].text;
                let (from, join) = (own.find(" FROM ")?, own.find(" JOIN ")?);
                let first = &own[from..join];
                let inner = !own[..join].ends_with("LEFT") && !own[..join].ends_with("RIGHT");
                if !first.contains(name.as_str()) || !inner {
                    return None;
                }
                let outer = |text: &str| text.replacen(" JOIN ", " LEFT JOIN ", 1);
                *own = outer(own);
                Some((outer(text), answer))
            }
            Fault::LostRows => {
                sending.fragments[0].groups.pop()?;
                Some((text.to_owned(), answer))
            }
            Fault::WrongGroup => {
                let by = sending.divided.iter_mut().flatten().next()?;
                let map = &mut Arc::make_mut(&mut by.mapped).map;
                map.slots.iter_mut().for_each(|slot| slot.0 = 1 - slot.0);
                Some((text.to_owned(), answer))
            }
            Fault::LostNulls => {
                let at = sending.divided.iter().position(Option::is_some)?;
                let by = sending.divided[at].as_ref()?;
                let rows = &mut sending.fragments[at].text;
                if rows.contains(" WHERE ") {
                    return None;
                }
                rows.push_str(&format!(" WHERE {} IS NOT NULL", by.name));
                Some((text.to_owned(), answer))
            }
            Fault::NotDivided => {
                sending.divided.iter_mut().find(|it| it.is_some())?.take();
                Some((text.to_owned(), answer))
            }
        }
    }

    /// The first read that tells of it.
    fn found(self, spread: &mut Spread, corpus: &corpus::Corpus) -> Option<String> {
        let honest = spread.sharding().clone();
        for file in &corpus.files {
            for step in file.steps.iter().filter(|step| is_plain_read(step)) {
                let Ok(gathered) = spread.answered(&step.text, &honest) else {
                    continue;
                };
                for sent in spread.broadcasts(&step.text, &gathered) {
                    let Some((text, planted)) = self.plant(&step.text, &sent) else {
                        continue;
                    };
                    let here = spread.one.query(&text);
                    let there = spread.carry(&planted);
                    if difference(step, Care::Usual, &here, &there).is_some() {
                        return Some(format!("{}.sql:{}", file.name, step.line));
                    }
                }
            }
        }
        None
    }
}

#[test]
fn planted_faults_of_tables_that_are_sent_are_found() {
    let Some(mut spread) = Spread::start(Release::Installed, 2) else {
        return;
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/shards");
    let corpora = corpus::read_all(&folder);
    let corpus = corpora.iter().find(|it| it.name == "broadcast");
    let corpus = corpus.expect("the corpus has a folder of it");
    spread.fill(corpus);
    for fault in FAULTS {
        let found = fault.found(&mut spread, corpus);
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
