"""`polyc budget set` and `polyc price set`: what may be spent, and what a model's tokens cost from a day on."""

from argparse import Namespace
from typing import Literal

from control import money
from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of


def budget_set(arguments: Namespace) -> int:
    """Set a budget; the last one of a subject, asset and network counts."""
    kind: Literal["persona", "wallet", "conversation"]
    kind = "persona" if arguments.persona else "wallet" if arguments.wallet else "conversation"
    with opened(root_of(arguments)) as deployment:
        money.set_budget(
            deployment.control().context,
            subject_kind=kind,
            subject=arguments.persona or arguments.wallet or arguments.conversation,
            asset=arguments.asset,
            network=arguments.network,
            amount_base_units=arguments.amount,
            window_s=arguments.window_s,
        )
    note("the budget is set")
    return 0


def price_set(arguments: Namespace) -> int:
    """Set a model's price from a day on."""
    with opened(root_of(arguments)) as deployment:
        money.set_price(
            deployment.control().context,
            model=arguments.model,
            valid_from=arguments.valid_from,
            currency=arguments.currency,
            input_per_million=arguments.input,
            output_per_million=arguments.output,
            cache_read_per_million=arguments.cache_read,
            cache_write_per_million=arguments.cache_write,
        )
    note("the price is set")
    return 0
