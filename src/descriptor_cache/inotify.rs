//! The kernel's side of watching: one inotify descriptor, its watches and events.
//!
//! A watch is added through `/proc/self/fd` of a directory that is open: added by path it could stand on another
//! directory after a rename. The kernel numbers watches by inode, so two ways to one directory share one.
//!
//! `IN_EXCL_UNLINK` is not asked for: it hides writes through a descriptor whose own name is gone while the file has got
//! another one (`O_TMPFILE`, then a link).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
};
use rustix::io::Errno;

/// An inotify descriptor.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl Inotify {
    /// A descriptor that never blocks.
    ///
    /// # Errors
    /// EMFILE when the user has `fs.inotify.max_user_instances` of them.
    pub fn new() -> Result<Self, Errno> {
        init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map(Self)
    }

    /// Watches an open directory for `scope`, beside what it is watched for already; the number of its watch.
    ///
    /// # Errors
    /// ENOSPC when the user has `fs.inotify.max_user_watches` of them; EACCES when the directory may not be listed.
    pub fn watch(&self, directory: impl AsFd, scope: Scope) -> Result<i32, Errno> {
        let path = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
        let mask = match scope {
            Scope::Content => NAMES.union(CONTENT),
            Scope::Names => NAMES,
        };
        add_watch(
            &self.0,
            path,
            mask | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD,
        )
    }

    /// Gives a watch back.
    pub fn unwatch(&self, watch: i32) {
        // EINVAL: the directory is gone, and its watch with it.
        let _ = remove_watch(&self.0, watch);
    }

    /// Hands all pending events to `each`.
    pub fn read(&self, mut each: impl FnMut(Event<'_>)) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.0, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => each(Event {
                    watch: event.wd(),
                    kind: Kind::of(event.events()),
                    name: event.file_name().map(std::ffi::CStr::to_bytes),
                }),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a directory is watched for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Names that come and go, their attributes, and what is written to files.
    Content,
    /// Names and attributes alone: for directories above a root, where others may write all the time.
    Names,
}

/// One event.
#[derive(Copy, Clone, Debug)]
pub struct Event<'a> {
    /// The number of the watch.
    pub watch: i32,
    /// What happened.
    pub kind: Kind,
    /// The name in the directory; `None`: the directory itself.
    pub name: Option<&'a [u8]>,
}

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The queue was full, and events were dropped.
    Overflow,
    /// The watch is no more.
    Ended,
    /// The directory was removed or moved.
    SelfGone,
    /// A name came, went, or stands for something else.
    Renamed,
    /// Content or attributes changed.
    Changed,
}

impl Kind {
    fn of(mask: ReadFlags) -> Self {
        if mask.contains(ReadFlags::QUEUE_OVERFLOW) {
            Self::Overflow
        } else if mask.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
            Self::Ended
        } else if mask.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
            Self::SelfGone
        } else if mask.intersects(
            ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO,
        ) {
            Self::Renamed
        } else {
            Self::Changed
        }
    }
}

const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);
const CONTENT: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE);
const BUFFER: usize = 16 << 10;
