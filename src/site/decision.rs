//! What a site is asked and what it decides.

use std::sync::Arc;

use crate::clock::UnixTime;
use crate::descriptor_cache::RootGeneration;
use crate::request::fields::Fields;
use crate::request::head::Method;
use crate::request::target::Target;
use crate::site::response::Answer;

/// What a site needs to know of a request. `F` holds the fields, whatever the protocol.
#[derive(Debug)]
pub struct Request<'a, F: ?Sized> {
    /// The method.
    pub method: Method<'a>,
    /// The request target, decoded once.
    pub target: &'a Target<'a>,
    /// The fields.
    pub fields: &'a F,
    /// Whether any field of a precondition or a Range may be among them; a head without is not searched.
    pub conditional: bool,
    /// The wall-clock time.
    pub now: UnixTime,
}

impl<F: Fields + ?Sized> Request<'_, F> {
    /// Whether the method is GET or HEAD.
    #[must_use]
    pub fn reads(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head)
    }
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum Decision {
    /// This is the answer.
    Answer(Answer),
    /// PHP answers it.
    Script(Script),
    /// The HTTP origin answers it.
    Origin,
}

/// The script that answers a request.
#[derive(Debug, Clone)]
pub struct Script {
    /// The resolution of the root that found it: DOCUMENT_ROOT and SCRIPT_FILENAME come from here.
    pub generation: Arc<RootGeneration>,
    /// SCRIPT_NAME: the script's path below the root, with its leading slash.
    pub script_name: Vec<u8>,
    /// PATH_INFO; empty: none.
    pub path_info: Vec<u8>,
    /// QUERY_STRING where it is not the request's own.
    pub query: Option<Vec<u8>>,
}
