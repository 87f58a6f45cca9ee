//! Load for `make bench-kv`: clients that get and set keys over memcached's protocol, Redis', or SQL,
//! each waiting for its answer before it asks again. Prints one line of JSON.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const USAGE: &str = "kvload protocol=memcached|redis|text|prepared|batched address=HOST:PORT \
    op=get|multi|pipeline|set|fill|walk connections=N batch=N seconds=N keys=N key_bytes=N value_bytes=N \
    [table=DB.TABLE] [container=NAME] [setup=SQL]";

/// So many keys are set, or read, with one trip when all are.
const ALL_AT_ONCE: usize = 100;

type Failure = Box<dyn std::error::Error>;

/// What is to be done.
struct Plan {
    protocol: String,
    address: String,
    op: String,
    connections: usize,
    batch: usize,
    seconds: u64,
    keys: usize,
    key_bytes: usize,
    value_bytes: usize,
    table: String,
    /// Of the KV door; empty for its default one.
    container: String,
    /// What SQL clients say first.
    setup: String,
}

/// What one client did.
#[derive(Default)]
struct Done {
    ops: u64,
    misses: u64,
    trips_us: Vec<u32>,
}

impl Plan {
    fn read() -> Result<Plan, Failure> {
        let args: HashMap<String, String> = std::env::args()
            .skip(1)
            .filter_map(|arg| {
                let (name, value) = arg.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect();
        let text = |name: &str, default: &str| -> String {
            args.get(name)
                .cloned()
                .unwrap_or_else(|| default.to_owned())
        };
        let number = |name: &str, default: usize| match args.get(name) {
            Some(given) => given.parse(),
            None => Ok(default),
        };
        let address = args.get("address").ok_or(USAGE)?.clone();
        Ok(Plan {
            protocol: text("protocol", "memcached"),
            address,
            op: text("op", "get"),
            connections: number("connections", 1)?,
            batch: number("batch", 1)?,
            seconds: number("seconds", 3)? as u64,
            keys: number("keys", 25_000)?,
            key_bytes: number("key_bytes", 100)?,
            value_bytes: number("value_bytes", 400)?,
            table: text("table", "heddle.kv"),
            container: text("container", ""),
            setup: text("setup", ""),
        })
    }

    /// Keys of SQL tables with integer keys are the number alone: `key_bytes=0`.
    fn key(&self, number: usize) -> String {
        match self.key_bytes {
            0 => (number + 1).to_string(),
            bytes => format!("{number:0bytes$}"),
        }
    }

    /// What is done with each key once, if that is all.
    fn through_all(&self) -> Option<&'static str> {
        match self.op.as_str() {
            "fill" => Some("set"),
            "walk" => Some("multi"),
            _ => None,
        }
    }

    /// The same as a literal of SQL.
    fn literal(&self, key: &str) -> String {
        match self.key_bytes {
            0 => key.to_owned(),
            _ => format!("'{key}'"),
        }
    }

    /// Each value is another one: a server that is told to store what is there already has nothing to do.
    fn value(&self, number: usize) -> String {
        let bytes = self.value_bytes;
        format!("{number:v<bytes$}")
    }
}

/// Numbers that follow each other in no order.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A connection that speaks lines and lengths.
struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Line {
    async fn open(address: &str) -> Result<Line, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Line {
            stream,
            buffer: Vec::with_capacity(1 << 16),
            at: 0,
        })
    }

    async fn more(&mut self) -> Result<(), Failure> {
        self.buffer.drain(..self.at);
        self.at = 0;
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }

    /// The next line without its end.
    async fn line(&mut self) -> Result<Vec<u8>, Failure> {
        loop {
            let rest = &self.buffer[self.at..];
            if let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let line = rest[..end].trim_ascii_end().to_vec();
                self.at += end + 1;
                return Ok(line);
            }
            self.more().await?;
        }
    }

    async fn skip(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.buffer.len() - self.at < bytes {
            self.more().await?;
        }
        self.at += bytes;
        Ok(())
    }
}

fn last_number(line: &[u8]) -> Result<usize, Failure> {
    let word = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    Ok(std::str::from_utf8(word)?.parse()?)
}

/// Reads values up to END; how many came.
async fn memcached_values(line: &mut Line) -> Result<u64, Failure> {
    let mut hits = 0;
    loop {
        let head = line.line().await?;
        if head == b"END" {
            return Ok(hits);
        }
        if !head.starts_with(b"VALUE ") {
            return Err(String::from_utf8_lossy(&head).into_owned().into());
        }
        line.skip(last_number(&head)? + 2).await?;
        hits += 1;
    }
}

/// Reads one reply of Redis; how many values it has.
async fn redis_reply(line: &mut Line) -> Result<u64, Failure> {
    let head = line.line().await?;
    let number =
        |head: &[u8]| -> Result<i64, Failure> { Ok(std::str::from_utf8(&head[1..])?.parse()?) };
    match head.first() {
        Some(b'+') => Ok(1),
        Some(b'$') => match usize::try_from(number(&head)?) {
            Ok(bytes) => {
                line.skip(bytes + 2).await?;
                Ok(1)
            }
            Err(_) => Ok(0),
        },
        Some(b'*') => {
            let mut hits = 0;
            for _ in 0..number(&head)? {
                hits += Box::pin(redis_reply(line)).await?;
            }
            Ok(hits)
        }
        _ => Err(String::from_utf8_lossy(&head).into_owned().into()),
    }
}

fn redis_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// One trip over a protocol of lines; how many keys had a value.
async fn trip(
    plan: &Plan,
    line: &mut Line,
    op: &str,
    keys: &[String],
    number: usize,
) -> Result<u64, Failure> {
    let mut out = Vec::new();
    let value = plan.value(number);
    let redis = plan.protocol == "redis";
    match (redis, op) {
        (false, "multi") => out.extend_from_slice(format!("get {}\r\n", keys.join(" ")).as_bytes()),
        (true, "multi") => {
            let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..])
                .chain(keys.iter().map(|key| key.as_bytes()))
                .collect();
            redis_command(&mut out, &words);
        }
        _ => {
            for key in keys {
                match (redis, op) {
                    (false, "set") => {
                        let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                        out.extend_from_slice(request.as_bytes());
                    }
                    (true, "set") => {
                        redis_command(&mut out, &[b"SET", key.as_bytes(), value.as_bytes()])
                    }
                    (true, _) => redis_command(&mut out, &[b"GET", key.as_bytes()]),
                    (false, _) => out.extend_from_slice(format!("get {key}\r\n").as_bytes()),
                }
            }
        }
    }
    line.stream.write_all(&out).await?;
    let replies = if op == "multi" { 1 } else { keys.len() };
    let mut hits = 0;
    for _ in 0..replies {
        hits += match (redis, op) {
            (true, _) => redis_reply(line).await?,
            (false, "set") => match line.line().await?.as_slice() {
                b"STORED" => 1,
                other => return Err(String::from_utf8_lossy(other).into_owned().into()),
            },
            (false, _) => memcached_values(line).await?,
        };
    }
    Ok(hits)
}

async fn lines(plan: &Plan, seed: u64, until: Instant) -> Result<Done, Failure> {
    let mut line = Line::open(&plan.address).await?;
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut done = Done::default();
    if !plan.container.is_empty() {
        let choice = format!("get @@{}\r\n", plan.container);
        line.stream.write_all(choice.as_bytes()).await?;
        memcached_values(&mut line).await?;
    }
    if let Some(op) = plan.through_all() {
        let all: Vec<String> = (0..plan.keys).map(|number| plan.key(number)).collect();
        for some in all.chunks(ALL_AT_ONCE) {
            let hits = trip(plan, &mut line, op, some, 0).await?;
            done.ops += some.len() as u64;
            done.misses += some.len() as u64 - hits;
        }
        return Ok(done);
    }
    while Instant::now() < until {
        let keys: Vec<String> = (0..plan.batch)
            .map(|_| plan.key(numbers.below(plan.keys)))
            .collect();
        let begun = Instant::now();
        let hits = trip(plan, &mut line, &plan.op, &keys, numbers.below(1 << 40)).await?;
        done.trips_us
            .push(u32::try_from(begun.elapsed().as_micros())?);
        done.ops += keys.len() as u64;
        done.misses += keys.len() as u64 - hits;
    }
    Ok(done)
}

async fn connected(plan: &Plan) -> Result<mysql_async::Conn, Failure> {
    // Else it takes the way by the server's own socket, past whoever stands at the address.
    let url = format!("mysql://root@{}/?prefer_socket=false", plan.address);
    Ok(mysql_async::Conn::from_url(url).await?)
}

/// What a server needs at least: all keys of a trip in one statement, a prepared `IN`, or one INSERT with one commit.
async fn batched(plan: &Plan, seed: u64, until: Instant) -> Result<Done, Failure> {
    let mut link = connected(plan).await?;
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut done, table) = (Done::default(), &plan.table);
    let places = vec!["?"; plan.batch].join(",");
    let read = link
        .prep(format!("SELECT k, v FROM {table} WHERE k IN ({places})"))
        .await?;
    while Instant::now() < until {
        let mut keys: Vec<String> = (0..plan.batch)
            .map(|_| plan.key(numbers.below(plan.keys)))
            .collect();
        keys.sort_unstable();
        let value = plan.value(numbers.below(1 << 40));
        let begun = Instant::now();
        if plan.op == "set" {
            let row = |key: &String| format!("({},'{value}')", plan.literal(key));
            let rows: Vec<String> = keys.iter().map(row).collect();
            let rows = rows.join(",");
            link.query_drop(format!(
                "INSERT INTO {table} (k, v) VALUES {rows} ON DUPLICATE KEY UPDATE v = VALUES(v)"
            ))
            .await?;
        } else {
            let value = |key: &String| match (plan.key_bytes, key.parse()) {
                (0, Ok(number)) => mysql_async::Value::Int(number),
                _ => mysql_async::Value::from(key),
            };
            let values: Vec<mysql_async::Value> = keys.iter().map(value).collect();
            let found: Vec<mysql_async::Row> = link.exec(&read, values).await?;
            // A key that is asked for twice has one row.
            keys.dedup();
            done.misses += (keys.len() - found.len()) as u64;
        }
        done.trips_us
            .push(u32::try_from(begun.elapsed().as_micros())?);
        done.ops += plan.batch as u64;
    }
    Ok(done)
}

async fn sql(plan: &Plan, seed: u64, until: Instant) -> Result<Done, Failure> {
    let mut link = connected(plan).await?;
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut done, table) = (Done::default(), &plan.table);
    let read = link
        .prep(format!("SELECT v FROM {table} WHERE k = ?"))
        .await?;
    if !plan.setup.is_empty() {
        link.query_drop(&plan.setup).await?;
    }
    let walks = plan.through_all().is_some();
    while match walks {
        true => done.ops < plan.keys as u64,
        false => Instant::now() < until,
    } {
        let key = plan.key(match walks {
            true => usize::try_from(done.ops)?,
            false => numbers.below(plan.keys),
        });
        let literal = plan.literal(&key);
        let begun = Instant::now();
        let found: Option<Vec<u8>> = match (plan.op.as_str(), plan.protocol.as_str()) {
            ("set", _) => {
                let value = plan.value(numbers.below(1 << 40));
                link.query_drop(format!(
                    "UPDATE {table} SET v = '{value}' WHERE k = {literal}"
                ))
                .await?;
                Some(Vec::new())
            }
            (_, "prepared") => link.exec_first(&read, (key,)).await?,
            _ => {
                link.query_first(format!("SELECT v FROM {table} WHERE k = {literal}"))
                    .await?
            }
        };
        done.trips_us
            .push(u32::try_from(begun.elapsed().as_micros())?);
        done.ops += 1;
        done.misses += u64::from(found.is_none());
    }
    Ok(done)
}

fn at(sorted: &[u32], share: f64) -> u32 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted
        .get(place.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0)
}

async fn run(plan: Plan) -> Result<(), Failure> {
    let plan = Rc::new(plan);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(plan.seconds);
    let clients: Vec<_> = (0..plan.connections)
        .map(|number| {
            let plan = plan.clone();
            tokio::task::spawn_local(async move {
                let seed = number as u64 + 1;
                let done = match plan.protocol.as_str() {
                    "text" | "prepared" => sql(&plan, seed, until).await,
                    "batched" => batched(&plan, seed, until).await,
                    _ => lines(&plan, seed, until).await,
                };
                done.map_err(|why| why.to_string())
            })
        })
        .collect();
    let mut all = Done::default();
    for client in clients {
        let done = client.await??;
        all.ops += done.ops;
        all.misses += done.misses;
        all.trips_us.extend(done.trips_us);
    }
    all.trips_us.sort_unstable();
    let line = serde_json::json!({
        "ops": all.ops,
        "misses": all.misses,
        "seconds": begun.elapsed().as_secs_f64(),
        "p50_us": at(&all.trips_us, 0.5),
        "p99_us": at(&all.trips_us, 0.99),
    });
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let plan = Plan::read()?;
    local.block_on(&runtime, run(plan))
}
