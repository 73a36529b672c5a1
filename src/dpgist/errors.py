"""Everything dpgist raises for a reason a user can act on."""


class DpgistError(Exception):
    """Root of dpgist's own errors: a rule, the value that broke it, the way out."""


class PrivacyError(DpgistError):
    """Raised where going on would void a guarantee."""


class BudgetExceeded(PrivacyError):
    """The ledger has no room for this release; no row was read."""


class DataError(DpgistError):
    """Public structure (header, file, schema, artefact) breaks its contract; never a cell."""


class ArtefactError(DataError):
    """A gist, model or ledger file is truncated, altered or of another kind."""
