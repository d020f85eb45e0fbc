//! The command: reads its line, reads its settings, runs.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use nostat::admin::{client, table};
use nostat::cli::{Asking, Command, Examination, Forget, Question, Source};
use nostat::clock::Clock;
use nostat::config_watch::ConfigWatch;
use nostat::doctor;
use nostat::import;
use nostat::php_socket::{self, Outcome};
use nostat::settings::{self, Mistake, Settings};
use nostat::{logging, server, tls};

fn main() -> ExitCode {
    match Command::from_process() {
        Command::Check(file) => match settings::load(&file) {
            Ok(settings) => {
                warn_of_certificates(&settings);
                say(&format!("{}: ok", file.display()));
                ExitCode::SUCCESS
            }
            Err(mistakes) => refuse(&mistakes),
        },
        Command::Doctor(examination) => examine(&examination),
        Command::Ask(asking) => ask(&asking),
        Command::Import { file, site } => match import::import(&file, site.as_deref()) {
            Ok(imported) => {
                say(imported.yaml.trim_end());
                complain(&imported.summary());
                match imported.is_partial() {
                    true => ExitCode::from(LEFT_OUT),
                    false => ExitCode::SUCCESS,
                }
            }
            Err(unreadable) => fail(&format!("nostat: {unreadable}")),
        },
        Command::Serve(Source::Config(file), format) => {
            // A change that comes while they are read is seen later.
            let watch = ConfigWatch::new(file.clone());
            match settings::load(&file) {
                Ok(settings) => serve(settings, Some((file, watch)), format),
                Err(mistakes) => refuse(&mistakes),
            }
        }
        Command::Serve(Source::Root { root, php, listen }, format) => {
            let php = php.or_else(found_php);
            match std::path::absolute(&root) {
                Ok(root) => serve(Settings::for_root(root, php, listen), None, format),
                Err(error) => fail(&format!("nostat: {}: {error}", root.display())),
            }
        }
    }
}

/// Such a certificate is no reason to refuse the settings: a server that does not start helps nobody.
fn warn_of_certificates(settings: &Settings) {
    let now = Clock::system().unix();
    let all = settings.listen.iter().filter_map(|it| it.tls.as_ref());
    for trouble in all.flat_map(|tls| tls::validity::troubles(tls, now)) {
        complain(&format!("warning: {trouble}"));
    }
}

/// The exit status of an import that is not whole.
const LEFT_OUT: u8 = 2;

fn serve(
    settings: Settings,
    file: Option<(std::path::PathBuf, ConfigWatch)>,
    format: logging::Format,
) -> ExitCode {
    logging::start(format);
    match server::run(settings, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("nostat: {error}")),
    }
}

fn examine(examination: &Examination) -> ExitCode {
    let settings = match settings::load(&examination.config) {
        Ok(settings) => settings,
        Err(mistakes) => {
            refuse(&mistakes);
            return ExitCode::from(UNUSABLE);
        }
    };
    if let Some(url) = &examination.compare
        && let Err(why) = doctor::compare::check(url)
    {
        complain(&format!("nostat: --compare {url}: {why}"));
        return ExitCode::from(UNUSABLE);
    }
    let progress = doctor::progress::Progress::start(std::io::stderr().is_terminal());
    let report = doctor::examine(&settings, examination.compare.as_deref(), &|what| {
        progress.tell(what);
    });
    progress.end();
    match examination.json {
        true => say(&format!("{:#}", report.json())),
        false => say(report.text(std::io::stdout().is_terminal()).trim_end()),
    }
    match report.has_problem() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The exit status of a doctor who was given nothing to look at.
const UNUSABLE: u8 = 2;

fn ask(asking: &Asking) -> ExitCode {
    let socket = &asking.socket;
    let (method, path) = asked(asking);
    match client::ask(socket, method, &path) {
        Ok(said) if said.done => {
            say(shown(asking, &said.text).trim_end());
            ExitCode::SUCCESS
        }
        Ok(said) => fail(said.text.trim_end()),
        Err(error) => fail(&format!(
            "nostat: {}: {error}; is a server running with admin: {{socket: …}}?",
            socket.display()
        )),
    }
}

/// The request for a question.
fn asked(asking: &Asking) -> (hyper::Method, String) {
    use hyper::Method;
    let limit;
    let (method, path, mut pairs) = match &asking.question {
        Question::Status => (Method::GET, "/metrics", Vec::new()),
        Question::Reload => (Method::POST, "/reload", Vec::new()),
        Question::Upgrade => (Method::POST, "/upgrade", Vec::new()),
        Question::List(prefix, most) => {
            limit = most.to_string();
            let pairs = vec![("prefix", &**prefix), ("limit", &*limit)];
            (Method::GET, "/cache", pairs)
        }
        Question::Show(path) => (Method::GET, "/cache/entry", vec![("path", &**path)]),
        Question::Purge(what) => {
            let pair = match what {
                Forget::All => ("all", ""),
                Forget::Path(path) => ("path", &**path),
                Forget::Prefix(prefix) => ("prefix", &**prefix),
                Forget::Tag(tag) => ("tag", &**tag),
            };
            (Method::POST, "/cache/purge", vec![pair])
        }
        Question::Warm(pattern) => (Method::POST, "/cache/warm", vec![("path", &**pattern)]),
    };
    pairs.extend(asking.site.as_deref().map(|site| ("site", site)));
    match pairs.is_empty() {
        true => (method, path.to_owned()),
        false => (method, format!("{path}?{}", client::query(&pairs))),
    }
}

/// An answer for a terminal.
fn shown(asking: &Asking, text: &str) -> String {
    let show: fn(&serde_json::Value) -> String = match asking.question {
        Question::Status | Question::Reload | Question::Upgrade => return text.to_owned(),
        Question::List(..) => table::listing,
        Question::Show(_) => table::explanation,
        Question::Purge(_) => |said| table::numbers(said, "forgotten"),
        Question::Warm(_) => |said| table::numbers(said, "taken in"),
    };
    match serde_json::from_str(text) {
        Ok(said) if !asking.json => show(&said),
        _ => text.to_owned(),
    }
}

/// The PHP-FPM of this machine, named to the user; nothing when there is none, or it is not ours to use.
fn found_php() -> Option<nostat::fastcgi::Address> {
    let search = php_socket::search(php_socket::DIRECTORY.as_ref());
    complain(&format!("nostat: {search}"));
    match search.outcome {
        Outcome::Found { path, .. } => Some(nostat::fastcgi::Address::Unix(path)),
        Outcome::Forbidden { .. } | Outcome::None => None,
    }
}

fn refuse(mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        complain(&mistake.to_string());
    }
    ExitCode::FAILURE
}

fn fail(why: &str) -> ExitCode {
    complain(why);
    ExitCode::FAILURE
}

/// The command's own answer. Who has heard enough (`| head`) may close.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The command's own complaint.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
