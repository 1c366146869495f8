"""What trouble means for a host and for the page that met it.

`cooldown` has the rule and the row; here it meets hosts in memory and the open batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..store import host_rows, keys
from .cooldown import PATIENCE, CooldownRule, Trouble, after_trouble, at_start

if TYPE_CHECKING:
    import random

    from ..store.batch import Batch
    from ..store.host_rows import Cooldown
    from .host import Host


class Cooled(NamedTuple):
    """A host's rest; ``is_new`` where the trouble counted as a strike. A page that does not keep its
    attempts must count this one."""

    cooldown: Cooldown
    is_new: bool
    keeps_attempts: bool


class Cooldowns:
    """Gives hosts their cooldown by *rule* and takes it back; rows go into the open batch. *rng* draws how
    much longer a rest is."""

    def __init__(self, batch: Batch, rule: CooldownRule, rng: random.Random) -> None:
        self._batch = batch
        self._rule = rule
        self._rng = rng
        # Most stores hold no cooldown at all: then no host that is loaded costs a lookup.
        self._latest = 0.0  # strike of this run
        self._are_any = next(batch.store.scan(keys.COOLDOWN, limit=1), None) is not None

    def recall(self, host: Host, opened_at: float) -> None:
        """Give a host that is loaded the cooldown in its row; one that was forgiven goes. A lookup, none
        where no host of the store has any."""
        stored = self._batch.store.get(keys.cooldown_key(host.name)) if self._are_any else None
        if stored is None:
            return
        latest = max(opened_at, self._latest)
        found = at_start(stored, latest, self._rule)
        if found.is_forgiven(latest):
            self._keep(host, None)
        else:
            host.cooldown, host.is_doubted = found, not found.is_answering

    def meet(self, host: Host, trouble: Trouble, now: float) -> Cooled:
        """Let *host* rest; its clock is the caller's.

        Trouble that may be the page's own does not double the rest of a host that answers otherwise. An
        attempt counts where the host answered other pages and this one met trouble again, from then on with
        each further trouble, and where the host did not answer at all for `cooldown.PATIENCE` strikes.
        """
        before, was_doubted = host.cooldown, host.is_doubted
        is_known = trouble.page_id in host.suspects
        if was_doubted and trouble.may_be_page and is_known:
            # Nobody else was asked in between; but it failed on its own before, or others got answers.
            was_doubted = not trouble.attempts and trouble.origin not in host.origins
        starts_over = trouble.may_be_page and not was_doubted
        found = after_trouble(before, self._rule, now, trouble, starts_over, self._rng.random())
        if found != before:
            self._are_any = True
            self._latest = max(self._latest, found.since)
            self._keep(host, found)
        is_new = before is None or found.since != before.since
        keeps = not is_new or (found.strikes <= PATIENCE if was_doubted else not is_known)
        if trouble.page_id is not None:
            host.suspect(trouble.page_id)
        host.cooldown, host.is_doubted = found, host.is_doubted or is_new
        host.trouble = trouble
        return Cooled(found, is_new, keeps)

    def answered(self, host: Host, sent: float, now: float) -> None:
        """A host with a cooldown answered a request that was handed out at *sent*: it is doubted no more, and
        forgiven half an hour after its rest. Nothing for what was sent before its last strike."""
        if host.cooldown is not None and sent >= host.cooldown.since:
            host.is_doubted, host.trouble = False, None
            if not host.cooldown.is_answering:
                host.cooldown = host.cooldown._replace(is_answering=True)
                self._keep(host, host.cooldown)
            if host.cooldown.is_forgiven(now):
                host.cooldown = None
                self._keep(host, None)

    def end_cooldown(self, name: str, host: Host | None, now: float) -> bool:
        """A host, in memory or not, need not rest any longer; whether it did at *now*. In the next batch; one
        lookup."""
        rest = host_rows.read_cooldown(self._batch.store, name)
        if rest is None or rest.until <= now:
            return False
        self._batch.rows[keys.cooldown_key(name)] = None
        if host is not None:
            host.cooldown, host.is_doubted, host.trouble = None, False, None
            host.reset_clock()
        return True

    def _keep(self, host: Host, found: Cooldown | None) -> None:
        row = None if found is None else host_rows.encode_cooldown(found)
        self._batch.rows[keys.cooldown_key(host.name)] = row
        self._batch.touch(host)
