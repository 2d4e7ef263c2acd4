"""A Control that serves: the context, and what lives as long as the server does."""

from dataclasses import dataclass

from control.approvals import ApprovalDesk
from control.context import ControlContext
from control.receipt_trust import load_receipt_signers
from control.routines import RoutineRunner
from control.spending import SpendingDesk
from control.turn_runner import TurnRunner
from control.wallets import WalletDesk
from facts.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """`runner` runs turns, `approvals` holds the requests that wait, `spending` guards budgets.

    `wallets` holds open ceremonies, `routines` starts what is due.
    """

    context: ControlContext
    approvals: ApprovalDesk
    runner: TurnRunner
    spending: SpendingDesk
    wallets: WalletDesk
    routines: RoutineRunner


def make_service(context: ControlContext, *, control_url: str) -> Service:
    """The service over a context; `control_url` is what harnesses are told to call."""
    approvals = ApprovalDesk(context)
    trust = Trust(keys=context.index.keys, receipt_signers=load_receipt_signers(context.root))
    runner = TurnRunner(context, approvals, control_url=control_url)
    return Service(
        context=context,
        approvals=approvals,
        runner=runner,
        spending=SpendingDesk(context, trust),
        wallets=WalletDesk(context),
        routines=RoutineRunner(context, runner),
    )
