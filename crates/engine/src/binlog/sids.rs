//! Positions of MySQL as the driver asks for what is behind them.

use farm::Position;
use mysql_async::Sid;

/// Each source apart; nothing for a position of MariaDB.
pub(crate) fn sids(position: &Position) -> std::io::Result<Vec<Sid<'static>>> {
    let Position::MySql(sources) = position else {
        return Ok(Vec::new());
    };
    let one = |(name, intervals): (&String, &Vec<(u64, u64)>)| {
        let numbers = intervals.iter().map(|(from, to)| format!(":{from}-{to}"));
        format!("{name}{}", numbers.collect::<String>()).parse()
    };
    sources.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    const UUID: &str = "77d1902c-01da-11f1-9a41-908d6e5f6e8d";

    #[test]
    fn the_driver_is_given_each_source() {
        let text = format!("{UUID}:1-5:7:a:1-3:b:9");
        let position = Position::parse(Engine::MySql, &text).expect("a position");
        let sids = sids(&position).expect("sets");
        let sids: Vec<String> = sids.iter().map(Sid::to_string).collect();
        assert_eq!(
            sids,
            [
                format!("{UUID}:1-5:7"),
                format!("{UUID}:a:1-3"),
                format!("{UUID}:b:9"),
            ]
        );
    }
}
