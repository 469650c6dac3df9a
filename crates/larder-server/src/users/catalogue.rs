//! The commands and subcommands that users may have a right to, each with a number.

use larder_resp::Args;

use crate::spec::CommandSpec;

/// All commands, and all of their subcommands.
#[derive(Debug)]
pub(crate) struct Catalogue {
    specs: &'static [CommandSpec],
    /// For each command the number of its first subcommand. Those of commands are their positions.
    first_subcommands: Box<[usize]>,
    len: usize,
}

/// A command, or a subcommand by its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) spec: &'static CommandSpec,
    pub(crate) subcommand: Option<usize>,
}

impl Named {
    /// The name of the subcommand.
    fn subcommand_name(&self) -> Option<&'static str> {
        self.subcommand.map(|position| self.spec.subcommands[position])
    }

    pub(crate) fn has_subcommand(&self) -> bool {
        self.subcommand.is_some()
    }

    /// The name in lower case, with that of the command before a subcommand.
    pub(crate) fn full_name(&self) -> String {
        match self.subcommand_name() {
            None => self.spec.name.to_owned(),
            Some(subcommand) => format!("{}|{subcommand}", self.spec.name),
        }
    }

    /// Whether it is in a category.
    pub(crate) fn is_in(&self, category: &str) -> bool {
        match self.subcommand_name() {
            None => self.spec.categories().any(|name| name == category),
            Some(subcommand) => self.spec.subcommand_categories(subcommand).any(|name| name == category),
        }
    }
}

impl Catalogue {
    pub(super) fn new(specs: &'static [CommandSpec]) -> Self {
        let mut len = specs.len();
        let first_subcommands = specs.iter().map(|spec| {
            let first = len;
            len += spec.subcommands.len();
            first
        });
        let first_subcommands = first_subcommands.collect();
        Catalogue { specs, first_subcommands, len }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of them, each command before its subcommands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Named> + use<> {
        self.specs.iter().flat_map(|spec| {
            let subcommands = (0..spec.subcommands.len()).map(Some);
            std::iter::once(None).chain(subcommands).map(move |subcommand| Named { spec, subcommand })
        })
    }

    pub(super) fn number(&self, named: Named) -> usize {
        let command = usize::from(named.spec.index);
        named.subcommand.map_or(command, |position| self.first_subcommands[command] + position)
    }

    /// The command of a request, or its subcommand. One that is not known counts as the command itself.
    pub(crate) fn of_request(&self, spec: &'static CommandSpec, args: Args<'_>) -> Named {
        let subcommand = args.get(1).and_then(|name| position(spec, name));
        Named { spec, subcommand }
    }

    /// The command of this name, or `command|subcommand`, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Named> {
        let (command, subcommand) = match name.iter().position(|byte| *byte == b'|') {
            None => (name, None),
            Some(bar) => (&name[..bar], Some(&name[bar + 1..])),
        };
        let command = command.to_ascii_lowercase();
        let index = self.specs.binary_search_by(|spec| spec.name.as_bytes().cmp(&command)).ok()?;
        let spec = &self.specs[index];
        match subcommand {
            None => Some(Named { spec, subcommand: None }),
            Some(name) => Some(Named { spec, subcommand: Some(position(spec, name)?) }),
        }
    }
}

fn position(spec: &CommandSpec, name: &[u8]) -> Option<usize> {
    spec.subcommands.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}
