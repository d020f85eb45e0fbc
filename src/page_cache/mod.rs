//! The page cache: whole answers of PHP or of an origin, kept for visitors whom nothing tells from others.
//!
//! A page in memory that is fresh is answered in the lane as a file is. All else goes through Pingora, whose cache runs one
//! request for many that wait, judges answers by their Cache-Control and falls back on an old page when the application
//! fails; where pages are kept is this room's own ([`storage`] is its side for Pingora).
//!
//! What a page may depend on is in its key, and the request that fills it says nothing else to the application: unknown
//! cookies pass by the cache, known harmless ones are left out, as are languages, referrers and the like. So a page never
//! holds what one visitor alone should see, unless the application knows that visitor by address.
//!
//! | file | what it answers |
//! |---|---|
//! | [`settings`] | what is a site's page cache told, and the store? |
//! | [`site_pages`] | may this request be answered by a page, and by which? |
//! | [`key`] | the name of a page |
//! | [`storable`] | may this answer be kept, and for how long? |
//! | [`page`] | a kept answer, and what a request gets of it |
//! | [`coded`] | its compressed forms, made aside |
//! | [`store`] | the pages in memory |
//! | [`disk`] | the pages on disk |
//! | [`purge`] | what is to be forgotten, and who may say so |
//! | [`storage`] | the store as Pingora's cache sees it |
//! | [`counters`] | what is counted |

pub mod coded;
pub mod counters;
pub mod disk;
pub mod key;
pub mod page;
pub mod purge;
pub mod settings;
pub mod site_pages;
pub mod storable;
pub mod storage;
pub mod store;

#[cfg(test)]
mod tests;

pub use counters::PageOutcome;
pub use page::Page;
pub use purge::Purge;
pub use settings::{Rules, Store as StoreKind, StoreSettings};
pub use site_pages::{Bypass, SitePages};
pub use store::PageStore;
