//! What a path gets that is nothing in the tree: 404 here, or a page of the application.
//!
//! A start of WordPress costs some 50 ms of a CPU. A missing style sheet or image of its folders is not worth one; a
//! permalink is.

use crate::request::pattern::{Pattern, PatternError};
use crate::site::response;
use crate::site::settings::{MissingAssets, MissingPhp, Multisite, Preset, SiteSettings};
use crate::site::wordpress::{self, Layout};

/// The rules of one site for what is missing.
#[derive(Debug)]
pub struct MissingRules {
    preset: Preset,
    multisite: Multisite,
    scripts: MissingPhp,
    assets: MissingAssets,
    assets_of_php: Vec<Pattern>,
    layout: Layout,
}

/// What stands in for what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// 404.
    NotFound,
    /// The page that `/index.php` makes.
    FrontController,
    /// The script that sends files of an old network, with this query.
    NetworkFile(Vec<u8>),
}

impl MissingRules {
    /// Compiles a site's rules.
    ///
    /// # Errors
    /// A pattern of `missing_assets_php` that cannot be used.
    pub fn new(settings: &SiteSettings) -> Result<MissingRules, PatternError> {
        let patterns = settings.missing_assets_php.iter();
        Ok(MissingRules {
            preset: settings.preset,
            multisite: settings.multisite,
            scripts: settings.missing_php,
            assets: settings.missing_assets,
            assets_of_php: patterns
                .map(|text| Pattern::parse(text))
                .collect::<Result<_, _>>()?,
            layout: Layout::new(&settings.content_dir),
        })
    }

    /// For a path that is no file and no folder.
    #[must_use]
    pub fn path(&self, path: &[u8]) -> Instead {
        match self.preset {
            Preset::Static => Instead::NotFound,
            // Another application's routes may end as files do: `/users.json`, `/thumbnail/1.jpg`.
            Preset::Php => Instead::FrontController,
            Preset::Wordpress => self.path_of_wordpress(path),
        }
    }

    /// For a path with a script's suffix.
    #[must_use]
    pub fn script(&self) -> Instead {
        match (self.preset, self.scripts) {
            (Preset::Wordpress, MissingPhp::Wordpress) => Instead::FrontController,
            _ => Instead::NotFound,
        }
    }

    /// For a folder without an index.
    #[must_use]
    pub fn index(&self, folder: &[u8]) -> Instead {
        match self.preset {
            Preset::Static => Instead::NotFound,
            Preset::Php => Instead::FrontController,
            Preset::Wordpress if self.layout.is_of_wordpress(folder) => Instead::NotFound,
            Preset::Wordpress => Instead::FrontController,
        }
    }

    fn path_of_wordpress(&self, path: &[u8]) -> Instead {
        if self.multisite != Multisite::Off
            && let Some(file) =
                wordpress::network_file(path, self.multisite == Multisite::Subdirectory)
        {
            let mut query = b"file=".to_vec();
            response::encode(file, b"-._~/", &mut query);
            return Instead::NetworkFile(query);
        }
        let not_found = self.assets == MissingAssets::NotFound
            && self.layout.is_asset(path)
            && !self
                .assets_of_php
                .iter()
                .any(|pattern| pattern.matches(path));
        if not_found {
            Instead::NotFound
        } else {
            Instead::FrontController
        }
    }
}
