//! The lines that concern several routers: `r3` is the router with the number 3.

use farm::ServerId;

use super::super::{Event, RouterId};
use super::{Script, moment, parse_moment, parse_position, position};

fn router(router: &RouterId) -> String {
    format!("r{}", router.0)
}

fn parse_router(text: &str) -> Option<RouterId> {
    text.strip_prefix('r')?.parse().ok().map(RouterId)
}

fn routers(list: &[RouterId]) -> String {
    let words: Vec<String> = list.iter().map(router).collect();
    words.join(" ")
}

fn parse_routers(text: &str) -> Result<Vec<RouterId>, String> {
    let words = text.split(' ').filter(|word| !word.is_empty());
    let read = |word| parse_router(word).ok_or_else(|| format!("«{word}» is no router"));
    words.map(read).collect()
}

impl Script {
    pub(super) fn council(&self, event: &Event) -> String {
        match event {
            Event::Acknowledged {
                router: RouterId::OWN,
                position: at,
                ..
            } => format!("acknowledged {}", position(at)),
            Event::Acknowledged {
                router: who,
                position: at,
                cut,
            } => format!(
                "{} has cut {cut}, acknowledged {}",
                router(who),
                position(at)
            ),
            Event::Leadership {
                leads,
                number,
                peers,
                expired_routers,
            } => {
                let mut text = match leads {
                    true => format!("leadership: leads as {number}"),
                    false => format!("leadership: follows {number}"),
                };
                for (word, list) in [("with", peers), ("astray", expired_routers)] {
                    if !list.is_empty() {
                        text.push_str(&format!(", {word} {}", routers(list)));
                    }
                }
                text
            }
            Event::Vote { router: who, lost } => {
                format!("{} votes: {}", router(who), self.lost(lost))
            }
            Event::Executed {
                server,
                position: at,
                asked_us,
            } => {
                let (name, asked) = (self.name(*server), moment(*asked_us));
                format!("{name} had executed {} after {asked}", position(at))
            }
            Event::Disconnected { replica } => format!("{} lost its primary", self.name(*replica)),
            _ => String::new(),
        }
    }

    pub(super) fn lost(&self, lost: &Option<ServerId>) -> String {
        match lost {
            Some(server) => format!("{} is lost", self.name(*server)),
            None => "nobody is lost".to_owned(),
        }
    }

    /// `None` when the line says nothing of several routers.
    pub(super) fn parse_council(&self, line: &str) -> Option<Result<Event, String>> {
        if let Some(rest) = line.strip_prefix("acknowledged ") {
            let own = |position| Event::Acknowledged {
                router: RouterId::OWN,
                position,
                cut: 0,
            };
            return Some(parse_position(rest).map(own));
        }
        if let Some(rest) = line.strip_prefix("leadership: ") {
            return Some(parse_leadership(rest));
        }
        if let Some(name) = line.strip_suffix(" lost its primary") {
            return Some(
                self.find(name)
                    .map(|replica| Event::Disconnected { replica }),
            );
        }
        if let Some((name, rest)) = line.split_once(" had executed ") {
            return Some(self.parse_executed(name, rest));
        }
        let (who, rest) = line.split_once(' ')?;
        let router = parse_router(who)?;
        if let Some(lost) = rest.strip_prefix("votes: ") {
            return Some(self.parse_vote(router, lost));
        }
        let said = rest.strip_prefix("has cut ")?;
        Some(parse_cut(router, said))
    }

    fn parse_vote(&self, router: RouterId, text: &str) -> Result<Event, String> {
        let name = text.strip_suffix(" is lost");
        let name = name.ok_or_else(|| format!("«{text}» is no vote"))?;
        let lost = match name {
            "nobody" => None,
            name => Some(self.find(name)?),
        };
        Ok(Event::Vote { router, lost })
    }

    fn parse_executed(&self, name: &str, text: &str) -> Result<Event, String> {
        let (at, asked) = text.split_once(" after ").ok_or("no moment")?;
        Ok(Event::Executed {
            server: self.find(name)?,
            position: parse_position(at)?,
            asked_us: parse_moment(asked).ok_or("no moment")?,
        })
    }
}

fn parse_cut(router: RouterId, text: &str) -> Result<Event, String> {
    let (cut, at) = text
        .split_once(", acknowledged ")
        .ok_or("what was acknowledged?")?;
    Ok(Event::Acknowledged {
        router,
        position: parse_position(at)?,
        cut: cut.parse().map_err(|_| "a cut has a number")?,
    })
}

fn parse_leadership(text: &str) -> Result<Event, String> {
    let mut parts = text.split(", ");
    let leadership = parts.next().unwrap_or_default();
    let (leads, number) = match leadership.strip_prefix("leads as ") {
        Some(number) => (true, number),
        None => (
            false,
            leadership.strip_prefix("follows ").unwrap_or_default(),
        ),
    };
    let number = number.parse().map_err(|_| "a leadership has a number")?;
    let (mut peers, mut expired_routers) = (Vec::new(), Vec::new());
    for part in parts {
        match part.split_once(' ') {
            Some(("with", list)) => peers = parse_routers(list)?,
            Some(("astray", list)) => expired_routers = parse_routers(list)?,
            _ => return Err(format!("«{part}» says nothing of a leadership")),
        }
    }
    Ok(Event::Leadership {
        leads,
        number,
        peers,
        expired_routers,
    })
}
