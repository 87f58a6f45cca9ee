//! Reads keys, asks the router, draws. A thread beside asks, so that no key waits for an answer.

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use catalog::Call;
use catalog::event::epoch_ms;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::state::{Input, Key, Top, View, Wish, traffic};
use super::{once, screen};
use crate::cli::ask::{Remote, RouterFlags};
use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;

/// The picture is asked for so often, and so are the rows of the view.
const PERIOD: Duration = Duration::from_secs(1);

/// A key is looked for so often.
const TICK: Duration = Duration::from_millis(50);

/// The first sample of what is served comes with the second picture.
const TRIES: usize = 4;

/// Rows of digests that are asked for.
const DIGESTS_MAX: &str = "200";

/// Flags of `heddle top`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Prints the farm once, and ends
    #[arg(long)]
    pub once: bool,
    /// With --once: one JSON object
    #[arg(long, requires = "once")]
    pub json: bool,
    #[command(flatten)]
    pub router: RouterFlags,
}

/// Shows the farm until `q` is pressed, or once.
///
/// # Errors
/// There is no terminal, or with --once no answer of the router.
pub fn run(options: &Options) -> Result<(), Failure> {
    let router = Remote::new(&options.router)?;
    if options.once {
        return print_once(&router, options.json);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "heddle top needs a terminal; scripts ask by `heddle top --once --json`".to_owned(),
        ));
    }
    let (wishes, wanted) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let asking = std::thread::Builder::new().name("asking".to_owned());
    let asking = asking.spawn(move || answer(&router, &wanted, &tell));
    asking.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let failed =
        |error: std::io::Error| Failure::new(format!("the terminal does not work: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = show(&mut terminal, &wishes, &told);
    ratatui::restore();
    shown.map_err(failed)
}

fn print_once(router: &Remote, as_json: bool) -> Result<(), Failure> {
    let runtime = runtime()?;
    let mut picture = Value::Null;
    for _ in 0..TRIES {
        let answer = runtime.block_on(router.get("/v1/live"))?;
        picture = answer["picture"].clone();
        if !traffic(&picture).is_null() {
            break;
        }
        std::thread::sleep(PERIOD);
    }
    printing::put(&match as_json {
        true => format!("{}\n", once::object(&picture, epoch_ms())),
        false => once::table(&picture),
    });
    Ok(())
}

/// What the thread beside is to ask.
enum Wanted {
    View(View),
    Kill { id: u64, query: bool },
}

/// Asks for the picture and the view's rows again and again, and in between what is wished, until nobody wishes.
fn answer(router: &Remote, wanted: &Receiver<Wanted>, tell: &Sender<Input>) {
    let Ok(runtime) = runtime() else { return };
    let mut view = View::Overview;
    let mut next = Instant::now();
    loop {
        let input = match wanted.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Wanted::View(wished)) => {
                view = wished;
                rows(router, &runtime, view)
            }
            Ok(Wanted::Kill { id, query }) => Some(runtime.block_on(kill(router, id, query))),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                next = Instant::now() + PERIOD;
                let answer = runtime.block_on(router.get("/v1/live"));
                let picture = Input::Picture(answer.map_err(|failure| failure.text));
                if tell.send(picture).is_err() {
                    return;
                }
                rows(router, &runtime, view)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        if input.is_some_and(|input| tell.send(input).is_err()) {
            return;
        }
    }
}

fn rows(router: &Remote, runtime: &tokio::runtime::Runtime, view: View) -> Option<Input> {
    let (group, command) = view.command()?;
    let mut call = Call::new(group, command, &[]);
    if view == View::Digests {
        call.options
            .insert("limit".to_owned(), DIGESTS_MAX.to_owned());
    }
    let rows = runtime.block_on(router.rows(&call));
    Some(Input::Rows(view, rows.map_err(|failure| failure.text)))
}

async fn kill(router: &Remote, id: u64, query: bool) -> Input {
    let mut call = Call::new("session", "kill", &[&id.to_string()]);
    if query {
        call.options.insert("query".to_owned(), "true".to_owned());
    }
    let done = router.rows(&call).await;
    Input::Killed(match done {
        Ok(_) => Ok(format!(
            "session {id} was ended, as by `heddle session kill {id}`"
        )),
        Err(failure) => Err(failure.text),
    })
}

fn show(
    terminal: &mut DefaultTerminal,
    wishes: &Sender<Wanted>,
    told: &Receiver<Input>,
) -> std::io::Result<()> {
    let mut top = Top::new();
    loop {
        terminal.draw(|frame| screen::draw(frame, &mut top))?;
        let mut inputs = Vec::new();
        while inputs.is_empty() {
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                        inputs.extend(key(pressed.code, pressed.modifiers).map(Input::Key));
                    }
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            inputs.extend(told.try_iter());
        }
        for input in inputs {
            let wanted = match top.step(input) {
                None => continue,
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Ask(view)) => Wanted::View(view),
                Some(Wish::Kill { id, query }) => Wanted::Kill { id, query },
            };
            // The thread ends only when there is no memory or no runtime; the screen stays what it is then.
            let _ = wishes.send(wanted);
        }
    }
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
