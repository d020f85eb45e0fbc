//! Why a path is answered as it is, in words: for whoever looks into a running server.

use std::sync::Arc;

use crate::clock::UnixTime;
use crate::request::head::Method;
use crate::request::target::Target;
use crate::request::tree_path::TreePath;
use crate::site::decision::{Decision, Request};
use crate::site::response::Answer;
use crate::site::route::Resource;
use crate::site::static_site::StaticSite;

/// What becomes of a plain GET.
#[derive(Debug)]
pub struct Explanation {
    /// What the path is: `file`, `script`, `page`, `folder`, `missing`, `refused` or `unavailable`.
    pub kind: &'static str,
    /// The rule that says so.
    pub why: String,
    /// The file or script below the root that answers.
    pub path: Option<Vec<u8>>,
    /// The answer that is made here; none: PHP or an origin answers.
    pub answer: Option<Answer>,
}

impl StaticSite {
    /// Explains what a plain GET of this target gets, from files and folders alone.
    pub async fn explain(&self, target: &Target<'_>, now: UnixTime) -> Explanation {
        let request = Request {
            method: Method::Get,
            target,
            fields: &NO_FIELDS[..],
            conditional: false,
            now,
        };
        let generation = self.root().current();
        let located = self.router().locate(&generation, target).await;
        let (kind, why, path) = match located {
            Err(error) => ("unavailable", error.to_string(), None),
            Ok(Resource::Refused) => ("refused", self.refusal(&target.path), None),
            Ok(Resource::File { path, .. }) => {
                let is_allowed = self.allows(&generation, &path, &request).await;
                match is_allowed {
                    true => ("file", "a file of the tree".to_owned(), Some(path.to_vec())),
                    false => (
                        "refused",
                        "the rules of a .htaccess on its way deny it (htaccess: deny)".to_owned(),
                        Some(path.to_vec()),
                    ),
                }
            }
            Ok(Resource::Script(script)) => {
                ("script", "a script of the tree".to_owned(), Some(script.path))
            }
            Ok(Resource::FrontController) => (
                "page",
                "nothing of that name is in the tree: the application's index.php answers".to_owned(),
                Some(b"index.php".to_vec()),
            ),
            Ok(Resource::Folder) => (
                "folder",
                "a folder, named without its slash".to_owned(),
                None,
            ),
            Ok(Resource::Missing(_)) => (
                "missing",
                "not in the tree, and no page of the application by its name (missing_assets, missing_php)"
                    .to_owned(),
                None,
            ),
        };
        let answer = match self.decide(&request).await {
            Decision::Answer(answer) => Some(answer),
            Decision::Script(_) | Decision::Origin => None,
        };
        Explanation {
            kind,
            why,
            path,
            answer,
        }
    }

    fn refusal(&self, path: &[u8]) -> String {
        match self.router().access().refusal(path) {
            Some(refusal) => refusal.to_string(),
            None => "a PHP source that is never sent, or a script where PHP never runs (no_php)"
                .to_owned(),
        }
    }

    async fn allows(
        &self,
        generation: &Arc<crate::descriptor_cache::RootGeneration>,
        path: &[u8],
        request: &Request<'_, [(Vec<u8>, Vec<u8>)]>,
    ) -> bool {
        let path = TreePath::new(path).unwrap_or(TreePath::ROOT);
        self.is_allowed(generation, path, request)
            .await
            .unwrap_or(false)
    }
}

const NO_FIELDS: [(Vec<u8>, Vec<u8>); 0] = [];
