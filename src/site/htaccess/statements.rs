//! The access statements of one section, and what they say together.
//!
//! `mod_access_compat` (Order, Allow, Deny) and `mod_authz_core` (Require and its containers). A file usually says the
//! same in both; where it does not, the denial counts.

use crate::site::htaccess::Verdict;

/// The statements read so far.
#[derive(Debug, Default)]
pub struct Statements {
    order: Option<Order>,
    allow_all: bool,
    allow_some: bool,
    deny_all: bool,
    deny_some: bool,
    required: Group,
    /// Require containers that are open, the innermost last.
    open: Vec<Group>,
}

impl Statements {
    /// Takes in one directive; its name in lower case. Others than access directives are left alone.
    pub fn directive(&mut self, name: &str, arguments: &[String]) {
        match name {
            "order" => self.order = Some(Order::parse(arguments)),
            "allow" | "deny" => self.from(name, arguments),
            "require" => {
                let told = Told::parse(arguments);
                self.innermost().add(told);
            }
            _ => {}
        }
    }

    /// Opens a container: `requireall`, `requireany` or `requirenone`.
    pub fn open(&mut self, name: &str) {
        let kind = match name {
            "requireall" => Kind::All,
            "requirenone" => Kind::None,
            _ => Kind::Any,
        };
        self.open.push(Group {
            kind,
            ..Group::default()
        });
    }

    /// Closes the innermost container.
    pub fn close(&mut self) {
        if let Some(group) = self.open.pop()
            && let Some(told) = group.outcome()
        {
            self.innermost().add(told);
        }
    }

    /// What the section says.
    #[must_use]
    pub fn verdict(mut self) -> Verdict {
        while !self.open.is_empty() {
            self.close();
        }
        let required = match self.required.outcome() {
            None => Verdict::Unsaid,
            Some(Told::Granted) => Verdict::Granted,
            Some(Told::Denied | Told::Neutral) => Verdict::Denied,
        };
        match (self.compat(), required) {
            (Verdict::Denied, _) | (_, Verdict::Denied) => Verdict::Denied,
            (Verdict::Unsaid, Verdict::Unsaid) => Verdict::Unsaid,
            _ => Verdict::Granted,
        }
    }

    fn from(&mut self, name: &str, arguments: &[String]) {
        let Some((from, whom)) = arguments.split_first() else {
            return;
        };
        if !from.eq_ignore_ascii_case("from") {
            return;
        }
        for one in whom {
            match (name, Whom::parse(one)) {
                ("allow", Whom::All) => self.allow_all = true,
                ("allow", _) => self.allow_some = true,
                (_, Whom::All) => self.deny_all = true,
                (_, Whom::Variable) => self.deny_some = true,
                // A list of unwanted clients, as hosters' panels write it into the root: nobody else is meant.
                (_, Whom::Addresses) => {}
            }
        }
    }

    /// Order, Allow and Deny. A denial by a variable counts for all unless all are allowed: nobody here can tell whom.
    fn compat(&self) -> Verdict {
        let said = self.order.is_some()
            || self.allow_all
            || self.allow_some
            || self.deny_all
            || self.deny_some;
        if !said {
            return Verdict::Unsaid;
        }
        let allowed = match self.order.unwrap_or(Order::DenyAllow) {
            Order::DenyAllow => self.allow_all || !(self.deny_all || self.deny_some),
            Order::AllowDeny => self.allow_all && !self.deny_all,
        };
        if allowed {
            Verdict::Granted
        } else {
            Verdict::Denied
        }
    }

    fn innermost(&mut self) -> &mut Group {
        self.open.last_mut().unwrap_or(&mut self.required)
    }
}

/// Which of Allow and Deny is the last word.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Allowed by default.
    DenyAllow,
    /// Denied by default; also `mutual-failure`.
    AllowDeny,
}

impl Order {
    fn parse(arguments: &[String]) -> Order {
        let joined = arguments.concat();
        if joined.eq_ignore_ascii_case("deny,allow") {
            Order::DenyAllow
        } else {
            Order::AllowDeny
        }
    }
}

/// Whom an Allow or a Deny is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    /// `env=…`: whoever the server's other directives say.
    Variable,
    /// Some addresses, networks or hosts.
    Addresses,
}

impl Whom {
    fn parse(word: &str) -> Whom {
        if word.eq_ignore_ascii_case("all") {
            return Whom::All;
        }
        if word
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("env="))
        {
            return Whom::Variable;
        }
        // `0.0.0.0/0`, `::/0`, `0.0.0.0/0.0.0.0`: no list of somebody has so wide a network.
        match word.split_once('/').map(|(_, mask)| mask) {
            Some(mask) if mask.parse().is_ok_and(|bits: u8| bits < WIDEST_NETWORK) => Whom::All,
            Some(mask) if mask.starts_with("0.") => Whom::All,
            _ => Whom::Addresses,
        }
    }
}

/// Bits of the prefix from which on a network is some addresses.
const WIDEST_NETWORK: u8 = 8;

/// What one Require says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Granted,
    Denied,
    /// A negation of what cannot be verified: it never grants, and shuts out only some.
    Neutral,
}

impl Told {
    fn parse(arguments: &[String]) -> Told {
        let is = |at: usize, word: &str| {
            arguments
                .get(at)
                .is_some_and(|a| a.eq_ignore_ascii_case(word))
        };
        match (is(0, "not"), is(0, "all"), is(1, "all")) {
            (false, true, _) if is(1, "granted") => Told::Granted,
            (true, _, true) if is(2, "denied") => Told::Granted,
            (true, _, false) => Told::Neutral,
            _ => Told::Denied,
        }
    }
}

/// How a container's members count together.
#[derive(Debug, Clone, Copy, Default)]
enum Kind {
    #[default]
    Any,
    All,
    None,
}

#[derive(Debug, Default)]
struct Group {
    kind: Kind,
    granted: bool,
    denied: bool,
    neutral: bool,
}

impl Group {
    fn add(&mut self, told: Told) {
        match told {
            Told::Granted => self.granted = true,
            Told::Denied => self.denied = true,
            Told::Neutral => self.neutral = true,
        }
    }

    /// None when nothing stood in it.
    fn outcome(&self) -> Option<Told> {
        if !(self.granted || self.denied || self.neutral) {
            return None;
        }
        Some(match self.kind {
            Kind::Any if self.granted => Told::Granted,
            Kind::Any => Told::Denied,
            Kind::All if self.denied => Told::Denied,
            Kind::All if self.granted => Told::Granted,
            Kind::None if self.granted => Told::Denied,
            Kind::All | Kind::None => Told::Neutral,
        })
    }
}
