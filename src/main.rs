//! The command: reads its line, reads its settings, runs.

use std::process::ExitCode;

use nostat::admin::client;
use nostat::cli::{Command, Question, Source};
use nostat::php_socket::{self, Outcome};
use nostat::settings::{self, Mistake, Settings};
use nostat::{logging, server};

fn main() -> ExitCode {
    match Command::from_process() {
        Command::Check(file) => match settings::load(&file) {
            Ok(_) => {
                say(&format!("{}: ok", file.display()));
                ExitCode::SUCCESS
            }
            Err(mistakes) => refuse(&mistakes),
        },
        Command::Ask(question, socket) => ask(question, &socket),
        Command::Serve(Source::Config(file)) => match settings::load(&file) {
            Ok(settings) => serve(settings, Some(file)),
            Err(mistakes) => refuse(&mistakes),
        },
        Command::Serve(Source::Root { root, php, listen }) => {
            let php = php.or_else(found_php);
            match std::path::absolute(&root) {
                Ok(root) => serve(Settings::for_root(root, php, listen), None),
                Err(error) => fail(&format!("nostat: {}: {error}", root.display())),
            }
        }
    }
}

fn serve(settings: Settings, file: Option<std::path::PathBuf>) -> ExitCode {
    logging::start();
    match server::run(settings, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("nostat: {error}")),
    }
}

fn ask(question: Question, socket: &std::path::Path) -> ExitCode {
    let (method, path) = match question {
        Question::Status => (hyper::Method::GET, "/metrics"),
        Question::Reload => (hyper::Method::POST, "/reload"),
    };
    match client::ask(socket, method, path) {
        Ok(said) if said.done => {
            say(said.text.trim_end());
            ExitCode::SUCCESS
        }
        Ok(said) => fail(said.text.trim_end()),
        Err(error) => fail(&format!(
            "nostat: {}: {error}; is a server running with admin: {{socket: …}}?",
            socket.display()
        )),
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

#[expect(clippy::print_stdout, reason = "the command's own answer")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the command's own complaint")]
fn complain(text: &str) {
    eprintln!("{text}");
}
